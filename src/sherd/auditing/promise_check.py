"""Whether the promise holds: re-verification, exact loss on the table, measured epsilon.

A plan's method is run on small tables through the contract that every method has: the audit asks
the plan for its method and never imports one. A table with many equal attributes, each with the
full share of epsilon, is many runs at once, because attributes are masked independently.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.epsilon.experiment import frozen_bound, real_bound, worst_case
from sherd.auditing.epsilon.mechanism import Mechanism, exact_loss, scales
from sherd.auditing.verdict.measure import Measure
from sherd.errors import SherdError
from sherd.randomness import Randomness
from sherd.release.method import Run, traits_of
from sherd.release.plan import Plan
from sherd.tables.axis import Axis
from sherd.tables.schema import Schema, Type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case
    from sherd.auditing.epsilon.experiment import Centroids


ALPHA = 0.05
"""The rate of false alarms of the two measured bounds together."""

_FLOOR = 0.001  # of the promise `centroids`, unless the plan says otherwise


def shares(plan: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, float]:
    """Each attribute's part of the plan's epsilon."""
    weights = {name: Fraction(str(plan.get("weights", {}).get(name, 1))) for name in names}
    total = sum(weights.values())
    return {name: float(plan["epsilon"] * weight / total) for name, weight in weights.items()}


def masking_of(plan: Mapping[str, Any]) -> Mapping[str, str]:
    """How a plan's method masks by ranking and noise, as it declares; nothing where it does not.

    >>> dict(masking_of({"method": "idp-ls"}))
    {'centre': 'mean', 'reach': 'local'}
    """
    traits = traits_of({"plan": plan})
    return {} if traits is None else traits.masking or {}


def mechanisms_of(case: Case, plan: Mapping[str, Any]) -> dict[str, Mechanism]:
    """What a plan does to each protected attribute by ranking and noise; nothing by others."""
    masking = masking_of(plan)
    if not masking:
        return {}
    enlarge, floor = _enlarged(plan)
    mechanisms = {}
    for name, epsilon in shares(plan, case.protected).items():
        bounds = _bounds(case, name, plan)
        if bounds is None:
            continue
        low, high, step = bounds
        mechanisms[name] = Mechanism(
            centre=masking["centre"],
            reach=masking["reach"],
            k=int(plan.get("k_of", {}).get(name, plan.get("k", 1))),
            epsilon=epsilon,
            low=low,
            high=high,
            floor=floor * (high - low),
            enlarge=enlarge,
            step=step,
        )
    return mechanisms


def _enlarged(plan: Mapping[str, Any]) -> tuple[bool, float]:
    """Whether a plan enlarges its noise to keep its promise, and the least scale it allows."""
    enlarge = plan.get("guarantee") == "centroids"
    return enlarge, float(plan.get("min_scale", _FLOOR if enlarge else 0.0))


def table_loss(case: Case, plan: Mapping[str, Any]) -> list[Measure]:
    """What the ordered centroids of this table spend when the worst record changes."""
    parts, bare = {}, []
    for name, mechanism in case.mechanisms.items():
        values = np.sort(case.original[name][~np.isnan(case.original[name])])
        if len(values) >= mechanism.k:
            parts[name] = exact_loss(values, mechanism)
            if not mechanism.single and not scales(values, mechanism).any():
                bare.append(name)
    if not parts:
        return []
    return [
        Measure(
            spec=CATALOGUE["loss-factor"],
            value=sum(parts.values()),
            basis=f"{len(parts)} attributes, {case.n:,} records, exact; computed "
            "independently, not by the method's own formula",
            baseline=float(plan["epsilon"]),
            against="the claimed ε",
            parts=parts,
            caution=f"published as it is: no ε ({', '.join(bare)})" if bare else "",
        )
    ]


def _bounds(case: Case, name: str, plan: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """The bounds and the step of an attribute's axis, in the unit of its scale."""
    labels = case.scales[name].labels
    if labels is not None:
        return 0.0, float(max(1, len(labels) - 1)), 1.0
    attribute = case.schema[name]
    if attribute.type is Type.BOOLEAN:
        return 0.0, 1.0, 1.0
    if attribute.domain is not None:
        axis = Axis.of(attribute)
        return float(axis.low * axis.step), float(axis.high * axis.step), float(axis.step)
    factor = plan.get("domain_from_data")
    if factor is None or attribute.type not in (Type.NUMBER, Type.INTEGER):
        return None
    low, high = (float(f(case.original[name])) for f in (np.nanmin, np.nanmax))
    return min(0.0, low * factor), max(0.0, high * factor), 0.0


