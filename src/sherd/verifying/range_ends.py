"""Whether the ends of published ranges lie on public cells, and are nobody's values.

The cells follow from the schema alone: at most ``CELLS`` of equal width over a declared domain, the
steps of its grid where that has fewer. A range begins where a cell does and ends where the next one
begins, a step before it for whole numbers and days, or at the domain's own end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.tables.attribute import value_of
from sherd.tables.axis import Axis, measure
from sherd.tables.schema import Schema, Type
from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

CELLS = 1000
"""Cells of a declared domain, where its grid has as many steps."""

_NEAR = 1e-6  # of a step: how far a printed number may lie from what it stands for
_WHOLE = (Type.INTEGER, Type.DATE)


def _promised(plan: Mapping[str, Any]) -> bool:
    """Whether a plan publishes ranges that end on public cells."""
    if plan["method"] == "mondrian":
        return bool(plan.get("boxes") == "cells")
    return plan.get("min_frequency") is not None


def check_range_ends(manifest: Mapping[str, Any]) -> list[Check]:
    """A check of every range in a manifest's books; none where a plan promises no public ends."""
    if not _promised(manifest["plan"]):
        return []
    schema = Schema.from_data(manifest["schema"])
    attribute_of = manifest["facts"].get("attributes", {})
    odd, open_ended = set(), set()
    for field, book in manifest["facts"]["labels"].items():
        attribute = schema[attribute_of.get(field, field)]
        if not attribute.type.measured:
            continue
        if attribute.domain is None:
            open_ended.add(attribute.name)
            continue
        axis = Axis.of(attribute)
        public = _Ends(axis, {measure(end) for end in attribute.domain})
        if not all(public.hold(said) for said in book.values() if "low" in said):
            odd.add(attribute.name)
    detail = "on cells that the schema decides"
    if open_ended:
        detail += f"; by leading digits, for want of a domain: {', '.join(sorted(open_ended))}"
    if odd:
        detail = f"not on the cells that the schema decides: {', '.join(sorted(odd))}"
    return [Check(name="ends of ranges", passed=not odd, detail=detail)]


class _Ends:
    """The places on an axis where a range may begin, and where it may end."""

    def __init__(self, axis: Axis, outer: set[Fraction]) -> None:
        width = axis.steps + 1
        cells = min(CELLS, width)
        self._axis, self._outer = axis, outer
        self._starts = {-(-cell * width // cells) for cell in range(cells + 1)}

    def hold(self, said: Mapping[str, Any]) -> bool:
        """Whether a range begins and ends there."""
        last = 1 if said["closed"] and self._axis.type in _WHOLE else 0
        return self._at(said["low"], 0) and self._at(said["high"], last)

    def _at(self, text: str, before: int) -> bool:
        amount = measure(value_of(text, self._axis.type))
        place = amount / self._axis.step - self._axis.low
        nearest = round(place)
        near = abs(place - nearest) <= _NEAR
        return amount in self._outer or (near and nearest + before in self._starts)
