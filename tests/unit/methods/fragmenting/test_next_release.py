from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import FormatError, InfeasibleError, StorageError, TableError, UsageError
from sherd.methods.fragmenting.association import Association, associate
from sherd.methods.fragmenting.constraints import Constraints
from sherd.methods.fragmenting.next_release import Change, first_release, rerelease
from sherd.methods.fragmenting.private_record import Kept, marks_of
from sherd.methods.fragmenting.query import answer
from sherd.methods.fragmenting.released_tables import first_groups, released_tables
from sherd.randomness import Randomness
from sherd.tables.schema import Schema
from sherd.verifying.consecutive_releases import WHO, verify_together
from sherd.verifying.fragmented_tables import verify

if TYPE_CHECKING:
    from collections.abc import Callable
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
    return first_release(first_groups(made, randomness), table_of(keys), keys, FRAGMENTS)


def place(fresh: pa.Table) -> Association:
    """Groups for new tuples."""
    return associate(fresh, SCHEMA, RULES, FRAGMENTS, SIZES, randomness=Randomness.seeded(2))


def again(old: Kept, keys: list[str], **more: Any) -> Change:
    """The release after a change."""
    return rerelease(
        old, table_of(keys), keys, FRAGMENTS, place=place, randomness=Randomness.seeded(2), **more
    )


def tables(kept: Kept) -> dict[str, pa.Table]:
    """What is published of a release."""
    table = table_of(list(kept.keys))
    return released_tables(kept.groups, table, FRAGMENTS, Randomness.seeded(3))


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
    good = json.loads(path.read_text())
    for text in ("{", "[]", *(json.dumps({**good, "groups": g}) for g in ([[1]], "x", [[9] * 60]))):
        path.write_text(text)
        with pytest.raises(FormatError):
            Kept.load(path)
    with pytest.raises(StorageError):
        Kept.load(tmp_path)


def test_keys_must_tell_tuples_apart() -> None:
    """Repeated keys, or too few, are refused."""
    with pytest.raises(TableError, match="twice"):
        Kept(keys=("1", "1"), groups=np.zeros((2, 2), np.int32))
    with pytest.raises(TableError, match="keys"):
        again(first(KEYS[:60]), ["1", "1"])


def test_a_changed_tuple_is_as_good_as_deleted() -> None:
    """Its groups go, its new values stay out; a change that is not released is none."""
    old = first(KEYS)
    at = int(np.flatnonzero(old.released)[0])
    table = table_of(KEYS)
    other = table.column("c").to_pylist()
    other[at] += 1000
    moved = table.set_column(2, "c", pa.array(other))
    change = rerelease(
        old, moved, KEYS, FRAGMENTS, place=place,
        withdraw="groups", randomness=Randomness.seeded(2),
    )  # fmt: skip
    assert (change.deleted, change.changed) == (0, 1)
    assert KEYS[at] in change.kept.withdrawn
    shown = released_tables(change.kept.groups, moved, FRAGMENTS, Randomness.seeded(3))
    assert other[at] not in shown["fragment-2"].column("c").to_pylist()
    checks = verify_together(tables(old), shown, MANIFEST)
    assert all(check.passed is not False for check in checks)


def without(old: Kept, number: int) -> list[str]:
    """The keys of a release without the first few that were released."""
    gone = [key for key, r in zip(old.keys, old.released, strict=True) if r][:number]
    return [key for key in old.keys if key not in gone]


def test_whole_groups_hide_a_deletion_where_everything_hangs_together() -> None:
    """Only the deleted tuple's groups go; their other members keep their other parts."""
    old = first(KEYS)
    left = without(old, 1)
    change = again(old, left, withdraw="groups")
    assert change.deleted == 1
    assert 2 <= change.parts <= 6, "the other members of one group in each fragment"
    assert change.withdrawn == change.parts, "no other tuple shares two groups with it"
    assert passes(old, change.kept)
    shown = tables(change.kept)
    assert shown["association"].column("group_1").null_count > 0
    for f in (1, 2):
        lost = tables(old)[f"fragment-{f}"].num_rows - shown[f"fragment-{f}"].num_rows
        assert 2 <= lost <= 3


