"""What to say where no method is named: three lines, the method that fits best first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sherd.release.method import Method
    from sherd.release.traits import Suggestion
    from sherd.tables.schema import Schema


def choice_for(table: str, schema: Schema | None) -> str:
    """What to choose for a table; a release that follows another has its method already."""
    from sherd import datasets
    from sherd.tables.read import extent

    if schema is None:
        return "Name the method of the release that is followed."
    if table.startswith(":"):
        return explain_choice(schema, datasets.load(table[1:]).num_rows)
    return explain_choice(schema, extent(table, columns=len(schema.attributes)).rows)


def explain_choice(schema: Schema, rows: int | None) -> str:
    """Three lines: what fits first, what else there is, and where the rest is explained.

    ``rows`` is the most that the table may have, None where it is not known.
    """
    from sherd.release.first_choice import suggested

    size = "a table of this size" if rows is None else f"at most {rows:,} records"
    suggestions = [f"{_options(*pair)}: {pair[1].gives}" for pair in suggested(schema, rows)]
    suggestions.append("`sherd methods` lists what else there is")
    return (
        f"For {len(schema.protected)} attributes and {size}, begin with {suggestions[0]}.\n"
        f"Otherwise {suggestions[1]}.\n"
        "All methods, and what was measured of them: `sherd methods`, and the how-to page "
        "'Choose a method and its parameters'."
    )


def _options(method: Method, one: Suggestion) -> str:
    """A suggestion as it is typed."""
    options = {p.name: p.short or p.flag for p in method.parameters}
    typed = [f"{options[name]} {_value(value)}" for name, value in one.settings.items()]
    return " ".join([f"-m {method.name}", *(typed or ["--help"])])


def _value(value: object) -> str:
    """A setting as it is typed: `1`, `1e-9`, `strict`."""
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)
