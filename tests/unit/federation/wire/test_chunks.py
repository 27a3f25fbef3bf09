"""Bulk in chunks: what is announced of a file is what is in it, and nothing is hashed twice."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from sherd.federation.protocol.messages import CHUNK
from sherd.federation.wire import chunks
from sherd.federation.wire.chunks import describe, describe_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZES = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_a_file_is_announced_as_its_bytes_are(size: int, known: bool, tmp_path: Path) -> None:
    """Whatever is known of it, and wherever it is cut."""
    data = bytes(range(251)) * (size // 251 + 1)
    path = tmp_path / "bulk"
    path.write_bytes(data[:size])
    sha256 = hashlib.sha256(data[:size]).hexdigest() if known else None
    assert describe_file(path, sha256=sha256) == describe(data[:size])


def test_a_short_file_whose_hash_is_known_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its one chunk has the same hash; a longer one is read for its chunks."""
    read: list[str] = []
    pieces = chunks.pieces

    def noted(path: Path) -> Iterator[bytes]:
        read.append(path.name)
        return pieces(path)

    monkeypatch.setattr(chunks, "pieces", noted)
    for name, size in (("short", CHUNK), ("long", CHUNK + 1)):
        path = tmp_path / name
        path.write_bytes(b"x" * size)
        describe_file(path, sha256=hashlib.sha256(b"x" * size).hexdigest())
    assert read == ["long"]
