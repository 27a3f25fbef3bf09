from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.audit.verify.fragments import verify
from sherd.audit.verify.rerelease import verify_together
from sherd.errors import FormatError, InfeasibleError, TableError, UsageError
from sherd.fragments.association import associate
from sherd.fragments.constraints import Constraints
from sherd.fragments.rerelease import Change, Kept, first_release, rerelease, tables_of
from sherd.randomness import Randomness
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

RULES = Constraints(constraints=(("a", "c"), ("b", "d")))
FRAGMENTS = (("a", "b"), ("c", "d"))
SIZES = (2, 2)
SCHEMA = Schema.from_data({"attributes": {name: {"type": "integer"} for name in "abcd"}})
MANIFEST = {
    "plan": {"looseness": 4, "constraints": RULES.as_data()},
    "schema": SCHEMA.as_data(),
    "facts": {"fragments": [list(f) for f in FRAGMENTS], "sizes": list(SIZES)},
}


def table_of(keys: list[str]) -> pa.Table:
    """A row for every key, the same one whenever it is asked for."""
    rows = [np.random.default_rng(int(key)).integers(0, 80, 4) for key in keys]
    return pa.table({name: [int(row[at]) for row in rows] for at, name in enumerate("abcd")})


def first(keys: list[str], block: int | None = None) -> Kept:
    """A first release."""
    randomness = Randomness.seeded(1)
    made = associate(
        table_of(keys), SCHEMA, RULES, FRAGMENTS, SIZES, block=block, randomness=randomness
    )
    return first_release(made, keys, randomness)


def again(old: Kept, keys: list[str], **more: Any) -> Change:
    """The release after a change."""
    return rerelease(
        old, table_of(keys), keys, SCHEMA, RULES, FRAGMENTS, SIZES,
        randomness=Randomness.seeded(2), **more,
    )  # fmt: skip


def tables(kept: Kept) -> dict[str, pa.Table]:
    """What is published of a release."""
    return tables_of(kept, table_of(list(kept.keys)), FRAGMENTS, Randomness.seeded(3))


def passes(old: Kept, new: Kept) -> bool:
    """Whether the new release is loose, alone and beside the old one."""
    alone = verify(tables(new), MANIFEST)
    together = verify_together(tables(old), tables(new), MANIFEST)
    return all(check.passed is not False for check in [*alone, *together])


KEYS = [str(i) for i in range(300)]


def test_appended_tuples_get_groups_of_their_own() -> None:
    """Old tuples keep their groups, new ones share none with them, both releases pass."""
    old = first(KEYS)
    more = [*KEYS, *(str(i) for i in range(1000, 1060))]
    change = again(old, more)
    assert change.appended + change.held_back >= 60
    assert change.appended > 40
    assert (change.kept.groups[:, :300][:, old.groups[0] >= 0] ==
            old.groups[:, old.groups[0] >= 0]).all()  # fmt: skip
    fresh = change.kept.groups[:, 300:]
    for f in range(2):
        assert not set(fresh[f][fresh[f] >= 0]) & set(old.groups[f])
    assert passes(old, change.kept)


def test_too_few_new_tuples_are_held_back() -> None:
    """A single new tuple cannot be hidden; it waits, and comes with the next ones."""
    old = first(KEYS)
    change = again(old, [*KEYS, "1000"])
    assert change.appended == 0
    assert change.held_back >= 1
    assert passes(old, change.kept)
    later = again(change.kept, [*KEYS, *(str(i) for i in range(1000, 1060))])
    assert later.appended > 40
    assert passes(change.kept, later.kept)


def test_a_deletion_withdraws_its_block() -> None:
    """With blocks, a deleted tuple takes its block along, and the rest stays as it was."""
    old = first(KEYS, block=30)
    gone = next(key for key, g in zip(old.keys, old.groups[0], strict=True) if g >= 0)
    left = [key for key in KEYS if key != gone]
    change = again(old, left, most_withdrawn=0.2)
    assert change.deleted == 1
    assert 0 < change.withdrawn <= 40
    assert passes(old, change.kept)
    back = again(change.kept, left, most_withdrawn=0.2)
    assert back.appended == 0, "what was withdrawn does not come back"


def test_a_deletion_that_would_show_a_link_is_refused() -> None:
    """Where everything hangs together, one deletion would take the whole table."""
    old = first(KEYS)
    gone = next(key for key, g in zip(old.keys, old.groups[0], strict=True) if g >= 0)
    with pytest.raises(InfeasibleError, match="which parts of the deleted tuples"):
        again(old, [key for key in KEYS if key != gone])


def test_simply_leaving_a_tuple_out_is_caught() -> None:
    """The verifier finds the link that a careless deletion shows."""
    old = first(KEYS)
    careless = Kept(keys=old.keys, groups=old.groups.copy())
    at = int(np.flatnonzero(old.groups[0] >= 0)[0])
    careless.groups[:, at] = -1
    together = verify_together(tables(old), tables(careless), MANIFEST)
    assert any(check.passed is False and check.name.startswith("what gone") for check in together)


def test_nothing_changed_changes_nothing() -> None:
    """The same table again keeps every group."""
    old = first(KEYS)
    shown = [key for key, g in zip(old.keys, old.groups[0], strict=True) if g >= 0]
    change = again(old, shown)
    assert (change.appended, change.deleted, change.withdrawn) == (0, 0, 0)


def test_the_record_survives_on_disk(tmp_path: Path) -> None:
    """What is saved is read back, for the owner alone; anything else is refused."""
    old = first(KEYS[:60])
    path = tmp_path / "record.json"
    old.save(path)
    again_read = Kept.load(path)
    assert again_read.keys == old.keys
    assert (again_read.groups == old.groups).all()
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="does not exist"):
        Kept.load(tmp_path / "nowhere.json")
    for text in ("{", "[]"):
        path.write_text(text)
        with pytest.raises(FormatError):
            Kept.load(path)


def test_keys_must_tell_tuples_apart() -> None:
    """Repeated keys, or too few, are refused."""
    with pytest.raises(TableError, match="twice"):
        Kept(keys=("1", "1"), groups=np.zeros((2, 2), np.int32))
    with pytest.raises(TableError, match="keys"):
        again(first(KEYS[:60]), ["1", "1"])
