"""Schemas: what a table's attributes are, which values they can take, how they are treated.

>>> schema = Schema.from_data({"attributes": {
...     "age": {"type": "integer", "domain": ["17", "90"]},
...     "income": {"type": "category", "role": "sensitive", "values": ["<=50K", ">50K"]},
... }})
>>> schema["age"].role, schema.protected
(<Role.QUASI_IDENTIFIER: 'quasi-identifier'>, ('age', 'income'))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sherd.errors import Noting, SchemaError, SherdError, did_you_mean, together
from sherd.tables.attribute import Attribute, Bound, Missing, Outside, Role, Type
from sherd.tables.declared import attribute, choice, mapping, only
from sherd.values import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Attribute", "Bound", "Missing", "Outside", "Role", "Schema", "Type"]

SCHEMA_KEYS = (
    "attributes", "missing", "missing_values", "outside", "unit", "rows_per_unit", "population",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The attributes of a table, and what is done about missing and outlying cells.

    ``unit`` names the column that says whom a row belongs to, ``rows_per_unit`` how many
    rows one of them may have, ``population`` the people the table is about: tables of one
    population draw on one privacy budget.
    """

    attributes: Mapping[str, Attribute]
    missing: Missing = Missing.KEEP
    missing_values: tuple[str, ...] = ()
    outside: Outside = Outside.CLAMP
    unit: str | None = None
    rows_per_unit: int = 1
    population: str | None = None

    def __post_init__(self) -> None:
        if not self.attributes:
            raise SchemaError("the schema has no attributes", must="at least one attribute")
        wrong: list[SherdError] = []
        with Noting(SchemaError, wrong):
            self._check_unit()
        # Found here and not in the data, or a refusal would tell whether a cell is missing.
        for name in self.released:
            with Noting(SchemaError, wrong):
                self._check_recode(name)
        if wrong:
            raise together(wrong, "settings of the schema are not valid")

    def _check_unit(self) -> None:
        if self.unit is not None and self.unit not in self.attributes:
            raise SchemaError(
                "the schema's unit is not among its attributes",
                got=repr(self.unit),
                do="list it as an attribute with the role identifier",
            )
        if self.unit is not None and self.attributes[self.unit].role is not Role.IDENTIFIER:
            raise SchemaError(
                f"the schema's unit '{self.unit}' would be released",
                must="an attribute with the role identifier",
                got=f"the role {self.attributes[self.unit].role}",
            )
        if self.rows_per_unit < 1:
            raise SchemaError("rows_per_unit is out of range", must="a whole number from 1")
        if self.rows_per_unit > 1 and self.unit is None:
            raise SchemaError(
                "the schema has rows_per_unit but no unit",
                must="the attribute that says whom a row belongs to",
                do="declare `unit`: without it nobody can check how many rows a person has",
            )

    def _check_recode(self, name: str) -> None:
        if self.missing_policy(name) is Missing.RECODE and self[name].recode is None:
            raise SchemaError(
                f"missing cells of '{name}' are to be recoded, but the schema names no value",
                must="a `recode:` value for every attribute whose `missing` is recode",
                do="add `recode:`, or set its `missing` to keep, drop or refuse",
            )

    def __getitem__(self, name: str) -> Attribute:
        if name not in self.attributes:
            raise SchemaError(
                f"the schema has no attribute '{name}'",
                must="one of " + ", ".join(self.attributes),
                do=did_you_mean(name, self.attributes) or None,
            )
        return self.attributes[name]

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes.values())

    def named(self, *roles: Role) -> tuple[str, ...]:
        """The names of the attributes that have one of the roles, in order."""
        return tuple(a.name for a in self if a.role in roles)

    @property
    def protected(self) -> tuple[str, ...]:
        """The attributes that are masked."""
        return tuple(a.name for a in self if a.role.protected)

    @property
    def untouched(self) -> tuple[str, ...]:
        """The attributes released as they are."""
        return self.named(Role.INSENSITIVE, Role.WEIGHT)

    @property
    def released(self) -> tuple[str, ...]:
        """Every attribute that is not an identifier."""
        return tuple(a.name for a in self if a.role is not Role.IDENTIFIER)

    def missing_policy(self, name: str) -> Missing:
        """What happens to missing cells of an attribute."""
        return self[name].missing or self.missing

    def outside_policy(self, name: str) -> Outside:
        """What happens to values of an attribute outside its domain."""
        return self[name].outside or self.outside

    @cached_property
    def hash(self) -> str:
        """The sha256 of the schema's canonical form."""
        return digest(self.as_data())

    def published(self, *, names_values: bool = False) -> Schema:
        """The schema as a release tells it: nothing that only the data could have said.

        Of an identifier, and so of the unit, that it is there; of labels that were taken from
        the data none, unless the guarantee names them as not covered (``names_values``).
        """
        return replace(
            self,
            attributes={
                one.name: one.published(names_values=names_values)
                for one in self.attributes.values()
            },
        )

    def as_data(self) -> dict[str, Any]:
        """The schema as plain data that ``from_data`` reads back."""
        data: dict[str, Any] = {}
        if self.population is not None:
            data["population"] = self.population
        if self.unit is not None:
            data |= {"unit": self.unit, "rows_per_unit": self.rows_per_unit}
        data |= {"missing": self.missing.value, "outside": self.outside.value}
        if self.missing_values:
            data["missing_values"] = list(self.missing_values)
        data["attributes"] = {a.name: a.as_data() for a in self}
        return data

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a schema from a YAML file; taxonomies are found beside it, or where it says.

        A file inside a release was written by others: it opens no file, as their messages do not.
        """
        from sherd.tables.files import read_yaml

        path = Path(path)
        theirs = (path.parent / "manifest.json").exists()
        return cls.from_data(read_yaml(path, typed=False), folder=None if theirs else path.parent)

    def save(self, path: str | Path) -> None:
        """Write the schema to a YAML file that ``load`` reads back."""
        import yaml

        from sherd.tables.files import write_whole

        text = yaml.safe_dump(self.as_data(), sort_keys=False, allow_unicode=True, width=100)
        write_whole(Path(path), text.encode())

    def _repr_html_(self) -> str:
        """The attributes as a table, for a notebook."""
        from html import escape

        rows = "".join(
            f"<tr><td>{escape(a.name)}</td><td>{a.type}</td><td>{a.role}</td></tr>" for a in self
        )
        head = "<tr><th>attribute</th><th>type</th><th>role</th></tr>"
        return f"<table>{head}{rows}</table>"

    @staticmethod
    def infer(table: Any) -> Schema:
        """A draft of a table's schema: types, roles and values, never bounds."""
        from sherd.tables.infer import schema

        return schema(table).schema

    @classmethod
    def from_data(cls, data: Any, *, folder: Path | None = None) -> Self:
        """A schema from plain data, as a YAML file holds it.

        Taxonomies that it names by file are found in ``folder``; without one, none is opened.
        """
        data = mapping(data, "the schema")
        attributes: dict[str, Attribute] = {}
        policies: dict[str, Any] = {}
        wrong: list[SherdError] = []
        with Noting(SchemaError, wrong):
            only(data, SCHEMA_KEYS, "the schema")
        for key, kind, usual in (("missing", Missing, "keep"), ("outside", Outside, "clamp")):
            with Noting(SchemaError, wrong):
                policies[key] = choice(kind, data.get(key, usual), f"the schema's '{key}'")
        rows = str(data.get("rows_per_unit", 1))
        if not rows.isdecimal():
            wrong.append(SchemaError("rows_per_unit is out of range", must="a whole number from 1"))
        listed: Mapping[Any, Any] = {}
        with Noting(SchemaError, wrong):
            listed = mapping(data.get("attributes"), "the schema's 'attributes'")
        for name, given in listed.items():
            with Noting(SchemaError, wrong):
                attributes[str(name)] = attribute(str(name), given, folder)
        if wrong:
            raise together(wrong, "settings of the schema are not valid")
        marks = data.get("missing_values", ())
        if isinstance(marks, str):
            marks = (marks,)
        return cls(
            attributes=attributes,
            **policies,
            missing_values=tuple(str(mark) for mark in marks),
            unit=None if data.get("unit") is None else str(data["unit"]),
            rows_per_unit=int(rows),
            population=None if data.get("population") is None else str(data["population"]),
        )
