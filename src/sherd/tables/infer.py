"""A first schema for a table, to be gone through by its steward.

Types are guessed; a domain never is, since bounds taken from the data give away its
extremes; labels are listed as found and marked ``values_from_data``, which a steward
deletes once the list is known to be public. Text that tells people apart becomes an
identifier, which is never released: the safe side to be wrong on.

>>> import pyarrow as pa
>>> table = pa.table({"age": [39, 50, 39], "sex": ["m", "f", "?"]})
>>> infer(table)["sex"].values, infer(table).missing_values
(('f', 'm'), ('?',))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.errors import TableError
from sherd.tables.conform import check_names
from sherd.tables.guess import LISTED, MARKS, Guess, guess
from sherd.tables.schema import Attribute, Role, Schema, Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_HEAD = """\
# A draft{of}, guessed from the data. Go through every line that says 'decide'.
#
# Roles: identifier                      never released
#        quasi-identifier, sensitive     masked
#        weight, insensitive             released as they are, not covered by any guarantee
#
# unit: COLUMN        # decide: if one person can have several rows, the identifier column
# population: NAME    # decide: whom the table is about; such tables share a privacy budget
missing: keep         # decide: keep, drop, recode or refuse
"""
_DOMAINS = {
    Type.INTEGER: "[0, 120]",
    Type.NUMBER: "[0, 99.5]",
    Type.DATE: "[1900-01-01, 2030-12-31]",
    Type.DATETIME: "[2020-01-01T00:00:00, 2030-12-31T23:59:59]",
}


def _guesses(table: pa.Table, name: str) -> list[Guess]:
    shown = name or "the table"
    check_names(table.column_names, shown=shown)
    if not table.num_columns:
        raise TableError("the table has no columns", must="at least one column", got=shown)
    return [guess(column, table[column]) for column in table.column_names]


def _marks(guesses: list[Guess]) -> tuple[str, ...]:
    found = {mark for one in guesses for mark in one.marks}
    return tuple(mark for mark in MARKS if mark in found)


def infer(table: pa.Table, *, name: str = "") -> Schema:
    """The schema a table seems to have; ``name`` is what a message calls the table."""
    guesses = _guesses(table, name)
    attributes = {
        one.name: Attribute(
            name=one.name,
            type=one.type,
            role=one.role,
            values=one.values,
            values_from_data=one.values is not None,
        )
        for one in guesses
    }
    return Schema(attributes=attributes, missing_values=_marks(guesses))


def draft_yaml(table: pa.Table, *, name: str = "") -> str:
    """The schema a table seems to have as YAML, with comments where its steward decides."""
    guesses = _guesses(table, name)
    # A file's name could hold a line end, and so end the comment.
    called = "".join(sign if sign.isprintable() else " " for sign in name).strip()
    lines = [_HEAD.format(of=f" of {called}" if called else "")]
    if marks := _marks(guesses):
        lines.append(
            "# decide: do these texts mean 'no value'? Delete those that are real values.\n"
            f"missing_values: {_flow(marks)}\n"
        )
    lines.append("attributes:\n")
    for one in guesses:
        lines.extend(f"{line}\n" for line in _attribute(one))
    return "".join(lines)


def _attribute(one: Guess) -> Iterator[str]:
    yield f"  {_scalar(one.name)}:"
    yield f"    type: {one.type.value}"
    if one.role is Role.IDENTIFIER:
        yield f"    role: identifier  # decide: {one.why}"
        return
    yield "    role: quasi-identifier  # decide: or sensitive, identifier, weight, insensitive"
    if one.why:
        yield f"    # decide: {one.why}"
    if one.type.measured:
        yield (
            "    domain:   # decide: the lowest and highest value that can occur, "
            f"e.g. {_DOMAINS[one.type]};"
        )
        yield "              # from what is known about the question, not from the rows"
    if one.type.labelled and one.values is None:
        yield (
            f"    # decide: more than {LISTED} different labels; list them under 'values', "
            "or name a 'taxonomy'"
        )
    elif one.values is not None:
        yield "    # decide: is the list complete, and public? Then delete values_from_data."
        yield f"    values: {_flow(one.values)}"
        yield "    values_from_data: true"


def _scalar(text: str) -> str:
    """A text as YAML on one line, in quotes where it needs them."""
    import yaml

    plain = text.isprintable() and "\n" not in text
    style = None if plain else '"'
    made = yaml.safe_dump(text, default_style=style, allow_unicode=True, width=float("inf"))
    return str(made).removesuffix("\n").removesuffix("\n...")


def _flow(labels: tuple[str, ...]) -> str:
    """A list of labels in brackets, wrapped between them."""
    lines, line = [], ""
    for label in labels:
        text = _quoted(label)
        if line and len(line) + len(text) > 84:
            lines.append(line)
            line = ""
        line += text + ", "
    return "[" + "\n      ".join([*(one.rstrip() for one in lines), line.removesuffix(", ")]) + "]"


def _quoted(label: str) -> str:
    """A label as YAML inside brackets, where more signs have a meaning."""
    import yaml

    # Dumped as a list of one, so that commas and brackets are seen for what they are there.
    style = None if label.isprintable() else '"'
    made = yaml.safe_dump(
        [label],
        default_flow_style=True,
        default_style=style,
        allow_unicode=True,
        width=float("inf"),
    )
    return str(made).strip().removeprefix("[").removesuffix("]")