def test_the_verifier_says_whom_whole_groups_do_not_protect_from() -> None:
    """Closed withdrawals hold for those who know who was deleted, whole groups do not."""
    old = first(KEYS, block=30)
    left = without(old, 1)
    found = {}
    for way in ("closed", "groups"):
        new = again(old, left, withdraw=way, most_withdrawn=0.2).kept
        checks = verify_together(tables(old), tables(new), MANIFEST)
        assert all(check.passed is not False for check in checks)
        found[way] = next(check.passed for check in checks if check.name == WHO)
    assert found == {"closed": True, "groups": None}


def test_three_releases_in_a_row_pass_in_every_pair() -> None:
    """Deletions and additions again and again; identifiers are never used twice."""
    old = first(KEYS)
    second = again(
        old, [*without(old, 5), *(str(i) for i in range(1000, 1060))], withdraw="groups",
        most_withdrawn=0.2,
    ).kept  # fmt: skip
    last = int(np.argmax(second.groups[0]))
    keys = [key for key in second.keys if key != second.keys[last]]
    third = again(
        second, [*keys, *(str(i) for i in range(2000, 2060))], withdraw="groups",
        most_withdrawn=0.2,
    ).kept  # fmt: skip
    assert passes(old, second)
    assert passes(second, third)
    assert passes(old, third)
    fresh = [int(key) >= 2000 for key in third.keys]
    for f in range(2):
        given = third.groups[f][fresh]
        assert given[given >= 0].min() > second.groups[f].max()


def test_what_was_withdrawn_stays_out() -> None:
    """A tuple that lost a part does not get it back; one that lost all does not return."""
    old = first(KEYS)
    left = without(old, 40)
    change = again(old, left, withdraw="groups", most_withdrawn=1.0)
    out = [key for key in change.kept.withdrawn if key in left]
    assert out, "some tuple lost both parts"
    later = again(change.kept, left, withdraw="groups", most_withdrawn=1.0)
    assert (later.kept.groups[:, change.kept.released] >= 0).sum() == (
        change.kept.groups >= 0
    ).sum()
    assert not later.kept.released[[left.index(key) for key in out]].any()


def test_a_group_that_lost_a_member_alone_is_caught_beside_whole_groups() -> None:
    """An empty place does not excuse a group from which one part is missing."""
    old = first(KEYS)
    good = again(old, without(old, 1), withdraw="groups").kept
    bad = Kept(keys=good.keys, groups=good.groups.copy())
    bad.groups[0, int(np.flatnonzero((good.groups >= 0).all(axis=0))[0])] = -1
    checks = verify_together(tables(old), tables(bad), MANIFEST)
    assert any(check.passed is False for check in checks)
    assert any(check.passed is False for check in verify(tables(bad), MANIFEST)), "too small"


def test_a_group_with_an_empty_place_is_still_held_to_its_probabilities() -> None:
    """A release in which values repeat fails although combinations are not counted."""
    old = first(KEYS)
    shown = tables(again(old, without(old, 1), withdraw="groups").kept)
    part = shown["fragment-2"]
    same = pa.array([1] * part.num_rows)
    shown["fragment-2"] = part.set_column(part.column_names.index("c"), "c", same)
    named = [c for c in verify(shown, MANIFEST) if "likelier" in c.name]
    assert any(check.passed is False for check in named)


def test_too_many_deletions_are_refused_for_whole_groups_too() -> None:
    """The refusal says how much would go, and no way that does not help."""
    old = first(KEYS)
    with pytest.raises(InfeasibleError, match="further parts") as caught:
        again(old, without(old, 100), withdraw="groups")
    assert "withdraw=" not in str(caught.value)
    with pytest.raises(InfeasibleError, match="withdraw='groups'"):
        again(old, without(old, 1))
    with pytest.raises(UsageError, match="withdraw"):
        again(old, without(old, 1), withdraw="all")


