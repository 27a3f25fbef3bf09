"""Attributes from plain data, as a schema's YAML file holds them, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from sherd.errors import Noting, SchemaError, SherdError, did_you_mean, together
from sherd.tables.attribute import Attribute, Bound, Missing, Outside, Role, Type, value_of
from sherd.tables.taxonomy import Taxonomy

if TYPE_CHECKING:
    from pathlib import Path

_E = TypeVar("_E", bound=StrEnum)

ATTRIBUTE_KEYS = (
    "type", "role", "domain", "values", "values_from_data", "order", "taxonomy", "grid",
    "missing", "outside", "recode", "other",
)  # fmt: skip


def mapping(data: Any, what: str) -> Mapping[Any, Any]:
    """The data, if it is a mapping."""
    if not isinstance(data, Mapping):
        raise SchemaError(f"{what} cannot be understood", must="a mapping of names to settings")
    return data


def only(data: Mapping[Any, Any], known: tuple[str, ...], what: str) -> None:
    """Refuse settings that nobody knows, all of them at once."""
    strange = [key for key in data if key not in known]
    hints = [did_you_mean(str(key), known) for key in strange]
    if strange:
        raise SchemaError(
            f"{what} has an unknown setting" + "s" * (len(strange) > 1),
            must="one of " + ", ".join(known),
            got=", ".join(map(repr, strange)),
            do=" ".join(hint for hint in hints if hint) or None,
        )


def choice(kind: type[_E], given: Any, what: str) -> _E:
    """One of a few words."""
    known = [member.value for member in kind]
    if given not in known:
        raise SchemaError(
            f"{what} is not valid",
            must="one of " + ", ".join(known),
            got=repr(given),
            do=did_you_mean(str(given), known) or None,
        )
    return kind(given)


def attribute(name: str, given: Any, folder: Path | None) -> Attribute:
    """One attribute; a taxonomy named by its file is found in the folder."""
    what = f"the attribute '{name}'"
    data = mapping(given if given is not None else {}, what)
    wrong: list[SherdError] = []
    with Noting(SchemaError, wrong):
        only(data, ATTRIBUTE_KEYS, what)
    role: Role | None = None
    kind: Type | None = None
    with Noting(SchemaError, wrong):
        role = choice(Role, data.get("role", "quasi-identifier"), f"{what}: 'role'")
    if role is not None or "type" in data:
        with Noting(SchemaError, wrong):
            kind = _type(data.get("type", "text" if role is Role.IDENTIFIER else None), what)
    if role is not None and kind is not None:
        with Noting(SchemaError, wrong):
            attribute = _attribute(name, data, role, kind, folder)
    if wrong:
        raise together(wrong, f"settings of {what} are not valid")
    return attribute


def _type(given: Any, what: str) -> Type:
    if given is None:
        raise SchemaError(f"{what} has no type", must="one of " + ", ".join(t.value for t in Type))
    return choice(Type, given, f"{what}: 'type'")


def _attribute(
    name: str, data: Mapping[Any, Any], role: Role, kind: Type, folder: Path | None
) -> Attribute:
    what = f"the attribute '{name}'"
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
        missing=None if missing is None else choice(Missing, missing, f"{what}: 'missing'"),
        outside=None if outside is None else choice(Outside, outside, f"{what}: 'outside'"),
        recode=None if data.get("recode") is None else str(data["recode"]),
        other=None if data.get("other") is None else str(data["other"]),
    )


def _taxonomy(given: Any, folder: Path | None, what: str) -> Taxonomy | None:
    if given is None:
        return None
    if isinstance(given, str):
        if folder is None:
            # A schema that came with a message or a manifest opens nothing of ours.
            raise SchemaError(
                f"{what}: 'taxonomy' names a file, and this schema has no folder to find it in",
                must="lists of nodes",
                do="load the schema from its own file outside a release, or say `folder=`",
            )
        return Taxonomy.load(folder / given)
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
    try:
        return value_of(str(given), kind)
    except ValueError:
        if kind in (Type.DATE, Type.DATETIME):
            must = "dates such as 2020-01-31"
        else:
            _decimal(given, what)
            must = "whole numbers"
        raise SchemaError(f"{what} is not valid", must=must, got=repr(given)) from None
