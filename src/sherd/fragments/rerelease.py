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

What was withdrawn must stay out: bringing it back would single out what was deleted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sherd.errors import FormatError, InfeasibleError, TableError, UsageError
from sherd.fragments.association import Association, Search, associate

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from sherd.fragments.constraints import Constraints
    from sherd.randomness import Randomness
    from sherd.tables.schema import Schema

    Parts = npt.NDArray[np.bool_]

Withdrawal = Literal["closed", "groups"]
WITHDRAWALS: tuple[Withdrawal, ...] = ("closed", "groups")


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The owner's private record of a release: which groups each tuple is in.

    ``keys`` identify tuples over time; ``groups[f]`` are released identifiers, -1 for a
    part that was withdrawn, or for all parts of a tuple that was held back. ``withdrawn`` are
    keys that must not come back. ``used[f]`` identifiers were given out so far.
    """

    keys: tuple[str, ...]
    groups: npt.NDArray[np.int32]
    withdrawn: frozenset[str] = frozenset()
    used: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.keys)) != len(self.keys):
            raise TableError("a key occurs twice", must="one key for each tuple")
        if not self.used:
            counted = tuple(int(of_tuple.max(initial=-1)) + 1 for of_tuple in self.groups)
            object.__setattr__(self, "used", counted)

    @property
    def released(self) -> npt.NDArray[np.bool_]:
        """Which tuples have a part in the release."""
        return np.asarray((self.groups >= 0).any(axis=0))

    def save(self, path: str | Path) -> None:
        """Write the record for the owner's eyes only: it says who belongs with whom."""
        from sherd.tables.files import write_whole

        data = {
            "keys": list(self.keys),
            "groups": self.groups.tolist(),
            "withdrawn": sorted(self.withdrawn),
            "used": list(self.used),
        }
        write_whole(Path(path), json.dumps(data).encode())
        Path(path).chmod(0o600)

    @classmethod
    def load(cls, path: str | Path) -> Kept:
        """Read the record that ``save`` wrote."""
        data = _read(Path(path))
        if not isinstance(data, dict) or set(data) != _RECORD:
            raise FormatError("this is not the record of a release", got=str(path))
        return cls(
            keys=tuple(data["keys"]),
            groups=np.asarray(data["groups"], np.int32),
            withdrawn=frozenset(data["withdrawn"]),
            used=tuple(data["used"]),
        )


_RECORD = {"keys", "groups", "withdrawn", "used"}


@dataclass(frozen=True, kw_only=True)
class Change:
    """The record of the next release, and how much it cost to get there.

    ``withdrawn`` tuples beside the deleted ones lost something, ``parts`` parts in all.
    """

    kept: Kept
    appended: int
    held_back: int
    deleted: int
    withdrawn: int
    parts: int


