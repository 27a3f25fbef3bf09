"""What holding new tuples back tells: the limit that the page and the promise state, measured."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import sherd
from sherd.guarantees.guarantee import WAITING
from sherd.methods.fragmenting.next_release_plan import follow
from sherd.methods.fragmenting.private_record import Kept

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "who": {"type": "integer", "role": "identifier"},
            "name": {"type": "integer"},
            "ill": {"type": "integer"},
        }
    }
)
ILLNESSES = 20


def released(ill: list[int], folder: Path, record: Kept | None, old: Path | None) -> sherd.Release:
    """A release of so many people, whose name is their number; it follows the old one."""
    everybody = list(range(len(ill)))
    table = pa.table({"who": everybody, "name": everybody, "ill": ill})
    plan = sherd.Plan(
        method="fragment",
        looseness=4,
        suppress=0.3,
        constraints={"constraints": [["name", "ill"]]},
        fragments=[["name"], ["ill"]],
    )
    if record is not None and old is not None:
        plan = follow(old, record, SCHEMA)
    settings = sherd.Settings(key="who", past=record, seed=1)
    made = sherd.protect(table, SCHEMA, plan, ledger=None, settings=settings)
    made.save(folder)
    return made


def candidates(release: sherd.Release) -> dict[int, set[int]]:
    """The illnesses with which every name is associated, from the released tables alone."""
    names: list[dict[str, Any]] = release.tables["fragment-1"].to_pylist()
    ills: list[dict[str, Any]] = release.tables["fragment-2"].to_pylist()
    (of_names,) = set(names[0]) - {"name"}
    (of_ills,) = set(ills[0]) - {"ill"}
    members: dict[Any, set[int]] = {}
    for row in ills:
        members.setdefault(row[of_ills], set()).add(row["ill"])
    listed: dict[Any, set[int]] = {}
    association = release.tables["association"]
    left, right = association.column_names[:2]
    for row in association.to_pylist():
        listed.setdefault(row[left], set()).update(members[row[right]])
    return {row["name"]: listed[row[of_names]] for row in names}


def test_waiting_tells_more_than_one_in_k_to_whoever_knows_who_joined_when(tmp_path: Path) -> None:
    """Most of those who waited are guessed by what their candidates have in common."""
    rng = np.random.default_rng(1)
    skewed = [0.4] + [0.6 / (ILLNESSES - 1)] * (ILLNESSES - 1)
    ill: list[int] = rng.integers(0, ILLNESSES, 200).tolist()
    first = released(ill, tmp_path / "1", None, None)
    assert isinstance(first.record, Kept)
    ill += rng.choice(ILLNESSES, p=skewed, size=60).tolist()
    second = released(ill, tmp_path / "2", first.record.of(tmp_path / "1"), tmp_path / "1")
    assert isinstance(second.record, Kept)
    assert WAITING in second.manifest["guarantee"]["not_covered"]
    ill += rng.integers(0, ILLNESSES, 200).tolist()
    third = released(ill, tmp_path / "3", second.record.of(tmp_path / "2"), tmp_path / "2")
    shown, now = candidates(second), candidates(third)
    waited = [name for name in range(200, 260) if name not in shown and name in now]
    common = Counter(value for name in waited for value in now[name])
    guessed = [max(sorted(now[name]), key=common.__getitem__) == ill[name] for name in waited]
    assert len(guessed) >= 8
    assert np.mean(guessed) > 0.5
