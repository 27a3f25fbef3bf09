"""Checks of a table drawn from a graphical model: measurements, budget, model and records.

Nothing of the methods is used. The budget is added up from the stated noise and compared with
what the plan allows; the model's factors are multiplied out by an algorithm of its own and must
give the stated marginals, which must solve the stated problem; the table is counted and must
have the model's counts, rounded (`drawn_records`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.guarantees.concentrated import delta_of
from sherd.tables.attribute import value_of
from sherd.tables.axis import Axis, measure
from sherd.tables.coding import positions
from sherd.tables.schema import Missing, Schema
from sherd.verifying.check import UNTOUCHED, Check, with_role
from sherd.verifying.drawn_records import SLACK, Drawing, beyond_spread, marginal
from sherd.verifying.model_settings import check_choice, check_settings, variance_of
from sherd.verifying.noise_residuals import chance_of_sum, insider_checks
from sherd.verifying.stored_table import StoredTable, pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.verifying.drawn_records import Factor

    Table = NDArray[np.float64]
    Target = tuple[tuple[int, ...], Mapping[str, Any], Table, Table]

LATTICE = 16
"""Scales of noise are multiples of one over this."""

UNLIKELY = 1e-11
"""The chance at which a histogram's sum is not what its noise leads to."""

TOLERANCE = 1e-4
"""How far a stated share may be from the one worked out again."""

OPTIMUM = 2e-3
"""How far a fit may be from its optimum, as the largest entry of the gradient."""