def test_a_query_over_fragments_with_empty_places_is_answered() -> None:
    """Rows that lead nowhere count in no combination; the rest is asked as before."""
    old = first(KEYS)
    new = again(old, without(old, 1), withdraw="groups").kept
    shown = tables(new)
    whole = int((new.groups >= 0).all(axis=0).sum())
    found = answer(shown, MANIFEST, "SELECT COUNT(*) AS n FROM release WHERE a + c >= 0")
    assert found.table.column("n").to_pylist()[0] == pytest.approx(whole)


GROUPS_M = [0, 1, 0, 2, 3, 3, 1, 2]
GROUPS_R = [0, 3, 1, 2, 0, 1, 2, 3]


def posterior(hide: Callable[[Kept, int], Kept]) -> float:
    """What an observer of two releases of Figure 6 may believe of a pair, at most.

    All worlds the old release allows are taken as equally likely, as are all deletions.
    """
    seen: dict[Any, Counter[tuple[int, int]]] = defaultdict(Counter)
    total: Counter[Any] = Counter()
    keys = [str(i) for i in range(8)]
    old = Kept(keys=tuple(keys), groups=np.array([GROUPS_M, GROUPS_R], np.int32))
    left = [hide(old, row) for row in range(8)]
    for swaps in product((False, True), repeat=8):
        worlds = _exchanged((GROUPS_M, GROUPS_R), swaps)
        for new in left:
            shown = tuple(
                tuple(sorted((worlds[f][int(key)], int(g)) for key, g in
                             zip(new.keys, new.groups[f], strict=True) if g >= 0))
                for f in range(2)
            )  # fmt: skip
            rows = sorted(tuple(r) for r in new.groups.T.tolist() if max(r) >= 0)
            view = (shown, tuple(rows))
            total[view] += 1
            seen[view].update(zip(*worlds, strict=True))
    return max(n / total[view] for view, pairs in seen.items() for n in pairs.values())


def test_in_all_worlds_whole_groups_tell_nothing_new() -> None:
    """Of Figure 6, an observer of both releases believes no pair with more than a quarter."""

    def hide(old: Kept, row: int) -> Kept:
        keys = [key for key in old.keys if key != str(row)]
        return rerelease(
            old, table_of(keys), keys, FRAGMENTS, place=place,
            withdraw="groups", most_withdrawn=1.0, randomness=Randomness.seeded(1),
        ).kept  # fmt: skip

    assert posterior(hide) == pytest.approx(0.25)


def test_in_all_worlds_leaving_a_tuple_out_shows_its_parts() -> None:
    """The same enumeration sees the leak of a careless deletion."""

    def hide(old: Kept, row: int) -> Kept:
        return Kept(
            keys=tuple(key for key in old.keys if key != str(row)),
            groups=np.delete(old.groups, row, axis=1),
        )

    assert posterior(hide) == 1


