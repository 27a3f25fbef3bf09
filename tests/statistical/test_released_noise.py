"""The audit tests released values against their plan: broken releases are refuted, valid ones not.

A valid release is refuted once in a thousand by the noise and at most once in a thousand by the
order of its rows. Over 12 (slow: 200) valid releases the chance of more than one (slow: three)
false alarms is below 0.1 %. Without a row map nobody can tell that rows of ``dp`` were not
shuffled: its noise drowns their order. Every other broken release is refuted with and without.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.auditing import run
from sherd.auditing.case.case import Limits
from sherd.auditing.verdict.verdict_points import NOISE
from sherd.randomness import Randomness

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.release.bundle import Release
    from sherd.verifying.check import Check

ROWS, EPSILON, K = 1_500, 2.0, 15
NAMES = ("a", "b", "c", "d")
SCHEMA = sherd.Schema.from_data(
    {
        "missing": "recode",
        "attributes": {
            "a": {"type": "integer", "domain": ["0", "100"], "recode": "0"},
            "b": {"type": "number", "domain": ["0", "1000"], "grid": "0.5", "recode": "0"},
            "c": {"type": "integer", "domain": ["0", "40"], "recode": "0"},
            "d": {"type": "number", "domain": ["-5", "5"], "grid": "0.01", "recode": "0"},
        },
    }
)


STEPS = {"a": 1.0, "b": 0.5, "c": 1.0, "d": 0.01}

MORE: dict[str, dict[str, Any]] = {
    "dp-um": {"k": K},
    "idp-ls": {"k": K, "guarantee": "paper"},
    "idp-cbls": {"k": K, "guarantee": "paper"},
    "strict": {"k": K, "guarantee": "strict"},
    "diffgen": {"h": 10},
    "dp-graph": {"delta": 1e-6},
    "slice": {"l": 2, "sensitive": ["c"], "bins": {"c": 8}},
    "mondrian": {"k": 5},
    "anatomy": {"l": 2, "sensitive": ["c"], "bins": {"c": 8}},
    "fragment": {"looseness": 4, "constraints": {"constraints": [["a", "b"]]}},
}
"""What the plan of a method says besides epsilon."""


@pytest.fixture(autouse=True)
def _repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other random numbers for every release, the same in every run."""
    seeds = itertools.count(20)
    seeded = classmethod(lambda cls: cls.seeded(next(seeds)))
    monkeypatch.setattr(Randomness, "from_system", seeded)


def table(seed: int, rows: int = ROWS) -> pa.Table:
    """Records sorted by their first attribute, with ties."""
    rng = np.random.default_rng(seed)
    shared = np.sort(rng.normal(size=rows))
    return pa.table(
        {
            "a": np.clip(np.rint(50 + 20 * shared), 0, 100).astype(np.int64),
            "b": np.rint(np.clip(rng.gamma(2, 120, rows), 0, 1000) * 2) / 2,
            "c": np.clip(np.rint(20 + 5 * shared + rng.normal(size=rows)), 0, 40).astype(np.int64),
            "d": np.rint(np.clip(shared + rng.normal(size=rows), -5, 5) * 100) / 100,
        }
    )


def plan(method: str, epsilon: float = EPSILON) -> sherd.Plan:
    """The plan of a method; ``strict`` is dp-um's."""
    more: dict[str, Any] = {"epsilon": epsilon, **MORE.get(method, {})}
    if method in ("slice", "mondrian", "anatomy", "fragment"):
        del more["epsilon"]
    return sherd.Plan(method="dp-um" if method == "strict" else method, **more)


def claimed(made: Release, method: str) -> Release:
    """The release with the manifest of the plan it claims to follow."""
    manifest = {**made.manifest, "plan": plan(method).as_data()}
    return replace(made, manifest=manifest)


def less_noise(factor: float) -> Callable[[str], tuple[pa.Table, Release]]:
    """Noise of a plan with that many times the budget."""

    def make(method: str) -> tuple[pa.Table, Release]:
        original = table(1)
        return original, claimed(
            sherd.protect(original, SCHEMA, plan(method, factor * EPSILON)), method
        )

    return make


