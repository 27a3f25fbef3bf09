"""A first schema for a table, to be gone through by its steward.

Types are guessed; a domain never is, since bounds taken from the data give away its
extremes; labels are listed as found and marked ``values_from_data``, which a steward
deletes once the list is known to be public. Text that tells people apart becomes an
identifier, which is never released: a wrong guess then errs on the safe side.

>>> import pyarrow as pa
>>> table = pa.table({"age": [39, 50, 39], "sex": ["m", "f", "?"]})
>>> draft = schema(table)
>>> draft.schema["sex"].values, draft.schema.missing_values
(('f', 'm'), ('?',))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.errors import SchemaError, TableError, did_you_mean
from sherd.tables.conform import check_names
from sherd.tables.files import read_text
from sherd.tables.guess import LISTED, MARKS, Guess, guess
from sherd.tables.schema import Attribute, Role, Schema, Type
from sherd.tables.taxonomy import Taxonomy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

_HEAD = """\
# A draft{of}, guessed from the data. Go through every line that says 'decide'.
#
# Roles: identifier                      never released
#        quasi-identifier, sensitive     masked
#        weight, insensitive             released as they are, not covered by any guarantee
# A column is a quasi-identifier unless you write another role; at least the values that nobody
# should learn about a person are sensitive.
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
    marks = {mark for one in guesses for mark in one.marks}
    return tuple(mark for mark in MARKS if mark in marks)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A first schema of a table, and what its steward must decide.

    ``decisions`` are the questions that only somebody who knows the table can answer, as pairs
    of an attribute and what to decide.
    """

    guesses: tuple[Guess, ...]
    name: str = ""

    @property
    def schema(self) -> Schema:
        """The schema as guessed; a domain is never among the guesses."""
        return Schema(
            attributes={one.name: _drafted(one) for one in self.guesses},
            missing_values=_marks(list(self.guesses)),
        )

    @property
    def decisions(self) -> tuple[tuple[str, str], ...]:
        """Every line of the draft that says 'decide', by its attribute."""
        return tuple(
            (one.name, line.partition("decide: ")[2])
            for one in self.guesses
            for line in _attribute(one)
            if "decide: " in line
        )

    def yaml(self) -> str:
        """The draft as YAML, with comments where its steward decides."""
        # A file's name could hold a line end, and so end the comment.
        called = "".join(sign if sign.isprintable() else " " for sign in self.name).strip()
        lines = [_HEAD.format(of=f" of {called}" if called else "")]
        if marks := _marks(list(self.guesses)):
            lines.append(
                "# decide: do these texts mean 'no value'? Delete those that are real values.\n"
                f"missing_values: {_flow(marks)}\n"
            )
        lines.append("attributes:\n")
        for one in self.guesses:
            lines.extend(f"{line}\n" for line in _attribute(one))
        return "".join(lines)


def schema(
    table: Any,
    *,
    name: str = "",
    hierarchies: Mapping[str, str | Path] | None = None,
    values: Mapping[str, str | Path] | None = None,
) -> Draft:
    """Draft the schema of a table (pandas, polars or pyarrow), for its steward to go through.

    ``hierarchies`` names, for an attribute, a file with the groups of its labels, one line a
    label from the label to the root (``Ulm;South;*``, the format of ARX). ``values`` names a
    file with an attribute's labels, one a line, in their order. Both are then declared, not
    taken from the data. ``name`` is what a message calls the table.
    """
    from sherd.tables.frames import to_arrow

    guesses = {one.name: one for one in _guesses(to_arrow(table), name)}
    for given, kind in ((hierarchies, "taxonomy"), (values, "values")):
        for column, path in (given or {}).items():
            if column not in guesses:
                raise SchemaError(
                    f"the table has no column '{column}'",
                    must="one of " + ", ".join(guesses),
                    do=did_you_mean(column, guesses) or None,
                )
            guesses[column] = _declared(guesses[column], kind, Path(path))
    return Draft(guesses=tuple(guesses.values()), name=name)


def _declared(one: Guess, kind: str, path: Path) -> Guess:
    """A column whose labels a file declares."""
    plain = replace(one, role=Role.QUASI_IDENTIFIER, why="")
    if kind == "taxonomy":
        Taxonomy.load(path)  # raises where it is none
        return replace(plain, type=Type.CATEGORY, values=None, taxonomy=str(path))
    labels = labels_of(one.name, path)
    kept = one.type if one.type.labelled else Type.CATEGORY
    return replace(plain, type=kept, values=labels, public=True)


def labels_of(name: str, path: Path) -> tuple[str, ...]:
    """The labels of an attribute in a file, one a line, in their order."""
    labels = tuple(line.strip() for line in read_text(path).splitlines() if line.strip())
    if not labels or len(set(labels)) != len(labels):
        raise SchemaError(
            f"the labels of '{name}' are not valid",
            must="one label a line, each once",
            got=str(path),
        )
    return labels


def _drafted(one: Guess) -> Attribute:
    return Attribute(
        name=one.name,
        type=one.type,
        role=one.role,
        values=one.values,
        values_from_data=one.values is not None and not one.public,
        taxonomy=None if one.taxonomy is None else Taxonomy.load(one.taxonomy),
    )


def _attribute(one: Guess) -> Iterator[str]:
    yield f"  {_scalar(one.name)}:"
    yield f"    type: {one.type.value}"
    if one.role is Role.IDENTIFIER:
        yield f"    role: identifier  # decide: {one.why}"
        return
    yield "    role: quasi-identifier"
    if one.why:
        yield f"    # decide: {one.why}"
    if one.type.measured:
        yield (
            "    domain:   # decide: the lowest and highest value that can occur, "
            f"e.g. {_DOMAINS[one.type]};"
        )
        yield "              # from what is known about the question, not from the rows"
    if one.taxonomy is not None:
        yield f"    taxonomy: {_scalar(one.taxonomy)}"
    elif one.type.labelled and one.values is None:
        yield (
            f"    # decide: more than {LISTED} different labels; list them in a file and name it "
            "with --values, or give a --hierarchy"
        )
    elif one.values is not None and one.public:
        yield f"    values: {_flow(one.values)}"
    elif one.values is not None:
        yield "    # decide: is the list complete, and public? Then delete values_from_data."
        yield f"    values: {_flow(one.values)}"
        yield "    values_from_data: true"


def _scalar(text: str) -> str:
    """A text as YAML on one line, in quotes where it needs them."""
    import yaml

    plain = text.isprintable() and "\n" not in text
    style = None if plain else '"'
    dumped = yaml.safe_dump(text, default_style=style, allow_unicode=True, width=float("inf"))
    return str(dumped).removesuffix("\n").removesuffix("\n...")


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
    dumped = yaml.safe_dump(
        [label],
        default_flow_style=True,
        default_style=style,
        allow_unicode=True,
        width=float("inf"),
    )
    return str(dumped).strip().removeprefix("[").removesuffix("]")