def measured_epsilon(plan: Mapping[str, Any], *, seed: int, runs: int) -> list[Measure]:
    """Lower bounds on a worst-case table at ε = 1, with frozen and with recomputed scales.

    The method is tested with its own k and promise, on one attribute with ε = 1 whatever the
    plan's: a promise that fails there fails in proportion at every ε.
    """
    masking, k = masking_of(plan), int(plan.get("k", 1))
    if not masking:
        return []
    enlarge, floor = _enlarged(plan)
    experiment = worst_case(masking, k, enlarge=enlarge, floor=floor)
    exact = experiment.exact()
    frozen = frozen_bound(experiment, seed=seed, alpha=ALPHA / 2)
    measures = [
        Measure(
            spec=CATALOGUE["epsilon-frozen"],
            value=frozen.lower,
            low=frozen.lower,
            basis=f"{frozen.words()}; exactly {exact:.3f} between these two; false alarms of both "
            f"tests together at most {ALPHA:.0%}",
            baseline=1.0,
            against="the claim in this experiment, ε = 1",
        )
    ]
    try:
        real = real_bound(experiment, centroids_of(plan), seed=seed, runs=runs, alpha=ALPHA / 2)
    except SherdError:
        return measures
    measures.append(
        Measure(
            spec=CATALOGUE["epsilon-recomputed"],
            value=real.lower,
            low=real.lower,
            basis=real.words(),
            baseline=1.0,
            against="the claim in this experiment, ε = 1",
        )
    )
    return measures


AT_ONCE = 200
_GRID = "0.000001"


def centroids_of(plan: Mapping[str, Any], *, epsilon: float = 1.0) -> Centroids:
    """What runs a plan's method on a column of numbers in [0, 1] with that much epsilon."""
    kept = {key: plan[key] for key in ("method", "k", "guarantee", "min_scale") if key in plan}

    def run(values: NDArray[np.float64], runs: int, seed: int) -> NDArray[np.float64]:
        centroids = []
        streams = Randomness.seeded(seed).spawn(-(-runs // AT_ONCE))
        for start, stream in zip(range(0, runs, AT_ONCE), streams, strict=True):
            many = min(AT_ONCE, runs - start)
            names = [f"a{i}" for i in range(many)]
            whole = Plan(**kept, epsilon=epsilon * many)
            schema = _schema(names)
            table = pa.table(dict.fromkeys(names, values))
            outcome = whole.spec.run(
                table, schema, whole, Run(randomness=stream, threads=1, shuffle=False)
            )
            centroids.append(_ordered(outcome.tables["data"], names, values, kept))
        return np.vstack(centroids)

    return run


def _schema(names: list[str]) -> Schema:
    one = {"type": "number", "domain": ["0", "1"], "grid": _GRID, "missing": "refuse"}
    return Schema.from_data({"attributes": dict.fromkeys(names, one)})


def _ordered(
    data: pa.Table, names: list[str], values: NDArray[np.float64], plan: Mapping[str, Any]
) -> NDArray[np.float64]:
    """The noisy centroids in the order of the clusters, one row a run."""
    if plan.get("guarantee") == "strict":
        parts: NDArray[np.float64] = data.column("value").to_numpy().reshape(len(names), -1)
        return parts
    cells: NDArray[np.float64] = np.vstack([data.column(name).to_numpy() for name in names])
    k = int(plan.get("k", 1))
    # Rows were kept in order and the values are sorted: cluster j starts at row j·k.
    return cells[:, : (len(values) // k) * k : k]