def unchanged(method: str) -> tuple[pa.Table, Release]:
    """The original as it is, shuffled."""
    original = table(2)
    made = sherd.protect(original, SCHEMA, plan(method))
    return original, replace(made, tables={"data": original.take(pa.array(made.order))})


def one_column(method: str) -> tuple[pa.Table, Release]:
    """The second column as it is."""
    original = table(3)
    made = sherd.protect(original, SCHEMA, plan(method))
    data = made.tables["data"]
    bare = original.column("b").take(pa.array(made.order)).cast(data.schema.field("b").type)
    return original, replace(made, tables={"data": data.set_column(1, "b", bare)})


def unshuffled(method: str) -> tuple[pa.Table, Release]:
    """Rows in the order they came, the stamp that says so taken off."""
    original = table(4)
    settings = sherd.Settings(keep_order=True)
    made = sherd.protect(original, SCHEMA, plan(method), settings=settings)
    return original, replace(made, manifest={**made.manifest, "stamps": []})


def checked(original: pa.Table, made: Release, *, mapped: bool = True) -> list[Check]:
    """What the audit says of the released values, with a row map or without."""
    bare = made if mapped else replace(made, order_of=None)
    given = run._Given(original=original, release=bare, limits=Limits())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_with_control", lambda case, _table, _manifest: (case, ""))
        return list(run._open(given, made.manifest).artefact)


def sure_model(method: str) -> tuple[pa.Table, Release]:
    """A model whose document declares twice the noise that its counts have."""
    original = table(5)
    made = sherd.protect(original, SCHEMA, plan(method))
    model = json.loads(json.dumps(made.documents["model"]))
    for one in (*model["fine"], *model["marginals"]):
        one["scale"] = str(2 * Fraction(one["scale"]))
    return original, replace(made, documents={"model": model})


def one_histogram(method: str) -> tuple[pa.Table, Release]:
    """A model one of whose histograms has no noise at all; the others drown it."""
    original = table(6)
    made = sherd.protect(original, SCHEMA, plan(method))
    model = json.loads(json.dumps(made.documents["model"]))
    (one,) = [one for one in model["fine"] if one["attributes"] == ["c"]]
    times = np.bincount(np.asarray(original.column("c")), minlength=len(one["counts"]))
    one["counts"] = times.tolist()
    return original, replace(made, documents={"model": model})


BROKEN: list[tuple[str, str, Callable[[str], tuple[pa.Table, Release]]]] = [
    ("dp", "original unchanged", unchanged),
    ("dp", "noise halved", less_noise(2)),
    ("dp", "a tenth of the noise", less_noise(10)),
    ("dp", "no noise", less_noise(1e6)),
    ("dp", "one column unmasked", one_column),
    ("dp", "not shuffled", unshuffled),
    ("dp-um", "original unchanged", unchanged),
    ("dp-um", "noise halved", less_noise(2)),
    ("dp-um", "no noise", less_noise(1e6)),
    ("dp-um", "one column unmasked", one_column),
    ("dp-um", "not shuffled", unshuffled),
    ("idp-ls", "noise halved", less_noise(2)),
    ("idp-ls", "a tenth of the noise", less_noise(10)),
    ("idp-ls", "one column unmasked", one_column),
    ("idp-cbls", "noise halved", less_noise(2)),
    ("strict", "noise halved", less_noise(2)),
    ("strict", "a tenth of the noise", less_noise(10)),
    ("strict", "no noise", less_noise(1e6)),
    ("diffgen", "noise halved", less_noise(2)),
    ("diffgen", "no noise", less_noise(1e6)),
    ("dp-graph", "noise halved", sure_model),
    ("dp-graph", "one histogram unmasked", one_histogram),
]

WITHOUT_ROWS = ("strict", "diffgen", "dp-graph")
"""Releases that have no row map."""


