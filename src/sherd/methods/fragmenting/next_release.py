"""Releasing again after the data changed.

An observer of both releases sees which values are new and which are gone, whatever the
grouping: a tuple that vanishes alone takes its parts out of every fragment at once, and one
that appears alone brings them all. So what stays, what is gone and what is new must each be
loose *by itself*:

- tuples that stay keep their groups and identifiers;
- new tuples get groups of their own, which hold nothing but new tuples; those that find no
  place are held back for a later release;
- with a tuple that goes, others are withdrawn, in one of two ways.

``closed``: until what is gone is a union of whole groups that are associated with each other
only. Associating in blocks (``block``) keeps such unions small; otherwise it may be the whole
table, and the deletion is refused. What is gone is loose by itself, so it does not help to know
who was deleted.

``groups``: in every fragment the deleted tuple's group goes as a whole, and nothing else. The
other members of that group lose the part that lay in it and keep their other parts; in the
association their place is empty. What is left of the old release can then be computed from it
and from which *groups* went, which depends on who is in which group, but not on which
member of a group belongs to which of its association rows. So the two releases together
say no more about that than the old one did. It takes a few parts for each deletion, whatever
hangs together, but it rests on one more assumption: that nobody knows who was deleted. To
somebody who does, and sees which groups went, one deleted tuple is hidden among the
members of its groups only, k_i instead of k.

What was withdrawn must stay out in general: bringing a part of it back would single out what was
deleted, and bringing it back in other groups would let the two groupings be intersected. A tuple
whose released values changed is one that was deleted, and its new values stay out too: who
saw the old part and the new one could intersect what each of them is associated with.

There is one way back. Where whole tuples were withdrawn that share groups with each other only, and
every one of them is in the table again with the values it had, they come back together, into the
groups they were in. What is shown of them is then what was shown before, and when it is shown
depends on who is in which group alone, not on which parts belong together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from sherd.errors import InfeasibleError, TableError, UsageError
from sherd.methods.fragmenting.private_record import Kept, Resting, marks_of
from sherd.methods.fragmenting.released_tables import number_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from sherd.methods.fragmenting.association import Association
    from sherd.methods.fragmenting.private_record import Marks
    from sherd.randomness import Randomness

    Parts = npt.NDArray[np.bool_]
    Placing = Callable[[pa.Table], Association]

Withdrawal = Literal["closed", "groups"]
WITHDRAWALS: tuple[Withdrawal, ...] = ("closed", "groups")
MOST_WITHDRAWN = 0.05
"""The share of released parts that may be withdrawn beside the deleted ones, unless told."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """The record of the next release, and how much it cost to get there.

    ``stay`` tuples are in both releases, with all their parts or some; ``returned`` were withdrawn
    from an earlier one and are back as they were. ``deleted`` are gone
    from the table, ``changed`` have other values in it. ``withdrawn`` tuples beside these
    lost something, ``parts`` parts in all.
    """

    kept: Kept
    stay: int
    appended: int
    held_back: int
    deleted: int
    changed: int
    withdrawn: int
    parts: int
    returned: int = 0


def rerelease(
    old: Kept,
    table: pa.Table,
    keys: Sequence[str],
    fragments: Sequence[Sequence[str]],
    *,
    place: Placing,
    withdraw: Withdrawal = "closed",
    most_withdrawn: float = MOST_WITHDRAWN,
    randomness: Randomness,
) -> Change:
    """Groups for a changed table (one key a row) that are safe beside the old release.

    ``place`` groups the tuples that are new. At most ``most_withdrawn`` of all released parts are
    withdrawn beside those deleted.
    """
    _check(table, keys, withdraw)
    released = old.released
    row_of = {key: row for row, key in enumerate(keys)}
    marks = marks_of(table, fragments)
    absent = released & np.array([key not in row_of for key in old.keys], np.bool_)
    changed = _changed(old, row_of, marks)
    deleted = absent | changed
    gone = (_closed if withdraw == "closed" else _whole)(old.groups, deleted)
    shown = old.groups >= 0
    parts = int((gone & shown & ~deleted).sum())
    if parts > most_withdrawn * int(shown.sum()):
        raise _too_many_parts(withdraw)
    left = np.where(gone, -1, old.groups)
    stays = np.asarray((left >= 0).any(axis=0))
    out = old.withdrawn | {
        key for key, r, s in zip(old.keys, released, stays, strict=True) if r and not s
    }
    resting = dict(old.resting)
    back = _returning(resting, row_of, marks)
    if withdraw == "closed":
        resting |= _rested(old, released & ~stays)
    groups, used = np.full((len(fragments), len(keys)), -1, np.int32), old.used
    for key in back:
        groups[:, row_of[key]] = resting.pop(key).groups
    for at in np.flatnonzero(stays):
        groups[:, row_of[old.keys[at]]] = left[:, at]
    known = out | {key for key, s in zip(old.keys, stays, strict=True) if s}
    fresh = [row for row, key in enumerate(keys) if key not in known]
    if fresh:
        made = place(table.take(fresh))
        used = number_groups(groups, np.asarray(fresh), made, used, randomness)
    placed = int((groups[0, fresh] >= 0).sum()) if fresh else 0
    kept = replace(old, keys=tuple(keys), groups=groups, used=used, marks=marks, release="")
    return Change(
        kept=replace(kept, withdrawn=frozenset(out) - back, resting=resting),
        stay=int(stays.sum()),
        appended=placed,
        held_back=len(fresh) - placed,
        deleted=int(absent.sum()),
        changed=int(changed.sum()),
        withdrawn=int(((gone & shown).any(axis=0) & ~deleted).sum()),
        parts=parts,
        returned=len(back),
    )


def _rested(old: Kept, gone: npt.NDArray[np.bool_]) -> dict[str, Resting]:
    """Where tuples that are withdrawn now were, and how they looked."""
    if old.marks is None:
        return {}
    return {
        old.keys[at]: Resting(
            groups=tuple(old.groups[:, at].tolist()), marks=tuple(old.marks[:, at].tolist())
        )
        for at in np.flatnonzero(gone)
    }


def _returning(
    resting: Mapping[str, Resting], row_of: Mapping[str, int], marks: Marks
) -> frozenset[str]:
    """The tuples that may come back: all that share a group, directly or not, are as they were."""
    members: dict[tuple[int, int], list[str]] = {}
    for key, was in resting.items():
        for place in enumerate(was.groups):
            members.setdefault(place, []).append(key)

    def is_as_it_was(key: str) -> bool:
        row, was = row_of.get(key), resting[key]
        # who had lost a part before has been in groups whose other members are not here
        return row is not None and min(was.groups) >= 0 and was.marks == tuple(marks[:, row])

    waiting = [key for key in resting if not is_as_it_was(key)]
    kept_out = set(waiting)
    while waiting:
        for place in enumerate(resting[waiting.pop()].groups):
            for key in members[place]:
                if key not in kept_out:
                    kept_out.add(key)
                    waiting.append(key)
    return frozenset(resting) - kept_out


def _check(table: pa.Table, keys: Sequence[str], withdraw: str) -> None:
    if withdraw not in WITHDRAWALS:
        raise UsageError(
            "the 'withdraw' argument is not valid",
            must="one of " + ", ".join(WITHDRAWALS),
            got=repr(withdraw),
        )
    if len(keys) != table.num_rows or len(set(keys)) != len(keys):
        raise TableError("the keys do not fit the table", must="one distinct key for each row")


def _too_many_parts(withdraw: Withdrawal) -> InfeasibleError:
    """The refusal of deletions that cost more than the owner allows."""
    must = "hidden by withdrawing whole groups"
    do = "raise 'most_withdrawn'"
    if withdraw == "closed":
        must += " that are associated with each other only"
        do += (
            ", make the first release in blocks ('block'), or, if nobody who sees both "
            "releases knows who was deleted, pass withdraw='groups' (--withdraw groups)"
        )
    return InfeasibleError(
        "the deletions would show which parts of the deleted tuples belong together",
        must=must,
        got="more further parts of tuples to withdraw than 'most_withdrawn' allows",
        do=do,
    )


def _changed(old: Kept, row_of: Mapping[str, int], marks: Marks) -> npt.NDArray[np.bool_]:
    """Which old tuples have other values now, in a part that was released."""
    changed = np.zeros(len(old.keys), np.bool_)
    if old.marks is None:
        return changed
    both = [(at, row_of[key]) for at, key in enumerate(old.keys) if key in row_of]
    if both:
        was, now = np.array(both).T
        differ = (old.marks[:, was] != marks[:, now]) & (old.groups[:, was] >= 0)
        changed[was] = differ.any(axis=0)
    return changed


def _closed(groups: npt.NDArray[np.int32], deleted: npt.NDArray[np.bool_]) -> Parts:
    """The smallest set of tuples around ``deleted`` that holds every touched group as a whole."""
    gone = deleted.copy()
    before = -1
    while before != int(gone.sum()):
        before = int(gone.sum())
        gone |= _whole(groups, gone).any(axis=0)
    return np.broadcast_to(gone, groups.shape)


def _whole(groups: npt.NDArray[np.int32], deleted: npt.NDArray[np.bool_]) -> Parts:
    """In every fragment, the parts that lie in a group of a deleted tuple."""
    gone = np.zeros(groups.shape, np.bool_)
    for at, of_tuple in enumerate(groups):
        inside = of_tuple >= 0
        touched = np.zeros(int(of_tuple.max(initial=-1)) + 1, np.bool_)
        touched[of_tuple[deleted & inside]] = True
        gone[at, inside] = touched[of_tuple[inside]]
    return gone


def first_release(
    groups: npt.NDArray[np.int32],
    table: pa.Table,
    keys: Sequence[str],
    fragments: Sequence[Sequence[str]],
) -> Kept:
    """The private record of a first release with these identifiers (one key a row)."""
    return Kept(keys=tuple(keys), groups=groups, marks=marks_of(table, fragments))
