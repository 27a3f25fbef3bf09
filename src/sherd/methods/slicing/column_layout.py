"""Which attributes share a column, and what columns have in common.

An attribute may stand in several columns. What a column shares with the columns before it
is its separator; two columns that share attributes match where the separator agrees, so a
match is divided by the separator's count instead of the bucket's size. For that the
columns must form a tree: each separator lies within one earlier column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sherd.errors import PlanError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

BUCKET = "bucket"
"""The name of the column that says which bucket a released row lies in."""


@dataclass(frozen=True, kw_only=True)
class ColumnLayout:
    """The columns of a sliced table; the last one holds the sensitive attributes.

    >>> ColumnLayout(columns=(("age", "sex"), ("sex", "ill")), sensitive=("ill",)).separators
    ((), ('sex',))
    """

    columns: tuple[tuple[str, ...], ...]
    sensitive: tuple[str, ...]

    def __post_init__(self) -> None:
        for place, shared in enumerate(self.separators):
            earlier = self.columns[:place]
            if shared and not any(set(shared) <= set(column) for column in earlier):
                raise PlanError(
                    "the columns share attributes in a circle",
                    must="columns that each share attributes with one earlier column",
                    got=", ".join(shared),
                )

    @property
    def beside(self) -> tuple[str, ...]:
        """The quasi-identifiers in the sensitive column."""
        return tuple(name for name in self.columns[-1] if name not in self.sensitive)

    @property
    def separators(self) -> tuple[tuple[str, ...], ...]:
        """What each column shares with the columns before it."""
        before: set[str] = set()
        shared = []
        for column in self.columns:
            shared.append(tuple(name for name in column if name in before))
            before |= set(column)
        return tuple(shared)

    @property
    def duplicated(self) -> tuple[str, ...]:
        """The attributes that stand in more than one column."""
        return tuple(dict.fromkeys(name for shared in self.separators for name in shared))

    def fields(self) -> tuple[tuple[str, ...], ...]:
        """The released field of every attribute of every column; a repeated one is numbered.

        >>> ColumnLayout(columns=(("age", "sex"), ("sex", "ill")), sensitive=("ill",)).fields()
        (('age', 'sex'), ('sex.2', 'ill'))
        """
        taken = {name for column in self.columns for name in column}
        seen: dict[str, int] = {}
        named: list[tuple[str, ...]] = []
        for column in self.columns:
            names = []
            for name in column:
                seen[name] = seen.get(name, 0) + 1
                field = name
                while seen[name] > 1 and field in taken:
                    field = f"{name}.{seen[name]}"
                    seen[name] += field in taken
                taken.add(field)
                names.append(field)
            named.append(tuple(names))
        return tuple(named)


def given_layout(
    groups: Sequence[Sequence[str]], quasi: Sequence[str], sensitive: Sequence[str]
) -> ColumnLayout:
    """The layout a plan spells out, checked against the attributes there are."""
    known = [*quasi, *sensitive]
    columns: list[tuple[str, ...]] = []
    last: tuple[str, ...] | None = None
    for group in groups:
        if not isinstance(group, (list, tuple)) or not group:
            raise PlanError("a group of attributes is empty", must="lists of attribute names")
        for name in group:
            if name not in known:
                raise PlanError(
                    "a group names an attribute that is not there to be grouped",
                    must="one of " + ", ".join(known),
                    got=repr(name),
                    do=did_you_mean(str(name), known) or None,
                )
        if len(set(group)) != len(group):
            raise PlanError("a group names an attribute twice", must="distinct names")
        holds = [name for name in sensitive if name in group]
        if holds and (last is not None or len(holds) < len(sensitive)):
            raise PlanError(
                "the sensitive attributes stand in several groups", must="all of them in one group"
            )
        if holds:
            last = tuple(group)
        else:
            columns.append(tuple(group))
    left_out = set(known) - {name for group in groups for name in group}
    if last is None or left_out:
        raise PlanError(
            "the groups leave attributes out",
            must="groups that hold every quasi-identifier and sensitive attribute",
            got="without " + ", ".join(sorted(left_out)),
        )
    if not columns:
        raise PlanError("there is only one group", must="at least two groups")
    return ColumnLayout(columns=(*columns, last), sensitive=tuple(sensitive))