@pytest.mark.parametrize(
    ("method", "how", "make", "mapped"),
    [
        (method, how, make, mapped)
        for method, how, make in BROKEN
        for mapped in (True, False)
        if (method, how, mapped) != ("dp", "not shuffled", False)
        and not (mapped and method in WITHOUT_ROWS)
    ],
    ids=lambda v: v if isinstance(v, str) else ("row map" if v is True else ""),
)
def test_a_broken_release_is_refuted(method: str, how: str, make: Any, mapped: bool) -> None:
    """By its values alone: manifest and plan say what they would of a sound release.

    Values of ``dp`` drown the order of its rows: without a row map nobody can tell it. Tables are
    large enough that every other test finds such a release in more than 99.9 % of cases.
    """
    expected = {"order of the rows"} if how == "not shuffled" else {NOISE}
    original, made = make(method)
    checks = checked(original, made, mapped=mapped)
    assert {check.name for check in checks if check.passed is False} == expected, checks


def redrawn(
    method: str, change: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[pa.Table, Release]:
    """A release whose noise was changed, given what each value should be without it."""
    original = table(7)
    made = sherd.protect(original, SCHEMA, plan(method))
    data = made.tables["data"]
    for place, name in enumerate(NAMES):
        true = np.asarray(original.column(name), float)[np.asarray(made.order)]
        shown = np.asarray(data.column(name), float)
        _, group = np.unique(shown, return_inverse=True)
        centre = true if method == "dp" else (np.bincount(group, true) / np.bincount(group))[group]
        low, high = map(float, SCHEMA.as_data()["attributes"][name]["domain"])
        value = np.clip(centre + change(shown - centre, centre), low, high)
        value = np.rint(value / STEPS[name]) * STEPS[name]
        kind = data.schema.field(name).type
        data = data.set_column(place, name, pa.array(value).cast(kind, safe=False))
    return original, replace(made, tables={"data": data})


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("dp", lambda noise, _: np.where(np.arange(len(noise)) % 2, 2 * noise, 0)),
        ("dp", lambda noise, centre: np.abs(noise) * np.sign(centre - np.median(centre))),
        ("dp-um", lambda noise, centre: np.abs(noise) * np.sign(centre - np.median(centre))),
        ("idp-ls", lambda noise, centre: np.abs(noise) * np.sign(centre - np.median(centre))),
        ("dp-um", lambda noise, _: np.abs(noise)),
    ],
    ids=["half lacks it", "dp by value", "dp-um by value", "idp-ls by value", "upwards"],
)
def test_noise_of_the_right_size_must_lie_as_it_is_drawn(method: str, change: Any) -> None:
    """Where a row map says whose it is: none for half of the people is none for them."""
    original, made = redrawn(method, change)
    (refuted,) = [check for check in checked(original, made) if check.passed is False]
    assert refuted.name == NOISE
    assert "noise" in refuted.detail


def test_few_counts_say_what_they_can_tell() -> None:
    """Sizes of Laplace noise add up to a gamma variate: no test of its scale is more powerful."""
    from scipy.stats import gamma

    original = table(7)
    made = sherd.protect(original, SCHEMA, sherd.Plan(method="diffgen", epsilon=0.2, h=6))
    (check,) = checked(original, made, mapped=False)
    many = made.tables["data"].num_rows
    best = gamma.cdf(2 * gamma.ppf(0.9 / 1000, many), many)
    told = re.search(r"found in (\d+) % of releases, the most that (\d+) counts", check.detail)
    assert told is not None, check
    assert int(told[2]) == many
    assert abs(int(told[1]) / 100 - best) < 0.03, (check, best)


