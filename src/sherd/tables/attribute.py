"""One attribute of a table: its type and role, the values it can take, how cells are treated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sherd.errors import SchemaError

if TYPE_CHECKING:
    from sherd.tables.taxonomy import Taxonomy


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
        if self.recode is not None:
            self._check_recode(self.recode)

    def _check_recode(self, text: str) -> None:
        """The value for missing cells is one the attribute could have."""
        if self.type is Type.BOOLEAN and text.lower() not in ("true", "false"):
            raise self._wrong("recodes to something else than its values", "true or false")
        if not self.type.measured:
            return
        try:
            value = value_of(text, self.type)
        except ValueError:
            raise self._wrong(
                f"recodes to something that is not of its type {self.type}", "a value it can have"
            ) from None
        if self.domain is not None and not self.domain[0] <= value <= self.domain[1]:  # type: ignore[operator]
            raise self._wrong("recodes to a value outside its domain", "a value of its domain")

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

    def published(self, *, names_values: bool) -> Attribute:
        """The attribute as a release tells it (see ``Schema.published``)."""
        if self.role is Role.IDENTIFIER:
            return Attribute(name=self.name, type=Type.TEXT, role=Role.IDENTIFIER)
        if not self.values_from_data or (names_values and self.role.protected):
            return self
        # A taxonomy's leaves are the same labels again.
        return replace(self, values=None, values_from_data=False, taxonomy=None)

    def as_data(self) -> dict[str, Any]:
        """The attribute as plain data (taxonomies as their paths)."""
        data: dict[str, Any] = {"type": self.type.value, "role": self.role.value}
        if self.domain is not None:
            data["domain"] = [_plain(end) for end in self.domain]
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


def value_of(text: str, kind: Type) -> Bound:
    """A value of a measured type from its text; ValueError where it is not one.

    >>> value_of("2020-01-31", Type.DATE)
    datetime.date(2020, 1, 31)
    """
    if kind is Type.DATE:
        return date.fromisoformat(text)
    if kind is Type.DATETIME:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError("not a number") from None
    if kind is Type.INTEGER and number.is_finite() and number != number.to_integral_value():
        raise ValueError("not a whole number")
    return number


def _plain(value: Bound) -> str:
    return str(value) if isinstance(value, Decimal) else value.isoformat()
