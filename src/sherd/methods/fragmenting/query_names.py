"""Names in a query: which source a column belongs to, and what an alias stands for.

Names are compared without regard to case, as DuckDB does. A name that could mean two things is
refused rather than guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sherd.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(kw_only=True)
class Source:
    """Something a SELECT reads: its name there, its columns, and those that were named.

    ``sql`` is how it is read, None for the release itself, whose fragments follow from what is
    named of it. ``weighted`` holds the fragments whose possible combinations its rows are.
    """

    alias: str
    columns: Mapping[str, str]
    sql: str | None = None
    weighted: tuple[int, ...] = ()
    named: dict[str, None] = field(default_factory=dict)

    def find(self, name: str) -> str | None:
        """The column of that name in its own spelling, which is then one that is named."""
        known = self.columns.get(name.lower())
        if known is not None:
            self.named[known] = None
        return known


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever is in it.

    >>> quoted('COUNT("x")')
    '"COUNT(""x"")"'
    """
    return '"' + name.replace('"', '""') + '"'


def by_lower(names: Iterable[str]) -> dict[str, str]:
    """Names by their lower-case form; raises where two differ in case only."""
    by_small_name: dict[str, str] = {}
    for name in names:
        if by_small_name.setdefault(name.lower(), name) != name:
            raise UsageError(
                f"the columns '{by_small_name[name.lower()]}' and '{name}' differ in case only",
                do="rename one of them: SQL does not tell them apart",
            )
    return by_small_name


class Scope:
    """The sources of one SELECT and the aliases of its columns."""

    def __init__(self, sources: list[Source], withheld: Iterable[str]) -> None:
        self.sources = sources
        self.aliases: dict[str, Any] = {}
        self._withheld = {name.lower() for name in withheld}
        seen: set[str] = set()
        for source in sources:
            if source.alias.lower() in seen:
                raise UsageError("a query gives two of its tables the same name", got=source.alias)
            seen.add(source.alias.lower())

    def column(self, name: str, table: str) -> Any | None:
        """A column by its full name; None where no source has it."""
        from sqlglot import exp

        sources = [s for s in self.sources if not table or s.alias.lower() == table.lower()]
        if table and not sources:
            raise UsageError("the query names a table it does not use", got=table)
        holding = [s for s in sources if name.lower() in s.columns]
        if len(holding) > 1:
            raise UsageError(
                f"the column '{name}' is in several tables", must="written as table.column"
            )
        if not holding:
            if table:
                raise self.unknown(name)
            return None
        known = holding[0].find(name) or name
        return exp.column(
            exp.to_identifier(known, quoted=True),
            table=exp.to_identifier(holding[0].alias, quoted=True),
        )

    def unknown(self, name: str) -> UsageError:
        """The refusal of a name that nothing has."""
        if name.lower() in self._withheld:
            return UsageError(
                f"the attribute '{name}' is withheld from the release",
                do="ask without it; the owner opens ciphertext with --key",
            )
        known = [column for source in self.sources for column in source.columns.values()]
        return UsageError(
            f"the release has no attribute '{name}'",
            must="one of " + ", ".join(known),
            do=did_you_mean(name, known) or None,
        )

    def one_meaning(self, node: Any) -> None:
        """Refuse a bare name that is both a column and the alias of something else."""
        from sqlglot import exp

        if not isinstance(node, exp.Column) or node.table:
            return
        alias = self.aliases.get(node.name.lower())
        column = self.column(node.name, "")
        if alias is not None and column is not None and alias != column:
            raise UsageError(
                f"'{node.name}' names both a column and a column of the answer",
                do="give the answer's column another name",
            )
