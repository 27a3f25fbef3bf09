"""Whatever is changed in a manifest, `sherd verify` notices, or has said that it cannot."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from releases import KINDS

from sherd.cli import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GONE = object()
VALUES: tuple[Any, ...] = (None, -7, "zzz", [], {}, GONE)

UNCHECKED = (
    r"versions/(?!sherd$)\w+ deleted",
    r"budget/population zzz",
    # That the rows' order was kept no file shows; that numbers can be made again, the promise does.
    r"stamps/1 deleted",
    r"facts/(protocol|linkage|run) zzz",
    r"facts/(parties|computing)/\d+ (zzz|deleted)",
    r"facts/computing/\d+ deleted",
    r"facts/opened \[\]",
    r"facts/opened/\d+ deleted",
    r"facts/opened/\d+/what zzz",
    r"joint/owners/\w+/versions \{\}",
    r"joint/owners/\w+/versions/(?!sherd$)\w+ deleted",
)
"""Every change that nothing in a release tells: what, and to what."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str]]:
    """Releases by kind, with their manifests as they were written; made when asked for."""
    return _Made(tmp_path_factory)


class _Made(dict[str, "tuple[Path, str]"]):
    def __init__(self, factory: pytest.TempPathFactory) -> None:
        super().__init__()
        self._factory = factory

    def __missing__(self, kind: str) -> tuple[Path, str]:
        folder = self._factory.mktemp("made") / "out"
        KINDS[kind](folder)
        self[kind] = folder, (folder / "manifest.json").read_text(encoding="utf-8")
        return self[kind]


def paths(data: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value in a manifest, mappings and lists before what they hold."""
    keys = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        yield (*before, key)
        yield from paths(data[key], (*before, key))


def changes(manifest: dict[str, Any], *, every: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Changed manifests and what was changed: all, or a share in which each part occurs."""
    places = list(paths(manifest))
    for number, place in enumerate(places):
        # Plan, schema and joint plan are covered by hashes: a few places stand for all.
        hashed = place[0] in ("plan", "schema") or place[:2] == ("joint", "plan")
        if not every and hashed and number % 7:
            continue
        if not every and len(place) > 3 and number % 3:
            continue
        values = VALUES if every else (VALUES[number % 6], VALUES[(number + 3) % 6])
        for value in values:
            changed = copy.deepcopy(manifest)
            *above, last = place
            inside = changed
            for key in above:
                inside = inside[key]
            before = inside[last]
            if value is GONE:
                del inside[last]
            elif before == value and type(before) is type(value):
                continue
            else:
                inside[last] = value
            said = "deleted" if value is GONE else value if value == "zzz" else json.dumps(value)
            yield f"{'/'.join(map(str, place))} {said}", changed


def accepted(kind: str, made: dict[str, tuple[Path, str]], *, every: bool) -> list[str]:
    """What can be changed with verification passing; anything but 0 and 4 is an error."""
    folder, text = made[kind]
    path = folder / "manifest.json"
    found = []
    try:
        for what, changed in changes(json.loads(text), every=every):
            path.write_text(json.dumps(changed), encoding="utf-8")
            code = run(["verify", str(folder)])
            assert code in (0, 4), (what, code)
            if code == 0:
                found.append(what)
    finally:
        path.write_text(text, encoding="utf-8")
    return found


def unexpected(found: list[str]) -> list[str]:
    """What passes and is not among what cannot be checked."""
    return [what for what in found if not any(re.fullmatch(one, what) for one in UNCHECKED)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_passes_as_it_was_made(kind: str, made: dict[str, tuple[Path, str]]) -> None:
    """Every kind of release verifies before anything is changed."""
    assert run(["verify", str(made[kind][0])]) == 0


@pytest.mark.parametrize("kind", ["dp-um", "strict", "mondrian", "diffgen", "joint rows"])
def test_a_changed_manifest_fails(kind: str, made: dict[str, tuple[Path, str]]) -> None:
    """Some values of each part, one at a time: exit code 4, and never a traceback."""
    assert unexpected(accepted(kind, made, every=False)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_change_of_a_manifest_fails(kind: str, made: dict[str, tuple[Path, str]]) -> None:
    """Every value, each in every way: exit code 4, or one of those that cannot be checked."""
    assert unexpected(accepted(kind, made, every=True)) == []
