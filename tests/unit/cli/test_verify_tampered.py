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
        if not every and len(place) > 3 and number % 5:
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
            path.write_text(
                json.dumps(changed, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
            )
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


@pytest.mark.parametrize("kind", ["dp-um", "mondrian", "joint rows"])
def test_a_changed_manifest_fails(kind: str, made: dict[str, tuple[Path, str]]) -> None:
    """Some values of each part, one at a time: exit code 4, and never a traceback."""
    assert unexpected(accepted(kind, made, every=False)) == []


def edited(folder: Path, text: str, *place: Any, to: Any) -> int:
    """The exit code after one value was changed; the manifest is then as before."""
    changed = json.loads(text)
    inside = changed
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = to
    (folder / "manifest.json").write_text(
        json.dumps(changed, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    code = run(["verify", str(folder)])
    (folder / "manifest.json").write_text(text, encoding="utf-8")
    return code


@pytest.mark.parametrize(
    ("place", "to", "said"),
    [
        (("owners", "north", "fingerprint"), "-".join(["0000"] * 8), "owners: not as in the plan"),
        (("owners", "north", "key"), "00" * 32, "owners: not as in the plan: north"),
        (("owners", "north", "rows"), 31, "owners: not as in the plan: north"),
        (("owners", "north", "signature"), "00" * 64, "signatures: 1 of 2"),
        (("owners", "north", "artefact"), "none", "owners: not as in the plan: north"),
        (("owners",), [], "joint: owners: cannot be read"),
        (("owners",), {}, "owners: not as in the plan"),
        (("epsilon",), "0.1", "not as planned: epsilon"),
        (("round",), "r2", "not as planned: round"),
        (("linkage", "mode"), "oprf", "not as planned: linkage"),
        (("learns_beyond_the_release", "two owners"), [], "learns_beyond_the_release"),
        (("more",), 1, "not as planned: more"),
        (("dropped_out",), -7, "dropped: cannot be read"),
        (("dropped_out", "west"), "it is shy", "dropped out: not who was invited"),
        (("dropped_out", "north"), "the round's deadline has passed", "dropped out: not who"),
        (("plan", "shares"), [], "joint plan: cannot be read"),
        (("plan", "schemas"), {}, "joint plan: cannot be read"),
        (("plan", "composed"), "zzz", "joint plan: cannot be read"),
        (("plan", "shares", 0, "schema_hash"), "00" * 32, "joint plan: cannot be read"),
        (("plan", "shares", 0, "key"), "none", "joint plan: is not as stated"),
        (("plan", "terms", "purpose"), "another", "joint plan: is not as stated"),
    ],
)
def test_what_the_owners_signed_is_compared(
    place: tuple[Any, ...],
    to: Any,
    said: str,
    made: dict[str, tuple[Path, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every part of a joint release that follows from the signed plan fails when changed."""
    assert edited(*made["joint rows"], "joint", *place, to=to) == 4
    assert said in capsys.readouterr().out


def test_fingerprints_to_compare_are_those_of_the_plan(
    made: dict[str, tuple[Path, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not those that the manifest states beside the owners' names."""
    folder, text = made["joint rows"]
    owners = json.loads(text)["joint"]["owners"]
    edited(folder, text, "joint", "owners", "north", "fingerprint", to="0000")
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "owners' keys" in one]
    for owner in ("north", "south"):
        assert f"{owner} {owners[owner]['fingerprint']}" in line


@pytest.mark.parametrize(
    ("place", "to", "said"),
    [
        (("format",), 999, "FAIL  format"),
        (("format",), True, "FAIL  format"),
        (("stamps",), None, "FAIL  stamps: cannot be read"),
        (("guarantee",), "zzz", "FAIL  guarantee: cannot be read"),
        (("budget",), {}, "FAIL  budget: cannot be read: 'recorded'"),
        (("budget", "spent"), "0.5", "FAIL  budget: is not what the plan costs"),
        (("budget", "spent"), -7, "FAIL  budget: cannot be read"),
        (("budget", "recorded"), False, "FAIL  budget: says that nothing was recorded"),
        (("created",), "2001-01-01T00:00:00+00:00", "FAIL  data package"),
        (("files", "data.parquet", "rows"), 7, "FAIL  rows and columns: not as stated"),
        (("files", "data.parquet", "bytes"), 7, "FAIL  file data.parquet: it has another number"),
        (("files", "data.parquet", "columns"), 7, "FAIL  data package"),
        (("facts", "more"), 1, "FAIL  facts: not what plan, schema and tables lead to: more"),
        (("more",), 1, "FAIL  more: unknown"),
        (("plan", "epsilon"), "much", "FAIL  budget: what the plan costs cannot be told"),
    ],
)
def test_what_a_manifest_says_is_compared(
    place: tuple[Any, ...],
    to: Any,
    said: str,
    made: dict[str, tuple[Path, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The form, the budget, the files and the facts; the line names what is wrong."""
    assert edited(*made["dp-um"], *place, to=to) == 4
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "place", "to"),
    [
        ("strict", ("clusters", "age"), 47),
        ("strict", ("form",), "rows"),
        ("mondrian", ("quasi_identifiers",), ["age", "sex"]),
        ("mondrian", ("sensitive",), ["age"]),
        ("mondrian", ("bins", "pay"), [10.0, 50.0]),
        ("anatomy", ("bins", "pay"), [10.0, 60.0]),
        ("slice", ("bins", "pay"), [25.0, 50.0, 76.0]),
        ("slice", ("sensitive",), []),
        ("diffgen", ("leaves",), 1),
        ("diffgen", ("specialisations",), []),
        ("diffgen", ("specialisations", 0, "value"), "[21, 69]"),
        ("diffgen", ("specialisations", 0, "edges", 0), 1),
        ("diffgen", ("left_out",), []),
        ("fragment", ("constraints",), [["age", "ill"]]),
        ("fragment", ("withheld",), []),
        ("fragment", ("suppressed",), 399),
        ("fragment", ("sizes",), [1, 1]),
        ("fragment", ("fragmentation_minimal",), False),
    ],
)
def test_facts_are_worked_out_again(
    kind: str,
    place: tuple[Any, ...],
    to: Any,
    made: dict[str, tuple[Path, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Values that could be true, but are not."""
    assert edited(*made[kind], "facts", *place, to=to) == 4
    assert f"FAIL  facts: not what plan, schema and tables lead to: {place[0]}" in (
        capsys.readouterr().out
    )


def test_books_of_labels_are_held_against_the_labels(made: dict[str, tuple[Path, str]]) -> None:
    """What a label stands for cannot be changed, taken away or made up."""
    folder, text = made["mondrian"]
    labels = json.loads(text)["facts"]["labels"]
    age, town = labels["age"], labels["town"]
    first = next(label for label in age if label != "*")
    wrong: list[tuple[tuple[str, ...], Any]] = [
        (("age", first, "low"), "19"),
        (("age", first, "closed"), not age[first]["closed"]),
        (("age", first, "missing"), True),
        (("age",), {}),
        (("age",), age | {"[1, 2]": {"low": "1", "high": "2", "closed": True}}),
        (("age",), age | {first: {"low": "69", "high": "20", "closed": True}}),
        (("town",), town | {"South": {"values": ["Ulm"]}}),
        (("town",), town | {"South": {"values": ["Ulm", "Kiel"]}}),
        (("town",), town | {"South": {"values": ["Ulm", "Rome"]}}),
        (("town",), town | {"South": {"values": [1, 2]}}),
        (("sex",), {"F": {"values": ["M"]}}),
    ]
    for place, to in wrong:
        assert edited(folder, text, "facts", "labels", *place, to=to) == 4, (place, to)


@pytest.mark.parametrize("text", [None, "", '{"format": 1, "fil', "[]", "[" * 100_000])
def test_a_folder_without_a_manifest_that_can_be_read_fails(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 4 as for any release that is not what it says, in words and as JSON."""
    if text is not None:
        (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    assert run(["verify", str(tmp_path)]) == 4
    said = capsys.readouterr().out
    assert said.startswith("FAIL  manifest: ")
    assert ("each file's name" in said) == (text == "[]")
    assert run(["verify", str(tmp_path), "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["passed"] is False


def test_a_path_that_is_no_folder_is_wrong_usage(tmp_path: Path) -> None:
    """Nothing was verified: exit code 2."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert run(["verify", str(tmp_path / "nowhere")]) == 2
    assert run(["verify", str(tmp_path / "file")]) == 2


def test_a_changed_release_is_not_compared_with_an_earlier_one(
    made: dict[str, tuple[Path, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """What it shows together with another would be worth nothing."""
    folder, text = made["fragment"]
    changed = json.loads(text) | {"facts": None}
    (folder / "manifest.json").write_text(
        json.dumps(changed, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    assert run(["verify", str(folder), "--beside", str(folder)]) == 4
    (folder / "manifest.json").write_text(text, encoding="utf-8")
    assert "?     beside: " in capsys.readouterr().out
    assert run(["verify", str(folder), "--beside", str(made["dp-um"][0])]) == 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_change_of_a_manifest_fails(kind: str, made: dict[str, tuple[Path, str]]) -> None:
    """Every value, each in every way: exit code 4, or one of those that cannot be checked."""
    assert unexpected(accepted(kind, made, every=True)) == []
