"""Schemas: what a table's attributes are, which values they can take, how they are treated.

>>> schema = Schema.from_data({"attributes": {
...     "age": {"type": "integer", "domain": ["17", "90"]},
...     "income": {"type": "category", "role": "sensitive", "values": ["<=50K", ">50K"]},
... }})
>>> schema["age"].role, schema.protected
(<Role.QUASI_IDENTIFIER: 'quasi-identifier'>, ('age', 'income'))
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sherd.errors import SchemaError, did_you_mean
from sherd.tables.taxonomy import Taxonomy

if TYPE_CHECKING:
    from collections.abc import Iterator


class Type(StrEnum):
    """What kind of values an attribute has."""

    NUMBER = "number"
    INTEGER = "integer"
    DATE = "date"
    DATETIME = "datetime"
    BOOLEAN = "boolean"
    ORDINAL = "ordinal"
    CATEGORY = "category"
    TEXT = "text"

    @property
    def measured(self) -> bool:
        """Whether values lie on a scale with bounds."""
        return self in (Type.NUMBER, Type.INTEGER, Type.DATE, Type.DATETIME)

    @property
    def labelled(self) -> bool:
        """Whether values are labels out of a list."""
        return self in (Type.ORDINAL, Type.CATEGORY)


class Role(StrEnum):
    """What an attribute means for privacy, and so what happens to it."""

    IDENTIFIER = "identifier"
    QUASI_IDENTIFIER = "quasi-identifier"
    SENSITIVE = "sensitive"
    WEIGHT = "weight"
    INSENSITIVE = "insensitive"

    @property
    def protected(self) -> bool:
        """Whether the attribute is masked."""
        return self in (Role.QUASI_IDENTIFIER, Role.SENSITIVE)


class Missing(StrEnum):
    """What happens to cells without a value."""

    KEEP = "keep"
    DROP = "drop"
    RECODE = "recode"
    REFUSE = "refuse"


class Outside(StrEnum):
    """What happens to values outside the declared domain."""

    CLAMP = "clamp"
    DROP = "drop"
    REFUSE = "refuse"


Bound = Decimal | date | datetime
_E = TypeVar("_E", bound=StrEnum)


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One attribute of a table.

    ``domain`` is the lowest and highest value that can occur (not: that does occur);
    ``values`` the labels in their order; ``grid`` the step values are rounded to;
    ``recode`` the value that stands for a missing one where missing is ``recode``;
    ``other`` the label that stands for unknown ones.
    """

    name: str
    type: Type = Type.CATEGORY
    role: Role = Role.QUASI_IDENTIFIER
    domain: tuple[Bound, Bound] | None = None
    values: tuple[str, ...] | None = None
    values_from_data: bool = False
    taxonomy: Taxonomy | None = None
    grid: Decimal | None = None
    missing: Missing | None = None
    outside: Outside | None = None
    recode: str | None = None
    other: str | None = None

    def __post_init__(self) -> None:
        if self.domain is not None:
            self._check_domain(*self.domain)
        if self.values is not None:
            if not self.type.labelled:
                raise self._wrong(f"has values but is of type {self.type}", "category or ordinal")
            if not self.values:
                raise self._wrong("has an empty list of values", "at least one value")
            if len(set(self.values)) != len(self.values):
                raise self._wrong("lists a value twice", "distinct values")
        if self.taxonomy is not None and self.values is not None:
            unknown = set(self.values) - set(self.taxonomy.leaves)
            if unknown:
                raise self._wrong(
                    f"has {len(unknown)} value(s) that its taxonomy lacks", "leaves of the taxonomy"
                )
        if self.grid is not None and not (self.grid.is_finite() and self.grid > 0):
            raise self._wrong("has a grid out of range", "a number above 0")
        for text in (self.other, self.recode if self.type.labelled else None):
            if text is not None and self.values is not None and text not in self.values:
                raise self._wrong("recodes to a label it does not list", "one of its values")

    def _wrong(self, what: str, must: str) -> SchemaError:
        return SchemaError(f"the attribute '{self.name}' {what}", must=must)

    def _check_domain(self, low: Bound, high: Bound) -> None:
        if not self.type.measured:
            raise self._wrong(f"has a domain but is of type {self.type}", "number, integer or date")
        kind = {Type.DATE: date, Type.DATETIME: datetime}.get(self.type, Decimal)
        for bound in (low, high):
            aware = not isinstance(bound, datetime) or bound.tzinfo is not None
            if not isinstance(bound, kind) or not aware:
                raise self._wrong(
                    "has a domain of another type than its own",
                    f"two values of Python's {kind.__name__} (times with a zone)",
                )
            if isinstance(bound, Decimal) and not bound.is_finite():
                raise self._wrong("has a domain without end", "two finite numbers")
        if low >= high:  # type: ignore[operator]
            raise self._wrong("has an empty domain", "[lowest, highest] with lowest below highest")

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The labels in their public order: as listed, or as in the taxonomy."""
        if self.values is not None:
            return self.values
        return None if self.taxonomy is None else self.taxonomy.leaves

    def as_data(self) -> dict[str, Any]:
        """The attribute as plain data (taxonomies as their paths)."""
        data: dict[str, Any] = {"type": self.type.value, "role": self.role.value}
        if self.domain is not None:
            data["domain"] = [_plain(bound) for bound in self.domain]
        if self.values is not None:
            data["values"] = list(self.values)
        if self.values_from_data:
            data["values_from_data"] = True
        if self.taxonomy is not None:
            data["taxonomy"] = [list(path) for path in self.taxonomy.paths]
        if self.grid is not None:
            data["grid"] = str(self.grid)
        for key in ("missing", "outside"):
            if (policy := getattr(self, key)) is not None:
                data[key] = policy.value
        for key in ("recode", "other"):
            if (text := getattr(self, key)) is not None:
                data[key] = text
        return data


_ATTRIBUTE_KEYS = (
    "type", "role", "domain", "values", "values_from_data", "order", "taxonomy", "grid",
    "missing", "outside", "recode", "other",
)  # fmt: skip
_SCHEMA_KEYS = (
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
        if self.unit is not None and self.unit not in self.attributes:
            raise SchemaError(
                "the schema's unit is not one of its attributes",
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

    @property
    def hash(self) -> str:
        """The sha256 of the schema's canonical form."""
        text = json.dumps(self.as_data(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

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
        """Read a schema from a YAML file; taxonomies are found beside it."""
        from sherd.tables.files import read_yaml

        path = Path(path)
        return cls.from_data(read_yaml(path, typed=False), folder=path.parent)

    @staticmethod
    def infer(table: Any) -> Schema:
        """A draft of a table's schema: types, roles and values, never bounds."""
        from sherd.tables.frames import to_arrow
        from sherd.tables.infer import infer

        return infer(to_arrow(table))

    @classmethod
    def from_data(cls, data: Any, *, folder: Path | None = None) -> Self:
        """A schema from plain data, as a YAML file holds it."""
        data = _mapping(data, "the schema")
        _only(data, _SCHEMA_KEYS, "the schema")
        listed = _mapping(data.get("attributes"), "the schema's 'attributes'")
        attributes = {
            str(name): _attribute(str(name), given, folder) for name, given in listed.items()
        }
        rows = str(data.get("rows_per_unit", 1))
        if not rows.isdecimal():
            raise SchemaError("rows_per_unit is out of range", must="a whole number from 1")
        marks = data.get("missing_values", ())
        if isinstance(marks, str):
            marks = (marks,)
        return cls(
            attributes=attributes,
            missing=_choice(Missing, data.get("missing", "keep"), "the schema's 'missing'"),
            missing_values=tuple(str(mark) for mark in marks),
            outside=_choice(Outside, data.get("outside", "clamp"), "the schema's 'outside'"),
            unit=None if data.get("unit") is None else str(data["unit"]),
            rows_per_unit=int(rows),
            population=None if data.get("population") is None else str(data["population"]),
        )


def _plain(bound: Bound) -> str:
    return str(bound) if isinstance(bound, Decimal) else bound.isoformat()


def _mapping(data: Any, what: str) -> Mapping[Any, Any]:
    if not isinstance(data, Mapping):
        raise SchemaError(f"{what} cannot be understood", must="a mapping of names to settings")
    return data


def _only(data: Mapping[Any, Any], known: tuple[str, ...], what: str) -> None:
    for key in data:
        if key not in known:
            raise SchemaError(
                f"{what} has an unknown setting",
                must="one of " + ", ".join(known),
                got=repr(key),
                do=did_you_mean(str(key), known) or None,
            )


def _choice(kind: type[_E], given: Any, what: str) -> _E:
    known = [member.value for member in kind]
    if given not in known:
        raise SchemaError(
            f"{what} is not valid",
            must="one of " + ", ".join(known),
            got=repr(given),
            do=did_you_mean(str(given), known) or None,
        )
    return kind(given)


def _attribute(name: str, given: Any, folder: Path | None) -> Attribute:
    what = f"the attribute '{name}'"
    data = _mapping(given if given is not None else {}, what)
    _only(data, _ATTRIBUTE_KEYS, what)
    role = _choice(Role, data.get("role", "quasi-identifier"), f"{what}: 'role'")
    default = "text" if role is Role.IDENTIFIER else None
    if data.get("type", default) is None:
        raise SchemaError(f"{what} has no type", must="one of " + ", ".join(t.value for t in Type))
    kind = _choice(Type, data.get("type", default), f"{what}: 'type'")
    taxonomy = _taxonomy(data.get("taxonomy"), folder, what)
    order = data.get("order", "declared" if data.get("values") is not None else "taxonomy")
    if order not in ("declared", "taxonomy"):
        raise SchemaError(
            f"{what}: 'order' is not valid", must="declared or taxonomy", got=repr(order)
        )
    values = _values(data.get("values"), what)
    if order == "taxonomy" and taxonomy is not None and values is not None:
        values = tuple(leaf for leaf in taxonomy.leaves if leaf in set(values))
    if order == "taxonomy" and taxonomy is None and data.get("order") is not None:
        raise SchemaError(f"{what} is ordered by a taxonomy it does not have", do="add 'taxonomy'")
    if order == "declared" and values is None and data.get("order") is not None:
        raise SchemaError(f"{what} has an order but no values", do="list 'values' in their order")
    missing, outside = data.get("missing"), data.get("outside")
    return Attribute(
        name=name,
        type=kind,
        role=role,
        domain=_domain(data.get("domain"), kind, what),
        values=values,
        values_from_data=str(data.get("values_from_data", False)).lower() == "true",
        taxonomy=taxonomy,
        grid=None if data.get("grid") is None else _decimal(data["grid"], f"{what}: 'grid'"),
        missing=None if missing is None else _choice(Missing, missing, f"{what}: 'missing'"),
        outside=None if outside is None else _choice(Outside, outside, f"{what}: 'outside'"),
        recode=None if data.get("recode") is None else str(data["recode"]),
        other=None if data.get("other") is None else str(data["other"]),
    )


def _taxonomy(given: Any, folder: Path | None, what: str) -> Taxonomy | None:
    if given is None:
        return None
    if isinstance(given, str):
        path = Path(given)
        return Taxonomy.load(path if path.is_absolute() or folder is None else folder / path)
    if not isinstance(given, list) or not all(isinstance(path, list) for path in given):
        raise SchemaError(
            f"{what}: 'taxonomy' is not valid", must="a file's path, or lists of nodes"
        )
    return Taxonomy.from_paths([[str(node) for node in path] for path in given])


def _values(given: Any, what: str) -> tuple[str, ...] | None:
    if given is None:
        return None
    if not isinstance(given, list) or any(isinstance(v, (list, Mapping)) for v in given):
        raise SchemaError(f"{what}: 'values' is not valid", must="a list of labels")
    return tuple(str(value) for value in given)


def _decimal(given: Any, what: str) -> Decimal:
    try:
        return Decimal(str(given))
    except InvalidOperation:
        raise SchemaError(f"{what} is not valid", must="a number", got=repr(given)) from None


def _domain(given: Any, kind: Type, what: str) -> tuple[Bound, Bound] | None:
    if given is None or given == "":
        return None
    if not isinstance(given, list) or len(given) != 2:
        raise SchemaError(
            f"{what}: 'domain' is not valid", must="a pair [lowest, highest]", got=repr(given)
        )
    low, high = (_bound(bound, kind, f"{what}: 'domain'") for bound in given)
    return low, high


def _bound(given: Any, kind: Type, what: str) -> Bound:
    if kind in (Type.DATE, Type.DATETIME):
        try:
            if kind is Type.DATE:
                return date.fromisoformat(str(given))
            moment = datetime.fromisoformat(str(given))
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        except ValueError:
            raise SchemaError(
                f"{what} is not valid", must="dates such as 2020-01-31", got=repr(given)
            ) from None
    bound = _decimal(given, what)
    if kind is Type.INTEGER and bound.is_finite() and bound != bound.to_integral_value():
        raise SchemaError(f"{what} is not valid", must="whole numbers", got=repr(given))
    return bound