_KEYS = {
    "format", "rows", "noise", "total", "spent", "choice", "attributes", "fit", "fine", "marginals",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What a release says of its model, read strictly."""

    schema: Schema
    plan: Mapping[str, Any]
    document: Mapping[str, Any]

    @property
    def rows(self) -> int:
        """The number of records."""
        return int(self.document["rows"])

    @property
    def names(self) -> list[str]:
        """The attributes in the order of the document."""
        return [one["name"] for one in self.document["attributes"]]

    @property
    def bins(self) -> list[NDArray[np.int64]]:
        """The bin of every fine cell, attribute by attribute."""
        return [np.array(one["bins"], np.int64) for one in self.document["attributes"]]

    @property
    def sizes(self) -> list[int]:
        """How many bins every attribute has."""
        return [int(one.max()) + 1 for one in self.bins]

    def scope(self, one: Mapping[str, Any]) -> tuple[int, ...]:
        """The places of a measurement's attributes."""
        return tuple(self.names.index(name) for name in one["attributes"])

    def variance(self, one: Mapping[str, Any]) -> float:
        """The variance of a measurement's noise."""
        return variance_of(self.document["noise"], float(Fraction(one["scale"])))

    def targets(self) -> list[Target]:
        """What the model is fitted to: scope, statement, shares and their variance, in bins."""
        targets: list[Target] = []
        for place, one in enumerate(self.document["fine"]):
            bins, size = self.bins[place], self.sizes[place]
            counts = np.bincount(bins, np.array(one["counts"], np.float64), minlength=size)
            cells = np.bincount(bins, minlength=size)
            variance = np.asarray(cells * self._share(one), np.float64)
            targets.append(((place,), one, counts / self.rows, variance))
        for one in self.document["marginals"]:
            if one["model"] is None:
                continue
            scope = self.scope(one)
            shape = [self.sizes[a] for a in scope]
            shares = np.array(one["counts"], np.float64).reshape(shape) / self.rows
            targets.append((scope, one, shares, np.full(shape, self._share(one))))
        return targets

    def fitted_variances(self) -> list[float]:
        """The noise of the marginals that the model is fitted to, or of 1-ways without any."""
        used = [one for one in self.document["marginals"] if one["model"] is not None]
        return [self.variance(one) for one in used or self.document["fine"]]

    def _share(self, one: Mapping[str, Any]) -> float:
        return self.variance(one) / self.rows**2


def verify(
    tables: Mapping[str, pa.Table | StoredTable],
    manifest: Mapping[str, Any],
    documents: Mapping[str, Mapping[str, Any]],
) -> list[Check]:
    """Every check of the contents of a release."""
    stated = Stated(
        schema=Schema.from_data(manifest["schema"]),
        plan=manifest["plan"],
        document=documents["model"],
    )
    checks = [_form(stated), _grids(stated)]
    if any(check.passed is False for check in checks):
        return checks
    checks += [
        _budget(stated),
        check_choice(
            stated.document, stated.plan, dict(zip(stated.names, stated.sizes, strict=True))
        ),
        *insider_checks(stated.document, manifest),
        _sums(stated),
        check_settings(stated.document, stated.fitted_variances()),
        *_model(stated),
        check_records(stated, tables["data"]),
        _facts(stated, manifest["facts"]),
    ]
    checks.append(
        Check.unmade(
            "counts behind the noise",
            "that the noise was added to true counts, only an audit with the original shows",
        )
    )
    return checks


def expected_facts(
    tables: Mapping[str, pa.Table | StoredTable], manifest: Mapping[str, Any]
) -> dict[str, Callable[[Any], bool]]:
    """What the manifest must state; which marginals were measured is checked with the model."""
    left = with_role(manifest, *UNTOUCHED)
    joint: dict[str, Callable[[Any], bool]] = {}
    if "parties" in manifest["facts"]:
        from sherd.verifying.stated_facts import of_parties

        keys = {"rho", "epsilon", "delta", "holders"}
        joint = {**of_parties(manifest), "insiders": lambda given: set(given) == keys}
    return {
        "rows": lambda given: type(given) is int and given == tables["data"].num_rows,
        "measured": lambda given: isinstance(given, list),
        "left_out": lambda given: given == left,
        **joint,
    }


def _form(stated: Stated) -> Check:
    """Whole counts in the right number, scales on the lattice, nothing more and nothing less."""
    document = stated.document
    fit = set(document) == _KEYS and document["format"] == 1
    fit = fit and type(document["rows"]) is int and document["rows"] > 0
    fit = fit and stated.names == list(stated.schema.protected)
    fit = fit and document["noise"] == ("laplace" if "delta" not in stated.plan else "gaussian")
    sizes = [len(one["bins"]) for one in document["attributes"]]
    fit = fit and [one["attributes"] for one in document["fine"]] == [[n] for n in stated.names]
    for place, one in enumerate([*document["fine"], *document["marginals"]]):
        cells = (
            sizes[place]
            if place < len(sizes)
            else math.prod(stated.sizes[a] for a in stated.scope(one))
        )
        scale = Fraction(one["scale"])
        fit = fit and set(one) == {"attributes", "scale", "counts", "model", "factor"}
        fit = fit and len(one["counts"]) == cells
        fit = fit and all(type(count) is int for count in one["counts"])
        fit = fit and scale > 0 and (scale * LATTICE).denominator == 1
    return Check.of(
        "measurements",
        bool(fit),
        f"{len(document['marginals'])} marginals of whole numbers, noise on its lattice",
        "not whole numbers of the stated shapes, or noise off its lattice",
    )


def _grids(stated: Stated) -> Check:
    """Fine cells that cover the axis, bins that leave none out."""
    fit = True
    for one in stated.document["attributes"]:
        attribute = stated.schema[one["name"]]
        axis = Axis.of(attribute)
        edges, bins = one["edges"], np.array(one["bins"])
        keeps = stated.schema.missing_policy(one["name"]) is Missing.KEEP
        fit = fit and one["missing"] is keeps and edges[0] == 0 and edges[-1] == axis.steps + 1
        fit = fit and all(type(e) is int for e in edges) and bool((np.diff(edges) > 0).all())
        fit = fit and len(bins) == len(edges) - 1 + keeps
        fit = fit and set(bins.tolist()) == set(range(int(bins.max()) + 1))
        spread = np.bincount(bins, np.array(one["within"], np.float64))
        fit = fit and bool(np.allclose(spread, 1, atol=1e-6))
    return Check.of(
        "cells and bins", fit, "cover every attribute's domain", "do not cover a domain"
    )


def _budget(stated: Stated) -> Check:
    """The stated noise costs no more than the plan's epsilon, or epsilon and delta, allow."""
    document, rows = stated.document, stated.schema.rows_per_unit
    epsilon, total = Fraction(repr(stated.plan["epsilon"])), Fraction(document["total"])
    scales = [Fraction(one["scale"]) for one in (*document["fine"], *document["marginals"])]
    choice = document["choice"]
    rate = Fraction(choice["rate"] or 0)
    picks = int(choice["picks"])
    if document["noise"] == "laplace":
        spent = sum((2 / scale for scale in scales), picks * rate)
        allowed = total == epsilon
    else:
        spent = sum((1 / scale**2 for scale in scales), picks * rate**2 / 8)
        delta = Fraction(repr(stated.plan["delta"]))
        allowed = delta_of(total * rows**2, epsilon * rows) <= Decimal(delta.numerator) / Decimal(
            delta.denominator
        )
    made = len(document["marginals"]) if choice["kind"] == "tree" and rate else 0
    fit = allowed and spent <= total and spent == Fraction(document["spent"]) and picks >= made
    unit = "ε" if document["noise"] == "laplace" else "ρ"
    return Check.of(
        "noise",
        bool(fit),
        f"costs {float(spent):.6g} of the {unit} = {float(total):.6g} that the plan allows",
        "costs more than the plan allows, or something else than is stated",
    )


def _sums(stated: Stated) -> Check:
    """Every histogram's sum is the number of records, up to the noise of its cells."""
    least = 1.0
    for one in (*stated.document["fine"], *stated.document["marginals"]):
        scale, cells = float(Fraction(one["scale"])), len(one["counts"])
        apart = (sum(one["counts"]) - stated.rows) / scale
        least = min(least, chance_of_sum(stated.document["noise"], {scale: cells}, apart))
    return Check.of(
        "sums of counts",
        least > UNLIKELY,
        f"as far from the number of records as noise puts them (the rarest: p ≤ {least:.1g})",
        "further from the number of records than their noise explains",
    )


def _excluded(stated: Stated) -> list[Factor]:
    """The zeros that the plan's rules put into the model."""
    factors: list[Factor] = []
    for rule in stated.plan.get("rules", ()):
        scope = tuple(a for a, name in enumerate(stated.names) if name in rule)
        excluded = np.ones((), np.bool_)
        for a in scope:
            name = stated.names[a]
            starts = np.array(stated.document["attributes"][a]["edges"][:-1])
            cells = np.array([_is_in(stated, name, rule[name], int(at)) for at in starts])
            inside = np.zeros(stated.sizes[a], np.bool_)
            inside[stated.bins[a][: len(starts)][cells]] = True
            excluded = np.logical_and.outer(excluded, inside)
        factors.append((scope, np.where(excluded, -np.inf, 0.0)))
    return factors


def _is_in(stated: Stated, name: str, values: Sequence[Any], position: int) -> bool:
    """Whether the value at a position is one that a rule excludes."""
    attribute = stated.schema[name]
    axis = Axis.of(attribute)
    if attribute.type.measured:
        low, high = (measure(value_of(str(v), attribute.type)) for v in values)
        return bool(low <= (axis.low + position) * axis.step <= high)
    labels = axis.labels or ("false", "true")
    return labels[position] in [str(v).lower() if isinstance(v, bool) else str(v) for v in values]


def factors_of(stated: Stated) -> list[Factor]:
    """All that is multiplied in the model, as logarithms."""
    least = stated.document["fit"]["least_share"]
    factors: list[Factor] = [
        ((a,), np.log(np.maximum(np.array(one["start"], np.float64), least)))
        for a, one in enumerate(stated.document["attributes"])
    ]
    factors += [
        (scope, np.array(one["factor"], np.float64).reshape(shares.shape))
        for scope, one, shares, _ in stated.targets()
    ]
    return factors + _excluded(stated)


def _model(stated: Stated) -> list[Check]:
    """The factors give the stated marginals, and these solve the stated problem."""
    fit, factors = stated.document["fit"], factors_of(stated)
    apart, steepest = [0.0], [0.0]
    for scope, one, shares, variance in stated.targets():
        modelled = np.array(one["model"], np.float64).reshape(shares.shape)
        again = marginal(factors, stated.sizes, scope)
        apart.append(float(np.abs(again - modelled).max()))
        ridge = np.maximum(fit["strength"] * variance, fit["least_ridge"])
        weights = np.array(one["factor"], np.float64).reshape(shares.shape)
        steepest.append(float(np.abs(modelled - shares + ridge * weights).max()))
    # Not max() of Python, which passes over what is not a number.
    far, steep = float(np.max(apart)), float(np.max(steepest))
    return [
        Check.of(
            "model",
            far <= TOLERANCE,
            f"its factors lead to the stated shares, to {far:.1g}",
            "its factors do not lead to the stated shares",
        ),
        Check.of(
            "fit",
            steep <= OPTIMUM and fit["strength"] > 0,
            f"the model fits the released measurements best, to {steep:.1g}",
            "another model fits the released measurements better",
        ),
    ]


def check_records(stated: Stated, data: pa.Table | StoredTable) -> Check:
    """The table's counts are the model's, rounded, and no rule is broken."""
    drawing, rules = Drawing.of(factors_of(stated), stated.sizes), _excluded(stated)
    spread = [np.zeros(len(bins), np.int64) for bins in stated.bins]
    excluded = 0
    for piece in pieces(data, *stated.names):
        binned = []
        for bins, cells, counts in zip(stated.bins, _cells(stated, piece), spread, strict=True):
            np.add(counts, np.bincount(cells, minlength=len(bins)), out=counts)
            binned.append(bins[cells])
        drawing.count(binned)
        for scope, allowed_ in rules:
            index = _index(stated, scope, binned, piece.num_rows)
            excluded += int((allowed_.ravel()[index] < 0).sum())
    worst = [drawing.beyond_rounding()]
    for one, bins, counts in zip(stated.document["attributes"], stated.bins, spread, strict=True):
        worst.append(beyond_spread(counts, bins, np.array(one["within"], np.float64)))
    return Check.of(
        "records",
        float(np.max(worst)) <= SLACK and not excluded and data.num_rows == stated.rows,
        "counts are the model's, rounded, and no record breaks a rule",
        "counts are not the model's, rounded, or a record breaks a rule",
    )


def _cells(stated: Stated, piece: pa.Table) -> Iterator[NDArray[np.int64]]:
    """The fine cell of every value of some rows, attribute by attribute."""
    for one in stated.document["attributes"]:
        axis = Axis.of(stated.schema[one["name"]])
        place, gaps = positions(piece.column(one["name"]), axis, stated.schema.missing_values)
        cells = np.searchsorted(one["edges"], place, side="right") - 1
        cells[gaps] = len(one["edges"]) - 1
        yield cells


def _index(
    stated: Stated, scope: tuple[int, ...], binned: list[NDArray[np.int64]], rows: int
) -> NDArray[np.int64]:
    """The cell of a marginal that every row is in."""
    index = np.zeros(rows, np.int64)
    for a in scope:
        index = index * stated.sizes[a] + binned[a]
    return index


def _facts(stated: Stated, given: Mapping[str, Any]) -> Check:
    measured = [one["attributes"] for one in stated.document["marginals"]]
    return Check.of(
        "marginals measured",
        given.get("measured") == measured,
        "are those of the manifest",
        "are not those of the manifest",
    )
