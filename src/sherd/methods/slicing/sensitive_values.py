"""Which attributes are sensitive, and what counts as one sensitive value.

Labels count as they are; a measured attribute counts by declared bins, since otherwise
l values next to each other would pass for l different ones. Missing is a value too. Cells that
are sets, such as a list of diagnoses, count by their elements.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import PlanError, SchemaError, did_you_mean
from sherd.methods.slicing.attribute_codes import combined, encode
from sherd.tables.schema import Role, Type

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.methods.slicing.attribute_codes import Coded
    from sherd.release.plan import Plan
    from sherd.tables.schema import Attribute, Schema

Edge = float | date | datetime


def sensitive_names(plan: Plan, schema: Schema) -> tuple[str, ...]:
    """The sensitive attributes: those the plan names, else those of that role."""
    given: tuple[str, ...] | None = plan["sensitive"]
    if given is None:
        return schema.named(Role.SENSITIVE)
    for name in given:
        if name not in schema.attributes or schema[name].role is Role.IDENTIFIER:
            known = schema.released
            raise PlanError(
                "a sensitive attribute is not in the schema",
                must="one of " + ", ".join(known),
                got=repr(name),
                do=did_you_mean(str(name), known) or None,
            )
    if len(set(given)) != len(given):
        raise PlanError("a sensitive attribute is named twice", must="distinct names")
    return tuple(given)


def quasi_identifiers(plan: Plan, schema: Schema) -> tuple[str, ...]:
    """The quasi-identifiers: every protected attribute that is not sensitive in this plan."""
    sensitive = sensitive_names(plan, schema)
    return tuple(name for name in schema.protected if name not in sensitive)


def demoted(plan: Plan, schema: Schema) -> tuple[str, ...]:
    """Attributes that are sensitive in the schema but quasi-identifiers in the plan."""
    sensitive = sensitive_names(plan, schema)
    return tuple(name for name in schema.named(Role.SENSITIVE) if name not in sensitive)


def edges(plan: Plan, attribute: Attribute) -> tuple[Edge, ...] | None:
    """The declared bin edges of a sensitive attribute; None where it has labels."""
    given: Mapping[str, Any] = plan["bins"] or {}
    if not attribute.type.measured:
        if attribute.name in given:
            raise PlanError(
                f"'{attribute.name}' has labels and takes no bins", do="leave its bins out"
            )
        return None
    if attribute.name not in given:
        raise PlanError(
            f"the sensitive attribute '{attribute.name}' is measured and has no bins",
            must="edges, or a number of equal bins over the declared domain",
            do=f"give bins={{'{attribute.name}': [edge, …]}}",
        )
    wanted = given[attribute.name]
    if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted >= 2:
        return _equal_bins(attribute, wanted)
    if not isinstance(wanted, (list, tuple)) or not wanted:
        raise PlanError(
            f"the bins of '{attribute.name}' are not valid",
            must="a list of edges, or a whole number from 2",
            got=repr(wanted),
        )
    cuts = tuple(_edge(item, attribute) for item in wanted)
    if any(b <= a for a, b in itertools.pairwise(cuts)):  # type: ignore[operator]
        raise PlanError(f"the bins of '{attribute.name}' are not valid", must="rising edges")
    return cuts


def stated_bins(plan: Plan, schema: Schema) -> dict[str, list[float | str]]:
    """The edges that tell measured sensitive values apart, as plain data."""
    stated: dict[str, list[float | str]] = {}
    for name in sensitive_names(plan, schema):
        cuts = edges(plan, schema[name])
        if cuts is not None:
            stated[name] = [cut if isinstance(cut, float) else cut.isoformat() for cut in cuts]
    return stated


def _equal_bins(attribute: Attribute, wanted: int) -> tuple[Edge, ...]:
    if attribute.domain is None:
        raise SchemaError(
            f"the attribute '{attribute.name}' has no domain to divide into bins",
            do="declare its domain, or give the edges of its bins",
        )
    low, high = attribute.domain
    if isinstance(low, Decimal) and isinstance(high, Decimal):
        step = (float(high) - float(low)) / wanted
        return tuple(float(low) + step * i for i in range(1, wanted))
    assert isinstance(low, date)
    assert isinstance(high, date)
    gap = (high - low) / wanted
    return tuple(low + gap * i for i in range(1, wanted))


def _edge(given: Any, attribute: Attribute) -> Edge:
    try:
        if attribute.type is Type.DATE:
            return date.fromisoformat(str(given))
        if attribute.type is Type.DATETIME:
            return datetime.fromisoformat(str(given))
        return float(given)
    except (TypeError, ValueError):
        raise PlanError(
            f"an edge of the bins of '{attribute.name}' is not valid",
            must=f"a value of type {attribute.type.value}",
            got=repr(given),
        ) from None


def _bin(value: Any, cuts: tuple[Edge, ...]) -> int:
    if isinstance(value, datetime) and isinstance(cuts[0], datetime):
        value = value.replace(tzinfo=cuts[0].tzinfo)
    elif not isinstance(value, date):
        value = float(value)
    return sum(value >= cut for cut in cuts)


@dataclass(frozen=True, kw_only=True)
class Sensitive:
    """The sensitive codes of a table's rows: ``codes[row, attribute]``.

    An attribute whose cells are sets has a code for every set here; ``sets`` holds, for the place
    of such an attribute, the codes of each row's elements (−1 where there are no more), and how
    many elements there are.
    """

    names: tuple[str, ...]
    codes: NDArray[np.int32]
    sizes: tuple[int, ...]
    sets: Mapping[int, tuple[NDArray[np.int32], int]] = field(default_factory=dict)

    def pairs(self, q: NDArray[np.int32], n_q: int) -> tuple[list[NDArray[np.int32]], int]:
        """For every attribute the code of (q, s), all in one numbering; and how many."""
        codes: list[NDArray[np.int32]] = []
        total = 0
        for place, size in enumerate(self.sizes):
            pair, n_pairs = combined([q, self.codes[:, place]], [n_q, size])
            codes.append((pair + total).astype(np.int32))
            total += n_pairs
        return codes, total

    def elements(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Every row's values, all attributes in one numbering, and where each attribute begins.

        A set counts by its elements; a place without one is −1.
        """
        parts: list[NDArray[np.int32]] = []
        heads = [0]
        for place, size in enumerate(self.sizes):
            columns, n_values = self.sets.get(place, (self.codes[:, [place]], size))
            parts.append(np.where(columns < 0, -1, columns + heads[-1]).astype(np.int32))
            heads.append(heads[-1] + n_values)
        return np.ascontiguousarray(np.hstack(parts)), np.array(heads, dtype=np.int64)

    def kept(self, rows: NDArray[np.int64]) -> Sensitive:
        """The same for some of the rows."""
        sets = {place: (codes[rows], size) for place, (codes, size) in self.sets.items()}
        return Sensitive(names=self.names, codes=self.codes[rows], sizes=self.sizes, sets=sets)