def rerelease(
    old: Kept,
    table: pa.Table,
    keys: Sequence[str],
    schema: Schema,
    constraints: Constraints,
    fragments: Sequence[Sequence[str]],
    sizes: Sequence[int],
    *,
    similar: Sequence[str] = (),
    search: Search | None = None,
    block: int | None = None,
    withdraw: Withdrawal = "closed",
    most_withdrawn: float = 0.05,
    randomness: Randomness,
) -> Change:
    """Groups for a changed table (one key a row) that are safe beside the old release.

    At most ``most_withdrawn`` of all released parts are withdrawn beside those deleted.
    """
    if withdraw not in WITHDRAWALS:
        raise UsageError(
            "the 'withdraw' argument is not valid",
            must="one of " + ", ".join(WITHDRAWALS),
            got=repr(withdraw),
        )
    if len(keys) != table.num_rows or len(set(keys)) != len(keys):
        raise TableError("the keys do not fit the table", must="one distinct key for each row")
    where = {key: at for at, key in enumerate(old.keys)}
    released = old.released
    present = set(keys)
    deleted = np.array(
        [r and key not in present for key, r in zip(old.keys, released, strict=True)], np.bool_
    )
    gone = (_closed if withdraw == "closed" else _whole)(old.groups, deleted)
    shown = old.groups >= 0
    parts = int((gone & shown & ~deleted).sum())
    if parts > most_withdrawn * int(shown.sum()):
        raise InfeasibleError(
            "the deletions would show which parts of the deleted tuples belong together",
            must="hidden by withdrawing whole groups"
            + (" that are associated with each other only" if withdraw == "closed" else ""),
            got=f"{parts} further parts of tuples to withdraw, of {int(shown.sum())}",
            do="raise 'most_withdrawn'"
            + (
                ", make the first release in blocks ('block'), or, if nobody who sees both "
                "releases knows who was deleted, pass withdraw='groups'"
                if withdraw == "closed"
                else ""
            ),
        )
    left = np.where(gone, -1, old.groups)
    stays = np.asarray((left >= 0).any(axis=0))
    out = old.withdrawn | {
        key for key, r, s in zip(old.keys, released, stays, strict=True) if r and not s
    }
    groups = np.full((len(fragments), len(keys)), -1, np.int32)
    used = old.used
    fresh = []
    for row, key in enumerate(keys):
        at = where.get(key)
        if at is not None and stays[at]:
            groups[:, row] = left[:, at]
        elif key not in out:
            fresh.append(row)
    if fresh:
        made = associate(
            table.take(fresh),
            schema,
            constraints,
            fragments,
            sizes,
            similar=similar,
            search=search,
            block=block,
            randomness=randomness,
        )
        used = _number(groups, np.asarray(fresh), made, used, randomness)
    placed = int((groups[0, fresh] >= 0).sum()) if fresh else 0
    return Change(
        kept=Kept(keys=tuple(keys), groups=groups, withdrawn=frozenset(out), used=used),
        appended=placed,
        held_back=len(fresh) - placed,
        deleted=int(deleted.sum()),
        withdrawn=int(((gone & shown).any(axis=0) & ~deleted).sum()),
        parts=parts,
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError("the file does not exist", got=str(path), do="check the path") from None
    except (ValueError, UnicodeDecodeError):
        raise FormatError("this is not the record of a release", got=str(path)) from None


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


def _number(
    groups: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int64],
    made: Association,
    used: tuple[int, ...],
    randomness: Randomness,
) -> tuple[int, ...]:
    """Give the new groups identifiers that were never used, in random order."""
    placed = made.place[0] >= 0
    after = []
    for f in range(len(groups)):
        own, dense = np.unique(made.place[f, placed], return_inverse=True)
        fresh = used[f] + randomness.permutation(len(own)).astype(np.int32)
        groups[f, rows[placed]] = fresh[dense]
        after.append(used[f] + len(own))
    return tuple(after)


def first_release(association: Association, keys: Sequence[str], randomness: Randomness) -> Kept:
    """The private record of a first release, with identifiers drawn at random."""
    groups = np.full_like(association.place, -1)
    used = (0,) * len(groups)
    used = _number(groups, np.arange(len(keys)), association, used, randomness)
    return Kept(keys=tuple(keys), groups=groups, used=used)


def tables_of(
    kept: Kept, table: pa.Table, fragments: Sequence[Sequence[str]], randomness: Randomness
) -> dict[str, Any]:
    """The tables to release: rows by group identifier, in random order within.

    Where a part was withdrawn, its place in the association is empty.
    """
    import pyarrow as pa

    tables: dict[str, Any] = {}
    for f, names in enumerate(fragments, 1):
        rows, column = _ordered(kept.groups[f - 1], kept.groups[f - 1] >= 0, randomness)
        part = table.select(list(names)).take(pa.array(rows))
        tables[f"fragment-{f}"] = part.append_column(f"group_{f}", pa.array(column))
    rows, _ = _ordered(kept.groups[0], kept.released, randomness)
    tables["association"] = pa.table(
        {f"group_{f + 1}": pa.array(g[rows], mask=g[rows] < 0) for f, g in enumerate(kept.groups)}
    )
    return tables


def _ordered(
    column: npt.NDArray[np.int32], shown: npt.NDArray[np.bool_], randomness: Randomness
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    rows = np.flatnonzero(shown)
    rows = rows[randomness.permutation(len(rows))]
    rows = rows[np.argsort(column[rows], kind="stable")]
    return rows, column[rows]