def changed(name: str, shown: dict[str, pa.Table], old: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """A release with one thing about it made wrong."""
    part, association = shown["fragment-1"], shown["association"]
    groups = part.column("group_1").to_numpy().copy()
    named = association.column("group_1").to_pylist()
    empty = named.index(None)
    if name == "a row is gone":
        return {**shown, "fragment-1": part.slice(1)}
    if name == "an association row is gone":
        return {**shown, "association": association.slice(1)}
    if name == "two rows change groups":
        other = int(np.flatnonzero(groups != groups[0])[0])
        groups[0], groups[other] = groups[other], groups[0]
        return {**shown, "fragment-1": part.set_column(2, "group_1", pa.array(groups))}
    if name == "an empty place is filled":
        named[empty] = named[-1]
    if name == "a place is emptied":
        named[-1] = None
    if name == "a withdrawn group is named":
        named[empty] = (set(old["fragment-1"].column("group_1").to_pylist()) - set(groups)).pop()
    column = pa.array(named, association.schema.field("group_1").type)
    return {**shown, "association": association.set_column(0, "group_1", column)}


@pytest.mark.parametrize(
    "name",
    [
        "a row is gone",
        "an association row is gone",
        "two rows change groups",
        "an empty place is filled",
        "a place is emptied",
        "a withdrawn group is named",
    ],
)
def test_whatever_else_is_changed_beside_whole_groups_is_caught(name: str) -> None:
    """Each single change to a good second release fails a check, alone or beside the first."""
    old = first(KEYS)
    before, good = tables(old), tables(again(old, without(old, 2), withdraw="groups").kept)
    bad = changed(name, good, before)
    checks = [*verify(bad, MANIFEST), *verify_together(before, bad, MANIFEST)]
    assert any(check.passed is False for check in checks)


def block_of(old: Kept, change: Change, left: list[str]) -> list[str]:
    """The tuples that went with a deleted one."""
    was = {key for key, shown in zip(old.keys, old.released, strict=True) if shown}
    now = dict(zip(change.kept.keys, change.kept.released, strict=True))
    return [key for key in left if key in was and not now[key]]


def test_a_block_comes_back_as_it_was_once_all_of_it_is_there_again() -> None:
    """Into its old groups, and every pair of the releases passes."""
    old = first(KEYS, block=30)
    gone = next(key for key, shown in zip(old.keys, old.released, strict=True) if shown)
    left = [key for key in KEYS if key != gone]
    second = again(old, left, most_withdrawn=0.2)
    out = block_of(old, second, left)
    assert out
    assert second.kept.withdrawn == {gone, *out}
    third = again(second.kept, KEYS, most_withdrawn=0.2)
    assert third.returned == len(out) + 1
    assert third.appended == 0
    assert (third.kept.groups == old.groups).all()
    assert not third.kept.withdrawn
    assert not third.kept.resting
    assert passes(old, second.kept)
    assert passes(second.kept, third.kept)
    assert passes(old, third.kept)


@pytest.mark.parametrize("wrong", ["missing", "changed", "first changed"])
def test_a_block_stays_out_while_one_of_it_is_not_as_it_was(wrong: str) -> None:
    """Also the deleted tuple itself, whose key may be somebody else's by now."""
    old = first(KEYS, block=30)
    gone = next(key for key, shown in zip(old.keys, old.released, strict=True) if shown)
    left = [key for key in KEYS if key != gone]
    second = again(old, left, most_withdrawn=0.2)
    out = block_of(old, second, left)
    keys = [key for key in KEYS if wrong != "missing" or key != out[0]]
    table = table_of(keys)
    if wrong != "missing":
        at = keys.index(gone if wrong == "first changed" else out[0])
        cells = table["a"].to_pylist()
        cells[at] += 1
        table = table.set_column(0, "a", pa.array(cells))
    third = rerelease(
        second.kept, table, keys, FRAGMENTS, place=place, randomness=Randomness.seeded(2),
        most_withdrawn=0.2,
    )  # fmt: skip
    assert third.returned == 0
    shown = dict(zip(third.kept.keys, third.kept.released, strict=True))
    assert not any(shown[key] for key in (gone, *out) if key in shown)
    assert set(third.kept.resting) == {gone, *out}, "a later release may have all of it"


def test_tuples_that_whole_groups_took_along_do_not_come_back() -> None:
    """Others of their groups stayed with a part less: there is no whole block to bring back."""
    old = first(KEYS)
    change = again(old, without(old, 40), withdraw="groups", most_withdrawn=1.0)
    for way in ("groups", "closed"):
        later = again(change.kept, KEYS, withdraw=way, most_withdrawn=1.0)
        assert later.returned == 0


def test_who_lost_a_part_before_keeps_a_block_from_coming_back() -> None:
    """The groups of that part have members elsewhere."""
    old = first(KEYS, block=30)
    second = again(old, without(old, 1), withdraw="groups", most_withdrawn=0.2).kept
    partly = (second.groups >= 0).any(axis=0) & (second.groups < 0).any(axis=0)
    key = second.keys[int(np.flatnonzero(partly)[0])]
    third = again(second, [k for k in second.keys if k != key], most_withdrawn=0.3).kept
    assert third.resting
    fourth = again(third, list(second.keys), most_withdrawn=0.3)
    assert fourth.returned == 0


def test_how_tuples_were_survives_on_disk(tmp_path: Path) -> None:
    """Records from before tuples could come back are read as well."""
    old = first(KEYS, block=30)
    gone = next(key for key, shown in zip(old.keys, old.released, strict=True) if shown)
    record = again(old, [key for key in KEYS if key != gone], most_withdrawn=0.2).kept
    record.save(tmp_path / "record.json")
    assert Kept.load(tmp_path / "record.json").resting == record.resting
    data = json.loads((tmp_path / "record.json").read_text())
    for change in (
        {"stranger": data["resting"][gone]},
        {gone: [[1], [2]]},
        {gone: [[0.5, 1], [2, 3]]},
    ):
        (tmp_path / "bad.json").write_text(json.dumps({**data, "resting": change}))
        with pytest.raises(FormatError):
            Kept.load(tmp_path / "bad.json")
    del data["resting"]
    (tmp_path / "earlier.json").write_text(json.dumps({**data, "format": 1}))
    assert Kept.load(tmp_path / "earlier.json").resting == {}


TWO_BLOCKS = ([0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 0, 1, 2, 3, 2, 3])
"""Eight tuples in two blocks: pairs in both fragments, each block associated with itself only."""


def posterior_of_three(third: Callable[[Kept, list[str]], Kept]) -> float:
    """The likeliest pair of parts to a holder of three releases who knows who was deleted."""
    keys = [str(i) for i in range(8)]
    marks = marks_of(table_of(keys), FRAGMENTS)
    old = Kept(keys=tuple(keys), groups=np.array(TWO_BLOCKS, np.int32), marks=marks)
    seen: dict[Any, Counter[tuple[int, int]]] = defaultdict(Counter)
    total: Counter[Any] = Counter()
    rows = []
    for row in range(8):
        left = [key for key in keys if key != str(row)]
        second = again(old, left, most_withdrawn=1.0).kept
        rows.append((old, second, third(second, keys)))
    for swaps in product((False, True), repeat=8):
        worlds = _exchanged(TWO_BLOCKS, swaps)
        for row, releases in enumerate(rows):
            view: list[Any] = [row]
            for release in releases:
                for f in range(2):
                    parts = zip(release.keys, release.groups[f].tolist(), strict=True)
                    view.append(tuple(sorted((worlds[f][int(k)], g) for k, g in parts if g >= 0)))
                view.append(tuple(sorted(map(tuple, release.groups.T.tolist()))))
            total[tuple(view)] += 1
            seen[tuple(view)].update(zip(*worlds, strict=True))
    return max(n / total[view] for view, pairs in seen.items() for n in pairs.values())


def test_in_all_worlds_a_block_that_comes_back_tells_nothing_new() -> None:
    """Three releases, and who was deleted in between: no pair is likelier than a quarter."""
    assert posterior_of_three(
        lambda second, keys: again(second, keys, most_withdrawn=1.0).kept
    ) == pytest.approx(0.25)


def test_in_all_worlds_a_block_that_comes_back_in_other_groups_is_told_apart() -> None:
    """The same enumeration sees what two groupings of the same tuples give away."""

    def regrouped(second: Kept, keys: list[str]) -> Kept:
        groups = np.full((2, 8), -1, np.int32)
        shown = {k: second.groups[:, at] for at, k in enumerate(second.keys)}
        fresh = [k for k in keys if k not in shown or shown[k].max() < 0]
        for key, of_tuple in shown.items():
            groups[:, keys.index(key)] = of_tuple
        for at, key in enumerate(fresh):  # what was associated crosswise is now side by side
            groups[:, keys.index(key)] = (10 + at % 2, 10 + at // 2)
        return Kept(keys=tuple(keys), groups=groups)

    assert posterior_of_three(regrouped) > 0.25


def _exchanged(sides: Any, swaps: tuple[bool, ...]) -> list[list[int]]:
    """One world of eight tuples: at each side, the pairs of some groups of two exchanged."""
    worlds = []
    for groups, own in zip(sides, (swaps[:4], swaps[4:]), strict=True):
        value = list(range(8))
        for group, swapped in enumerate(own):
            i, j = (row for row in range(8) if groups[row] == group)
            if swapped:
                value[i], value[j] = j, i
        worlds.append(value)
    return worlds
