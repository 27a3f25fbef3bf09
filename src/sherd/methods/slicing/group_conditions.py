"""Conditions on the sensitive values of a group beyond "no value above 1/l".

Notation: P is the distribution of a sensitive attribute in a group (a bucket, a class, the rows
with the same q in a bucket), Q the one in the whole released table; p_s and q_s are the shares of a
value s, r_1 ≥ r_2 ≥ … the counts of P's values.

- ``share`` α: no p_s is above α; with ``size`` k, (α, k)-anonymity (wong2006).
- ``entropy`` l: the entropy of P is at least log l (machanavajjhala2007).
- ``recursive`` [c, l]: r_1 < c (r_l + r_{l+1} + …), recursive (c, l)-diversity (same).
- ``closeness`` t: half the sum of |p_s − q_s| is at most t: t-closeness with equal distance;
  ``ordered_closeness`` t: with the ordered distance, Σ_i |Σ_{j ≤ i} (p_j − q_j)| / (m − 1) over
  the m values of the table in their order (li2007).
- ``likeness`` β: p_s ≤ q_s (1 + min(β, −ln q_s)), enhanced β-likeness (cao2012).

Why they carry over from groups to every tuple: what somebody believes of a person is a mixture of
the groups that the person may be in, p(t, ·) = Σ_B w_B P_B. The set of distributions that meet any
one of these is convex: shares are linear, the entropy is concave, r_1/n and the sum of the l − 1
largest shares are convex, distances from a fixed Q are convex, and the likeness is linear. So the
mixture meets what each group meets. The union of two groups is such a mixture too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import PlanError, did_you_mean
from sherd.guarantees import GroupDiversity, KAnonymity, LDiversity
from sherd.tables.schema import Type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sherd.guarantees import Notion
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

_MUST = {
    "share": "a number above 0 and below 1",
    "size": "a whole number from 2",
    "entropy": "a number above 1",
    "recursive": "two numbers, c above 0 and a whole l from 2",
    "closeness": "a number above 0 and below 1",
    "ordered_closeness": "a number above 0 and below 1",
    "likeness": "a number above 0",
}


def _fits(name: str, value: Any) -> bool:
    if name == "recursive":
        return (
            isinstance(value, (list, tuple))
            and len(value) == 2
            and all(_is_number(one) for one in value)
            and value[0] > 0
            and value[1] >= 2
            and float(value[1]).is_integer()
        )
    if not _is_number(value):
        return False
    if name == "size":
        return value >= 2 and float(value).is_integer()
    if name == "entropy":
        return bool(value > 1)
    return value > 0 and (name == "likeness" or value < 1)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What every group must meet; None where it is not asked for.

    >>> Conditions(entropy=3, recursive=(0.5, 2)).distinct
    4
    """

    share: float | None = None
    size: int | None = None
    entropy: float | None = None
    recursive: tuple[float, int] | None = None
    closeness: float | None = None
    ordered_closeness: float | None = None
    likeness: float | None = None

    @classmethod
    def of(cls, plan: Plan) -> Conditions:
        """The conditions of a plan, checked."""
        given: Mapping[str, Any] = plan["conditions"] or {}
        made: dict[str, Any] = {}
        for name, told in given.items():
            # An option's numbers come as a list, even if there is only one.
            alone = isinstance(told, (list, tuple)) and len(told) == 1
            value = told[0] if alone else told
            if name not in _MUST:
                raise PlanError(
                    "a condition is unknown",
                    must="one of " + ", ".join(_MUST),
                    got=repr(name),
                    do=did_you_mean(str(name), _MUST) or None,
                )
            if not _fits(name, value):
                raise PlanError(
                    f"the condition '{name}' is not valid", must=_MUST[name], got=repr(value)
                )
            made[name] = value
        if "recursive" in made:
            made["recursive"] = float(made["recursive"][0]), int(made["recursive"][1])
        if "size" in made:
            made["size"] = int(made["size"])
        return cls(**made)

    def asked(self) -> tuple[str, ...]:
        """The names of the conditions that are asked for."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name) is not None)

    def only(self, name: str) -> Conditions:
        """One of the conditions by itself."""
        return Conditions(**{name: getattr(self, name)})

    def said(self, name: str) -> str:
        """The limit of a condition as the command line takes it."""
        value = getattr(self, name)
        return ",".join(f"{v:g}" for v in value) if name == "recursive" else f"{value:g}"

    def with_l(self, l: int) -> Conditions:  # noqa: E741 - the field's own name for it
        """The same, and no value above 1/l."""
        return replace(self, share=min(self.share or 1.0, 1 / l)) if l > 1 else self

    @property
    def follow_the_table(self) -> bool:
        """Whether groups must be like the whole table; different values do not help then."""
        return not (self.closeness is self.ordered_closeness is self.likeness is None)

    @property
    def distinct(self) -> int:
        """How many different values, each once, make a group that meets all but the likeness."""
        needed = [1, self.size or 1, math.ceil(self.entropy or 1)]
        if self.share is not None:
            needed.append(math.ceil(1 / self.share - 1e-9))
        if self.recursive is not None:
            c, least = self.recursive
            needed.append(math.floor(1 / c + 1e-9) + least)
        return max(needed)

    def limits(self) -> NDArray[np.float64]:
        """The limits as the kernels take them."""
        c, least = self.recursive or (-1, -1)
        given = (
            self.share, self.size, self.entropy, c, least,
            self.closeness, self.ordered_closeness, self.likeness,
        )  # fmt: skip
        return np.array([-1.0 if one is None else one for one in given], dtype=np.float64)

    def notion(self, l: int, k: int | None = None) -> Notion:  # noqa: E741 - the field's name
        """What is promised together with l-diversity and k-anonymity."""
        if self.asked():
            mine = {one.name: getattr(self, one.name) for one in fields(self)}
            return GroupDiversity(l=l if l > 1 else None, k=k, **mine)
        return KAnonymity(k=k) if l == 1 and k is not None else LDiversity(l=l, k=k)


def check_conditions_fit(wanted: Conditions, plan: Plan, schema: Schema, names: Any) -> None:
    """Raise where conditions are asked of attributes that they have no meaning for."""
    if not wanted.asked():
        return
    if wanted.ordered_closeness is not None:
        for name in names:
            ordinal = schema[name].type is Type.ORDINAL and not schema[name].values_from_data
            if not schema[name].type.measured and not ordinal:
                raise PlanError(
                    f"the values of '{name}' have no declared order",
                    must="measured attributes, or ordinal ones with their values, for "
                    "'ordered_closeness'",
                    do="use 'closeness', or declare the attribute as ordinal",
                )
    if plan.parameters.get("sets"):
        raise PlanError(
            "conditions are not defined for cells that are sets",
            must="'l' alone where 'sets' is given",
            got=", ".join(wanted.asked()),
        )


def shares(values: NDArray[np.int32], heads: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of rows that have each value, in the numbering of ``Sensitive.elements``."""
    counts = np.bincount(values[values >= 0], minlength=int(heads[-1]))
    return counts / max(len(values), 1)
