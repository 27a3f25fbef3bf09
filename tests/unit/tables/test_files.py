"""Small files: YAML in, bytes out whole or not at all."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from sherd.errors import FormatError, StorageError, UsageError
from sherd.tables.files import read_yaml, write_whole

if TYPE_CHECKING:
    from pathlib import Path


def _yaml(tmp_path: Path, text: str | bytes, **more: Any) -> Any:
    path = tmp_path / "file.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_yaml(path, **more)


def test_scalars_are_typed_or_left_as_they_are(tmp_path: Path) -> None:
    """A label called ``no`` or ``007`` stays one where types are not wanted."""
    text = "{a: 1, b: no, c: [007, 1e3]}"
    assert _yaml(tmp_path, text)["b"] is False
    assert _yaml(tmp_path, text, typed=False) == {"a": "1", "b": "no", "c": ["007", "1e3"]}


def test_a_mark_of_the_encoding_is_skipped(tmp_path: Path) -> None:
    """Some editors put one at the beginning."""
    assert _yaml(tmp_path, b"\xef\xbb\xbfa: 1") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "the key 'a' is given twice"),
        ("x:\n  a: 1\n  a: 2\n", "line 2"),
        ("a: [1\nb: 2", "not valid YAML"),
        ("? [1]\n: 2\n", "a key is itself a list"),
        ("a: !!python/object:os.system {}", "not valid YAML"),
        (b"a: caf\xe9", "not UTF-8"),
        ("a: \x00", "not valid YAML"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str | bytes, message: str) -> None:
    """Twice the same key too, of which YAML would take the last without a word."""
    with pytest.raises(FormatError, match=message):
        _yaml(tmp_path, text)


def test_many_keys_are_looked_through_as_well(tmp_path: Path) -> None:
    """The check has no limit."""
    text = "".join(f"k{i}: 1\n" for i in range(12_000)) + "k5: 2\n"
    with pytest.raises(FormatError, match="'k5' is given twice"):
        _yaml(tmp_path, text)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    """Wrong usage where there is nothing, a failure of the disk where it cannot be read."""
    with pytest.raises(UsageError, match="does not exist"):
        read_yaml(tmp_path / "none.yaml")
    with pytest.raises(StorageError, match="cannot be read"):
        read_yaml(tmp_path)


def test_a_file_is_written_with_its_folders(tmp_path: Path) -> None:
    """And replaces an older one; its mode is as asked for."""
    path = tmp_path / "a" / "b.txt"
    write_whole(path, b"one")
    write_whole(path, b"two", mode=0o600)
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Neither the file nor what was staged for it, also where a person interrupts."""

    def fail(_handle: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    expected = StorageError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        write_whole(tmp_path / "x", b"data")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """Because a file is in its place."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        write_whole(tmp_path / "file" / "x", b"data")