def test_clusters_are_recognised_by_their_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Halved noise of ``idp-ls``: sorted values show it in some releases, members in all."""

    def told(more: float) -> Check:
        more_noise = {"k": 10, "guarantee": "paper"}
        claimed = sherd.Plan(method="idp-ls", epsilon=8.0, **more_noise)
        made = sherd.protect(
            original, SCHEMA, sherd.Plan(method="idp-ls", epsilon=8.0 * more, **more_noise)
        )
        made = replace(made, manifest={**made.manifest, "plan": claimed.as_data()})
        (noise,) = [c for c in checked(original, made, mapped=False) if c.name == NOISE]
        return noise

    rng = np.random.default_rng(8)
    shared = rng.normal(size=1_600)
    columns = {}
    for attribute in SCHEMA:
        low, high = (float(str(end)) for end in attribute.domain or ())
        spread = 0.15 * (high - low) * (shared + rng.normal(size=1_600))
        steps = np.rint(np.clip((low + high) / 2 + spread, low, high) / STEPS[attribute.name])
        columns[attribute.name] = steps * STEPS[attribute.name]
    original = pa.table(columns)
    assert told(2).passed is False
    assert "halved would be found in 100 %" in told(1).detail
    monkeypatch.setattr("sherd.auditing.noise.masked_noise._profiles", lambda *_: None)
    power = re.search(r"found in ([\d.]+) %", told(1).detail)
    assert power is not None
    assert float(power[1]) < 98


def test_an_order_that_noise_hides_is_not_called_shuffled() -> None:
    """Rows of ``dp`` left in place, without a row map: said to be not testable."""
    original, made = unshuffled("dp")
    (order,) = [c for c in checked(original, made, mapped=False) if c.name == "order of the rows"]
    assert order.passed is None
    assert "not testable without a row map" in order.detail
    original, made = less_noise(1)("dp-um")
    (order,) = [c for c in checked(original, made, mapped=False) if c.name == "order of the rows"]
    assert order.passed
    assert "would show in 100 % of releases" in order.detail


VALID = (
    "dp", "idp", "dp-um", "idp-ls", "idp-cbls", "strict", "diffgen", "dp-graph", "slice",
    "mondrian", "anatomy", "fragment",
)  # fmt: skip
"""Every method that one owner can run; those without noise have nothing that could be refuted."""


def alarms(seeds: range) -> int:
    """False alarms over valid releases of every method, half of them with a row map."""
    found = 0
    for seed in seeds:
        original = table(100 + seed % 5, rows=400)
        made = sherd.protect(original, SCHEMA, plan(VALID[seed % len(VALID)]), ledger=None)
        checks = checked(original, made, mapped=bool(seed // len(VALID) % 2))
        found += any(check.passed is False for check in checks)
    return found


def test_valid_releases_are_not_refuted() -> None:
    """One of each method: at most one false alarm."""
    assert alarms(range(len(VALID))) <= 1


@pytest.mark.slow
def test_many_valid_releases_are_not_refuted() -> None:
    """200 of them over all methods and five tables: at most three false alarms."""
    assert alarms(range(200)) <= 3


def test_the_verdict_rests_on_the_released_values() -> None:
    """A release without noise fails; a sound one holds; a plan alone never says so."""
    quick = Limits(attacked=50, runs=200, modelled=200, queries=10, triples=2, rounds=0)
    original, broken = less_noise(1e6)("dp-um")
    audited = sherd.audit(original, broken, alternatives=False, limits=quick)
    assert audited.verdict.promise == "fails"
    assert any("too little noise" in point.text for point in audited.verdict.points)
    original, bare = unchanged("dp")
    audited = sherd.audit(original, replace(bare, order_of=None), alternatives=False, limits=quick)
    assert audited.verdict.risk == "unknown", "copies by the plan say nothing of the original"
    assert "not what plan and manifest say" in audited.verdict.headline
    sound = sherd.protect(original, SCHEMA, plan("dp-um"))
    audited = sherd.audit(original, sound, alternatives=False, limits=quick)
    assert audited.verdict.promise == "holds"
    assert any("would be found" in check.detail for check in audited.artefact)
    from sherd.auditing.verdict.verdict import decide

    alone = decide(audited.by_code, audited.checks, audited.guarantee)
    assert alone.promise == "untested"
    assert any("rests on the manifest alone" in point.text for point in alone.points)
