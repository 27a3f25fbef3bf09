"""Records of ``dp-graph`` at very large ε: sound ones pass, copies do not, or nobody can tell.

So little noise is added there that a model's counts are the original's. Each check refutes a sound
release once in a thousand: seeds are fixed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.auditing import run
from sherd.auditing.case.case import Limits
from sherd.auditing.verdict.verdict_points import DRAWING, NOISE, promise_points
from sherd.randomness import Randomness
from sherd.verifying import noise_residuals
from sherd.verifying.noise_residuals import (
    chance_of_less,
    chance_of_sum,
    grain_of,
    sizes_of_noise,
)

if TYPE_CHECKING:
    from sherd.release.bundle import Release
    from sherd.verifying.check import Check

pytestmark = pytest.mark.statistical


def table(highs: tuple[int, ...], together: float) -> tuple[pa.Table, sherd.Schema]:
    """400 records whose attributes go together that much."""
    rng = np.random.default_rng(3)
    shared, columns, attributes = rng.normal(size=400), {}, {}
    for name, high in zip("abc", highs, strict=True):
        own = together * shared + np.sqrt(1 - together**2) * rng.normal(size=400)
        columns[name] = np.clip(np.rint(high / 2 + high / 5 * own), 0, high).astype(np.int64)
        attributes[name] = {"type": "integer", "domain": ["0", str(high)]}
    return pa.table(columns), sherd.Schema.from_data(
        {"missing": "refuse", "attributes": attributes}
    )


def released(original: pa.Table, schema: sherd.Schema, epsilon: float) -> Release:
    """A sound release without δ, the same every time."""
    plan = sherd.Plan(method="dp-graph", epsilon=epsilon)
    settings = sherd.Settings(randomness=lambda _: Randomness.seeded(6))
    return sherd.protect(original, schema, plan, settings=settings, ledger=None)


def copied(original: pa.Table, made: Release, share: float = 1.0) -> Release:
    """The release with records of the original in place of some of its own."""
    data = made.tables["data"]
    rows = np.random.default_rng(4).permutation(original.num_rows)[: int(share * data.num_rows)]
    copies = original.take(pa.array(rows)).cast(data.schema)
    return replace(made, tables={"data": pa.concat_tables([copies, data[len(rows) :]])})


def by_name(original: pa.Table, made: Release) -> dict[str, Check]:
    """What the audit says of the released values."""
    given = run._Given(original=original, release=made, limits=Limits())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_with_control", lambda case, _table, _manifest: (case, ""))
        return {check.name: check for check in run._open(given, made.manifest).artefact}


@pytest.mark.parametrize("highs", [(100, 40, 1000), (10, 10, 10), (3, 3, 3)], ids=str)
@pytest.mark.parametrize("epsilon", [100.0, 1000.0])
def test_sound_releases_pass_and_copies_do_not(highs: tuple[int, ...], epsilon: float) -> None:
    """Copies in full passed verification and audit where their pairs have the model's counts."""
    original, schema = table(highs, 0.7)
    made = released(original, schema, epsilon)
    checks = by_name(original, made)
    assert checks[NOISE].passed is not False, checks
    assert checks[DRAWING].passed, checks
    assert sherd.verify(made).passed, sherd.verify(made).checks
    assert by_name(original, copied(original, made))[DRAWING].passed is False


def test_half_a_copy_is_found() -> None:
    """Where every second record is the original's."""
    original, schema = table((100, 40, 1000), 0.7)
    made = copied(original, released(original, schema, 100.0), 0.5)
    assert by_name(original, made)[DRAWING].passed is False


def test_what_cannot_be_told_gets_no_green_light() -> None:
    """Eight combinations whose counts the model has: what is drawn from it is the original."""
    original, schema = table((1, 1, 1), 0.7)
    made = released(original, schema, 100.0)
    checks = by_name(original, made)
    assert checks[NOISE].passed is None
    assert checks[DRAWING].passed is None
    assert "is the original" in checks[DRAWING].detail
    promise, _ = promise_points({}, [], made.manifest["guarantee"], list(checks.values()))
    assert promise == "untested"
    sure = [replace(checks[NOISE], passed=True), checks[DRAWING]]
    assert promise_points({}, [], made.manifest["guarantee"], sure)[0] == "untested"


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.25, 0.5, 3.0])
def test_chances_are_never_below_what_they_bound(kind: str, scale: float) -> None:
    """Beside 200,000 simulated sums; the exact chance of a small sum is the simulated one."""
    rng = np.random.default_rng(5)
    sizes = sizes_of_noise(kind, scale)
    drawn = rng.choice(len(sizes), p=sizes, size=(200_000, 12))
    signed = (drawn * rng.choice([-1, 1], size=drawn.shape)).sum(axis=1)
    for total in (1, 4, 8, 15):
        share = float(np.mean(np.abs(signed) >= total))
        assert chance_of_sum(kind, {scale: 12}, total / scale) >= 0.9 * share - 1e-4
        less = float(np.mean(drawn.sum(axis=1) <= total))
        assert abs(chance_of_less(sizes, 12, total) - less) < 0.006


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_large_noise_is_judged_as_its_own_coarser_copy(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scale of 4,000 in grains of 4 beside all whole numbers; any scale takes a moment."""
    scale, totals = 4000.0, (2_000, 30_000, 90_000)
    shown = []
    for finest in (noise_residuals.FINEST, 10**6):
        monkeypatch.setattr(noise_residuals, "FINEST", finest)
        grain = grain_of(scale)
        sizes = sizes_of_noise(kind, scale / grain)
        shown.append(
            [chance_of_sum(kind, {scale: 12}, total / scale) for total in totals]
            + [chance_of_less(sizes, 12, total // grain) for total in totals]
        )
    assert shown[0] == pytest.approx(shown[1], rel=0.01)
    monkeypatch.undo()
    assert 0 < chance_of_sum(kind, {1e300: 5}, 3.0) <= 1
    assert len(sizes_of_noise(kind, 1e300 / grain_of(1e300))) < 50 * noise_residuals.FINEST
