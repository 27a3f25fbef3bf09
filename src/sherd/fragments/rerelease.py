"""Releasing again after the data changed.

An observer of both releases sees which values are new and which are gone, whatever the
grouping: a tuple that vanishes alone takes its parts out of every fragment at once, and one
that appears alone brings them all. So what stays, what is gone and what is new must each be
loose *by itself*:

- tuples that stay keep their groups and identifiers;
- new tuples get groups of their own, which hold nothing but new tuples; those that find no
  place are held back for a later release;
- with a tuple that goes, others are withdrawn until what is gone is a union of whole groups
  that are associated with each other only. Associating in blocks (``block``) keeps such
  unions small; otherwise it may be the whole table, and the deletion is refused.

What was withdrawn must stay out: bringing it back would single out what was deleted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The owner's private record of a release: which groups each tuple is in.

    ``keys`` identify tuples over time; ``groups[f]`` are released identifiers, -1 for a
    tuple that was held back. ``withdrawn`` are keys that must not come back.
    """

    keys: tuple[str, ...]
    groups: npt.NDArray[np.int32]
    withdrawn: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if len(set(self.keys)) != len(self.keys):
            raise TableError("a key occurs twice", must="one key for each tuple")

    def save(self, path: str | Path) -> None:
        """Write the record for the owner's eyes only: it says who belongs with whom."""
        from sherd.tables.files import write_whole

        data = {
            "keys": list(self.keys),
            "groups": self.groups.tolist(),
            "withdrawn": sorted(self.withdrawn),
        }
        write_whole(Path(path), json.dumps(data).encode())
        Path(path).chmod(0o600)

    @classmethod
    def load(cls, path: str | Path) -> Kept:
        """Read the record that ``save`` wrote."""
        data = _read(Path(path))
        if not isinstance(data, dict) or set(data) != {"keys", "groups", "withdrawn"}:
            raise FormatError("this is not the record of a release", got=str(path))
        return cls(
            keys=tuple(data["keys"]),
            groups=np.asarray(data["groups"], np.int32),
            withdrawn=frozenset(data["withdrawn"]),
        )


@dataclass(frozen=True, kw_only=True)
class Change:
    """The record of the next release, and how much it cost to get there."""

    kept: Kept
    appended: int
    held_back: int
    deleted: int
    withdrawn: int


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
    most_withdrawn: float = 0.05,
    randomness: Randomness,
) -> Change:
    """Groups for a changed table (one key a row) that are safe beside the old release."""
    if len(keys) != table.num_rows or len(set(keys)) != len(keys):
        raise TableError("the keys do not fit the table", must="one distinct key for each row")
    where = {key: at for at, key in enumerate(old.keys)}
    released = old.groups[0] >= 0
    present = set(keys)
    gone = np.array(
        [r and key not in present for key, r in zip(old.keys, released, strict=True)], np.bool_
    )
    deleted = int(gone.sum())
    gone = _closed(old.groups, gone)
    extra = int(gone.sum()) - deleted
    if extra > most_withdrawn * max(1, int(released.sum())):
        raise InfeasibleError(
            "the deletions would show which parts of the deleted tuples belong together",
            must="hidden by withdrawing whole groups that are associated with each other only",
            got=f"{extra} further tuples to withdraw",
            do="raise 'most_withdrawn', or make the first release in blocks ('block')",
        )
    out = old.withdrawn | {key for key, g in zip(old.keys, gone, strict=True) if g}
    groups = np.full((len(fragments), len(keys)), -1, np.int32)
    fresh = []
    for row, key in enumerate(keys):
        at = where.get(key)
        if at is not None and released[at] and not gone[at]:
            groups[:, row] = old.groups[:, at]
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
        _number(groups, np.asarray(fresh), made, old, randomness)
    placed = int((groups[0, fresh] >= 0).sum()) if fresh else 0
    return Change(
        kept=Kept(keys=tuple(keys), groups=groups, withdrawn=frozenset(out)),
        appended=placed,
        held_back=len(fresh) - placed,
        deleted=deleted,
        withdrawn=extra,
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError("the file does not exist", got=str(path), do="check the path") from None
    except (ValueError, UnicodeDecodeError):
        raise FormatError("this is not the record of a release", got=str(path)) from None


def _closed(groups: npt.NDArray[np.int32], gone: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The smallest set around ``gone`` that holds every touched group as a whole."""
    gone = gone.copy()
    before = -1
    while before != int(gone.sum()):
        before = int(gone.sum())
        for of_tuple in groups:
            touched = np.zeros(int(of_tuple.max(initial=-1)) + 1, np.bool_)
            touched[of_tuple[gone]] = True
            inside = of_tuple >= 0
            gone[inside] |= touched[of_tuple[inside]]
    return gone


def _number(
    groups: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int64],
    made: Association,
    old: Kept,
    randomness: Randomness,
) -> None:
    """Give the new groups identifiers that were never used, in random order."""
    placed = made.place[0] >= 0
    for f in range(len(groups)):
        used, dense = np.unique(made.place[f, placed], return_inverse=True)
        first = int(old.groups[f].max(initial=-1)) + 1
        fresh = first + randomness.permutation(len(used)).astype(np.int32)
        groups[f, rows[placed]] = fresh[dense]


def first_release(association: Association, keys: Sequence[str], randomness: Randomness) -> Kept:
    """The private record of a first release, with identifiers drawn at random."""
    groups = np.full_like(association.place, -1)
    empty = Kept(keys=(), groups=groups[:, :0])
    _number(groups, np.arange(len(keys)), association, empty, randomness)
    return Kept(keys=tuple(keys), groups=groups)


def tables_of(
    kept: Kept, table: pa.Table, fragments: Sequence[Sequence[str]], randomness: Randomness
) -> dict[str, Any]:
    """The tables to release: rows by group identifier, in random order within."""
    import pyarrow as pa

    shown = np.flatnonzero(kept.groups[0] >= 0)
    tables: dict[str, Any] = {}
    for f, names in enumerate(fragments, 1):
        column = kept.groups[f - 1, shown]
        order = randomness.permutation(len(shown))
        order = order[np.argsort(column[order], kind="stable")]
        part = table.select(list(names)).take(pa.array(shown[order]))
        tables[f"fragment-{f}"] = part.append_column(f"group_{f}", pa.array(column[order]))
    order = randomness.permutation(len(shown))
    order = order[np.argsort(kept.groups[0, shown][order], kind="stable")]
    tables["association"] = pa.table(
        {f"group_{f + 1}": pa.array(g[shown][order]) for f, g in enumerate(kept.groups)}
    )
    return tables
