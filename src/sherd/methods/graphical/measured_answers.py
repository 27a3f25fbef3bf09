"""SQL over a ``dp-graph`` release, answered from its measured marginals with intervals.

COUNT, SUM and AVG are sums over records of what a record's cell decides. A measured marginal that
holds every attribute of the query counts those cells with noise, so the answer is a weighted sum
of noisy counts (see ``asked_sums`` and ``noise_intervals``).

What no measured marginal holds is refused: the drawn records answer it too, but nothing says how
well.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.errors import MissingPartError, UsageError
from sherd.methods.graphical.asked_sums import AskedSum, MeasuredModel
from sherd.methods.graphical.cell_conditions import Truth
from sherd.methods.graphical.measured_queries import MeasuredQuery, read_query
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_GROUPS = 2000
"""Groups of one answer."""

_ENDINGS = ("error", "low", "high")


@dataclass(frozen=True, kw_only=True)
class MeasuredAnswer:
    """A query's result: estimates, each with its standard error and an interval of 95 %.

    ``measured`` names the marginals that were used; ``errors`` and ``bounds`` the columns beside
    the estimates; ``exact`` says that all numbers are public and carry no noise.
    """

    table: pa.Table
    exact: bool
    measured: tuple[tuple[str, ...], ...]
    errors: tuple[str, ...]
    bounds: tuple[str, ...]

    def words(self) -> str:
        """What the answer is worth, in a sentence or two."""
        if self.exact:
            return "Exact: the number of records is public."
        used = "; ".join(" with ".join(names) for names in self.measured)
        return (
            f"Estimated from the noisy counts of {used}. Each interval (…_low to …_high) covers "
            "the truth of the protected table in at least 95 of 100 releases, noise and width of "
            "the counted cells included; …_error is the noise's standard error alone. Estimates "
            "are without bias and may lie outside what is possible. Groups are those of the "
            "schema, empty ones too."
        )

    def as_data(self) -> dict[str, object]:
        """The answer as plain data."""
        return {
            "rows": self.table.to_pylist(),
            "exact": self.exact,
            "measured": [list(names) for names in self.measured],
            "errors": list(self.errors),
            "bounds": list(self.bounds),
            "words": self.words(),
        }


def answer(
    _tables: Mapping[str, object],
    manifest: Mapping[str, Any],
    sql: str,
    *,
    own: Mapping[str, Any] | None = None,
    documents: Mapping[str, Mapping[str, Any]],
) -> MeasuredAnswer:
    """Answer a query from what a release measured."""
    if own:
        raise UsageError("noisy counts cannot be joined with other tables", do="leave out --table")
    try:
        import sqlglot  # noqa: F401 - to say what is missing
    except ImportError:
        raise MissingPartError(
            "queries need sqlglot", do="pip install 'sherd[fragments]'"
        ) from None
    model = MeasuredModel.of(documents["model"], Schema.from_data(manifest["schema"]))
    query = read_query(sql, model.columns)
    used: dict[tuple[str, ...], None] = {}
    rows = [_row(model, query, cells, used) for cells in _groups(model, query.groups)]
    table = pa.Table.from_pylist(query.arranged(rows), schema=_form(model, query))
    beside = {
        ending: tuple(f"{one.name}_{ending}" for one in query.aggregates) for ending in _ENDINGS
    }
    return MeasuredAnswer(
        table=table,
        exact=not used,
        measured=tuple(used),
        errors=beside["error"],
        bounds=beside["low"] + beside["high"],
    )


def _form(model: MeasuredModel, query: MeasuredQuery) -> pa.Schema:
    kinds = {str: pa.string(), bool: pa.bool_(), int: pa.int64()}
    fields = []
    for shown, name in query.groups:
        labels = model.columns[name].labels()
        assert labels is not None
        fields.append(pa.field(shown, kinds[type(labels[0])]))
    for one in query.aggregates:
        fields.append(pa.field(one.name, pa.float64()))
        fields += [pa.field(f"{one.name}_{ending}", pa.float64()) for ending in _ENDINGS]
    return pa.schema(fields)


def _groups(model: MeasuredModel, groups: Sequence[tuple[str, str]]) -> list[tuple[int, ...]]:
    """The fine cell of every grouping attribute, group by group."""
    counts = [model.columns[name].grid.size for _, name in groups]
    if math.prod(counts) > MOST_GROUPS:
        raise UsageError(
            "the answer would have too many groups",
            must=f"at most {MOST_GROUPS}",
            got=str(math.prod(counts)),
        )
    return list(itertools.product(*map(range, counts)))


def _row(
    model: MeasuredModel,
    query: MeasuredQuery,
    cells: tuple[int, ...],
    used: dict[tuple[str, ...], None],
) -> dict[str, Any]:
    """One row of the answer; notes the marginals it comes from."""
    row: dict[str, Any] = {}
    conditions = list(query.conditions)
    for (shown, name), cell in zip(query.groups, cells, strict=True):
        column = model.columns[name]
        row[shown] = (column.labels() or [])[cell]
        chosen = np.zeros(column.grid.size)
        chosen[cell] = 1
        conditions.append(Truth(names=(name,), sure=chosen, likely=chosen, possible=chosen))
    for one in query.aggregates:
        asked = AskedSum.of(model, one, conditions)
        numbers = asked.average() if one.kind == "avg" else asked.total()
        ends = dict(zip(("", *(f"_{e}" for e in _ENDINGS)), numbers, strict=True))
        row |= {one.name + ending: number for ending, number in ends.items()}
        if not asked.public:
            used |= dict.fromkeys(histogram.names for histogram in asked.histograms)
    return row
