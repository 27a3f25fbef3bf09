"""Which method to begin with where nobody has chosen one: what the methods themselves suggest.

What fits is decided from the schema and the table's size; no row is read.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sherd.errors import SherdError
from sherd.release.method import usable
from sherd.release.plan import Plan

if TYPE_CHECKING:
    from sherd.release.method import Method
    from sherd.release.traits import Suggestion
    from sherd.tables.schema import Schema


def suggested(schema: Schema, rows: int | None) -> list[tuple[Method, Suggestion]]:
    """The methods that fit, the best to begin with first.

    ``rows`` is the most that the table may have, None where it is not known.
    """
    offered = [
        (method, method.traits.suggestion)
        for method in usable()
        if method.traits.suggestion is not None
    ]
    fitting = [(method, one) for method, one in offered if _fits(method, one, schema)]
    most = math.inf if rows is None else rows

    def order(pair: tuple[Method, Suggestion]) -> tuple[bool, bool, int]:
        one = pair[1]
        return not one.all_differential, most < one.least_rows, one.place

    return sorted(fitting, key=order)


def _fits(method: Method, one: Suggestion, schema: Schema) -> bool:
    """Whether a method takes the schema; one whose needs are not known takes any."""
    if not one.settings:
        return True
    try:
        Plan(method=method.name, **one.settings).check(schema)
    except SherdError:
        return False
    return True