def set_separators(plan: Plan, schema: Schema) -> dict[str, str]:
    """The sensitive attributes whose cells are sets, each with what stands between elements."""
    given = plan.parameters.get("sets") or {}
    known = sensitive_names(plan, schema)
    for name, mark in given.items():
        if name not in known or schema[name].type.measured:
            raise PlanError(
                "the cells of an attribute cannot be read as sets",
                must="a sensitive attribute with labels",
                got=repr(name),
            )
        if not isinstance(mark, str) or not mark:
            raise PlanError(
                f"what separates the elements of '{name}' is not valid",
                must="a text, such as ';'",
                got=repr(mark),
            )
    return dict(given)


def _elements(coded: Coded, separator: str) -> tuple[NDArray[np.int32], int]:
    """The codes of every row's elements, one column for each; the empty set is an element too."""
    apart = [
        sorted({part.strip() for part in (value or "").split(separator)} - {""}) or [""]
        for value in coded.values
    ]
    names = {name: at for at, name in enumerate(sorted({n for one in apart for n in one}))}
    of_value = np.full((len(apart), max(map(len, apart), default=1)), -1, dtype=np.int32)
    for at, one in enumerate(apart):
        of_value[at, : len(one)] = [names[name] for name in one]
    return of_value[coded.codes], len(names)


def sensitive_codes(table: pa.Table, schema: Schema, plan: Plan) -> Sensitive:
    """The sensitive values of a prepared table, measured ones by their bins."""
    names = sensitive_names(plan, schema)
    separators = set_separators(plan, schema)
    columns: list[NDArray[np.int32]] = []
    sizes: list[int] = []
    sets: dict[int, tuple[NDArray[np.int32], int]] = {}
    for name in names:
        coded = encode(table[name], schema[name], schema.missing_values)
        cuts = edges(plan, schema[name])
        if name in separators:
            sets[len(columns)] = _elements(coded, separators[name])
        if cuts is None:
            columns.append(coded.codes)
            sizes.append(coded.size)
        else:
            of_code = [0 if v is None else 1 + _bin(v, cuts) for v in coded.values]
            columns.append(np.array(of_code, dtype=np.int32)[coded.codes])
            sizes.append(len(cuts) + 2)
    codes = np.column_stack(columns) if columns else np.empty((len(table), 0), dtype=np.int32)
    codes = np.ascontiguousarray(codes, dtype=np.int32)
    return Sensitive(names=names, codes=codes, sizes=tuple(sizes), sets=sets)
