"""The verifier passes what the method made and finds every change of it."""

from __future__ import annotations

import copy
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.methods.graphical.learning import least_ridge, strength_of
from sherd.methods.graphical.measuring import Noise
from sherd.verifying.graphical_models import verify
from sherd.verifying.model_settings import check_settings, variance_of

if TYPE_CHECKING:
    from collections.abc import Callable

N = 3000
RNG = np.random.default_rng(4)
X = RNG.integers(0, 30, N)
TABLE = pa.table(
    {"x": X, "y": (X // 3 + RNG.integers(0, 3, N)), "c": np.where(X > 20, "yes", "no")}
)
SCHEMA = sherd.Schema.from_data(
    {
        "missing": "refuse",
        "attributes": {
            "x": {"type": "integer", "domain": ["0", "29"]},
            "y": {"type": "integer", "domain": ["0", "12"]},
            "c": {"type": "category", "values": ["yes", "no"]},
        },
    }
)
RULES = [{"x": [0, 4], "c": ["yes"]}]


@pytest.fixture(scope="module", params=[None, 1e-6], ids=["pure", "gaussian"])
def release(request: pytest.FixtureRequest) -> sherd.Release:
    """A release to take apart."""
    plan = sherd.Plan(method="dp-graph", epsilon=3.0, delta=request.param, rules=RULES)
    return sherd.protect(TABLE, SCHEMA, plan)


def failed(
    release: sherd.Release, change: Callable[[dict[str, Any]], Any] | None = None
) -> set[str]:
    """The checks that fail after a change of the document."""
    documents = copy.deepcopy(dict(release.documents))
    if change is not None:
        change(documents["model"])  # type: ignore[arg-type]
    checks = verify(release.tables, release.manifest, documents)
    return {check.name for check in checks if check.passed is False}


def test_a_release_passes(release: sherd.Release) -> None:
    """Nothing fails, and what cannot be checked is said."""
    assert failed(release) == set()
    checks = verify(release.tables, release.manifest, release.documents)
    assert [check.name for check in checks if check.passed is None] == ["counts behind the noise"]


def test_a_release_that_was_not_saved_passes_whole(release: sherd.Release) -> None:
    """Its documents are looked for in the release, not among files; without them it fails."""
    assert sherd.verify(release).passed
    (lost,) = sherd.verify(replace(release, documents={})).failed
    assert lost.name in ("tables", "contents")


def _set(*path: Any) -> Callable[[dict[str, Any]], None]:
    *way, last, value = path

    def change(document: dict[str, Any]) -> None:
        at: Any = document
        for step in way:
            at = at[step]
        at[last] = value(at[last]) if callable(value) else value

    return change


CHANGES: list[tuple[str, Callable[[dict[str, Any]], None], str]] = [
    ("a count that is not whole", _set("marginals", 0, "counts", 0, 1.5), "measurements"),
    ("a count left out", _set("fine", 0, "counts", lambda c: c[1:]), "measurements"),
    ("noise off its lattice", _set("fine", 0, "scale", "1001/1000"), "measurements"),
    ("another kind of noise", _set("noise", lambda k: {"laplace": "gaussian"}.get(k, "laplace")),
     "measurements"),
    ("a part more", _set("seed", 1), "measurements"),
    ("a cell less", _set("attributes", 0, "edges", lambda e: e[:-1]), "cells and bins"),
    ("a bin without cells", _set("attributes", 1, "bins", lambda b: [x + 1 for x in b]),
     "cells and bins"),
    ("half the noise", _set("marginals", 0, "scale", "1/16"), "noise"),
    ("more budget than planned", _set("total", "1000"), "noise"),
    ("another sum spent", _set("spent", "1/1000000"), "noise"),
    ("counts of other records", _set("fine", 0, "counts", lambda c: [v * 2 for v in c]),
     "sums of counts"),
    ("other factors", _set("marginals", 0, "factor", lambda f: [v + 0.5 * (i % 2) for i, v in
     enumerate(f)]), "model"),
    ("other shares", _set("marginals", 0, "model", lambda m: m[::-1]), "model"),
    ("a count after the fit", _set("marginals", 0, "counts",
     lambda c: [c[0] + 300, c[1] - 300, *c[2:]]), "fit"),
    ("a stronger pull", _set("fit", "strength", lambda s: s * 1.001), "settings of the fit"),
    ("another least share", _set("fit", "least_share", 2e-6), "settings of the fit"),
    ("another least ridge", _set("fit", "least_ridge", lambda r: r * 1.001), "settings of the fit"),
    ("a setting more", _set("fit", "seed", 1), "settings of the fit"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "change", "check"), CHANGES, ids=[c[0] for c in CHANGES])
def test_a_change_is_found(
    release: sherd.Release, what: str, change: Callable[[dict[str, Any]], None], check: str
) -> None:
    """The check that fails is the one that is about what was changed."""
    assert check in failed(release, change)


def _unpaid(document: dict[str, Any]) -> None:
    """The choices take nothing of the budget: everything else adds up."""
    power = 1 if document["noise"] == "laplace" else 2
    rate, picks = Fraction(document["choice"]["rate"]), document["choice"]["picks"]
    price = picks * (rate if power == 1 else rate**2 / 8)
    document["spent"] = str(Fraction(document["spent"]) - price)
    document["choice"] |= {"rate": None, "picks": 0}


def _as_all(document: dict[str, Any]) -> None:
    _unpaid(document)
    document["choice"]["kind"] = "all"


@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize("change", [_unpaid, _as_all])
def test_a_choice_that_nobody_paid_for_is_found(
    delta: float | None, change: Callable[[dict[str, Any]], None]
) -> None:
    """Marginals were chosen by looking at the data, and the budget says nothing of it."""
    made = sherd.protect(TABLE, SCHEMA, sherd.Plan(method="dp-graph", epsilon=0.3, delta=delta))
    document = made.documents["model"]
    assert document["choice"]["picks"] == len(document["marginals"]) == 2
    assert failed(made) == set()
    assert failed(made, change) == {"choice of marginals"}


@pytest.mark.parametrize(
    "more",
    [
        {"choice": "all"},
        {"choice": "all", "class_attribute": "c"},
        {"choice": "workload", "workload": [["x", "c"]]},
        {"class_attribute": "c"},
    ],
    ids=str,
)
def test_marginals_that_the_plan_names_need_no_choice(more: dict[str, Any]) -> None:
    """All of them pass; the marginals of another plan do not."""
    made = sherd.protect(TABLE, SCHEMA, sherd.Plan(method="dp-graph", epsilon=3.0, **more))
    assert made.documents["model"]["choice"]["rate"] is None
    assert failed(made) == set()
    other = {**made.manifest["plan"], "choice": "workload", "workload": [["x", "y"]]}
    checks = verify(made.tables, {**made.manifest, "plan": other}, made.documents)
    assert "choice of marginals" in {one.name for one in checks if one.passed is False}


def test_the_pull_towards_independence_follows_from_the_noise(release: sherd.Release) -> None:
    """By the records beside the noise of all that is fitted to; or as earlier releases had it."""
    document = release.documents["model"]
    scales = [float(Fraction(one["scale"])) for one in document["marginals"] if one["model"]]
    laplace = [(2 * (r := np.exp(-1 / s))) ** 0.5 / (1 - r) for s in scales]
    deviations = scales if document["noise"] == "gaussian" else laplace
    precision = np.sum(np.maximum(deviations, 1) ** -2.0)
    expected = 3 * (N * precision**0.5) ** (2 / 3)
    assert document["fit"]["strength"] == pytest.approx(expected, rel=1e-9)
    for earlier in (0.004, 0.016):
        checked = check_settings(
            {**document, "fit": {**document["fit"], "strength": earlier * N}}, [1.0]
        )
        assert checked.passed
    assert not check_settings({**document, "fit": {}}, [1.0]).passed


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_method_and_verifier_agree_on_noise_and_pull(kind: Literal["laplace", "gaussian"]) -> None:
    """Two programs, one rule: for noise of less than a record up to a million of them."""
    for steps in (1, 3, 9, 16, 20, 32, 40, 64, 999, 16 * 10**6):
        noise = Noise(kind=kind, scale=Fraction(steps, 16))
        assert variance_of(kind, steps / 16) == pytest.approx(noise.variance, rel=1e-6)
        fit = {"strength": strength_of([noise], N), "least_share": 1e-6, "gradient": 0.0}
        document = {"rows": N, "fit": {**fit, "least_ridge": least_ridge(N)}}
        assert check_settings(document, [variance_of(kind, steps / 16)]).passed


def test_another_table_is_found(release: sherd.Release) -> None:
    """Rows that were not drawn from the model, though in the domain."""
    data = release.tables["data"]
    y = pa.array(np.random.default_rng(1).permutation(data.column("y").to_numpy()))
    other = {"data": data.set_column(1, "y", y)}
    checks = {c.name: c.passed for c in verify(other, release.manifest, release.documents)}
    assert checks["records"] is False


def test_a_record_that_breaks_a_rule_is_found(release: sherd.Release) -> None:
    """One is enough."""
    data = release.tables["data"].to_pylist()
    data[0] |= {"x": 2, "c": "yes"}
    other = {"data": pa.Table.from_pylist(data, schema=release.tables["data"].schema)}
    checks = {c.name: c.passed for c in verify(other, release.manifest, release.documents)}
    assert checks["records"] is False


def test_other_marginals_than_stated_are_found(release: sherd.Release) -> None:
    """The manifest names what was measured."""
    manifest = {**release.manifest, "facts": {**release.manifest["facts"], "measured": []}}
    checks = {c.name: c.passed for c in verify(release.tables, manifest, release.documents)}
    assert checks["marginals measured"] is False


@pytest.mark.parametrize("epsilon", [3.0, 10.0])
@pytest.mark.parametrize("copied", ["all of it", "half of it", "one column"])
def test_copies_of_the_original_are_no_drawn_records(epsilon: float, copied: str) -> None:
    """Their counts differ from the model's by its noise, which is more than rounding."""
    plan = sherd.Plan(method="dp-graph", epsilon=epsilon, delta=1e-6)
    made = sherd.protect(TABLE, SCHEMA, plan)
    assert sherd.verify(made).passed
    data = TABLE.cast(made.tables["data"].schema)
    if copied == "half of it":
        data = pa.concat_tables([made.tables["data"].slice(0, N // 2), data.slice(N // 2)])
    if copied == "one column":
        data = made.tables["data"].set_column(0, "x", data.column("x"))
    assert "records" in {c.name for c in sherd.verify(replace(made, tables={"data": data})).failed}


def test_factors_beyond_floating_point_are_worked_out() -> None:
    """Little noise on few records: extreme factors, no false alarm, and nothing passed over."""
    rows = np.random.default_rng(1).permutation(30_000)[:500]
    table = sherd.datasets.load("adult", complete=True).take(pa.array(rows))
    plan = sherd.Plan(method="dp-graph", epsilon=20.0, delta=1e-6)
    made = sherd.protect(table, sherd.datasets.schema("adult"), plan)
    assert sherd.verify(made).passed
    documents = copy.deepcopy(dict(made.documents))
    documents["model"]["fine"][0]["factor"][0] = 1e6
    names = {c.name for c in sherd.verify(replace(made, documents=documents)).failed}
    assert {"model", "records"} <= names
