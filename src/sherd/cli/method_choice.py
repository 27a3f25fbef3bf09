"""What to say where no method is named: three lines, the method that fits best first.

What fits is decided from the schema and the table's size; no row is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.errors import SherdError

if TYPE_CHECKING:
    from sherd.tables.schema import Schema

LEAST_ROWS = 1_000
"""Records below which noise at ε = 1 leaves little of how attributes go together."""

_SAFE = "differential privacy of everything released"
_LINES: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    (
        "dp-graph",
        {"epsilon": 1.0, "delta": 1e-9},
        "-m dp-graph -e 1 --delta 1e-9",
        f"new records that keep how attributes go together; {_SAFE}",
    ),
    (
        "dp-um",
        {"epsilon": 1.0, "k": 10, "guarantee": "strict"},
        "-m dp-um --guarantee strict -e 1 -k 10",
        f"no records, only how each attribute is distributed; {_SAFE}",
    ),
    (
        "mondrian",
        {"k": 10},
        "-m mondrian -k 10",
        "coarser records, each like k others; not differential privacy",
    ),
    (
        "fragment",
        {},
        "-m fragment --help",
        "true values, apart where they may not be seen together; not differential privacy",
    ),
)


def choice_for(table: str, schema: Schema | None) -> str:
    """What to choose for a table; a release that follows another has its method already."""
    from sherd import datasets
    from sherd.tables.blocks import extent

    if schema is None:
        return "Name the method of the release that is followed."
    if table.startswith(":"):
        return explain_choice(schema, datasets.load(table[1:]).num_rows)
    return explain_choice(schema, extent(table, columns=len(schema.attributes)).rows)


def explain_choice(schema: Schema, rows: int | None) -> str:
    """Three lines: what fits first, what else there is, and where the rest is explained.

    ``rows`` is the most that the table may have, None where it is not known.
    """
    fitting = [line for line in _LINES if _fits(line[0], line[1], schema)]
    if rows is not None and rows < LEAST_ROWS:
        # Of few records only single attributes survive; the sort keeps the rest in order.
        fitting.sort(key=lambda line: line[0] != "dp-um")
    size = "a table of this size" if rows is None else f"at most {rows:,} records"
    said = [f"{options}: {text}" for _, _, options, text in fitting]
    why = f"{len(schema.protected)} attributes and {size}"
    return (
        f"For {why}, begin with {said[0]}.\n"
        f"Otherwise {said[1] if len(said) > 1 else '`sherd methods` lists what else there is'}.\n"
        "All methods, and what was measured of them: `sherd methods`, and the how-to page "
        "'Choose a method and its parameters'."
    )


def _fits(method: str, parameters: dict[str, Any], schema: Schema) -> bool:
    """Whether a method takes the schema; one whose needs are not known takes any."""
    from sherd.release.plan import Plan

    if not parameters:
        return True
    try:
        Plan(method=method, **parameters).check(schema)
    except SherdError:
        return False
    return True
