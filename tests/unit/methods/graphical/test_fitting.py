"""The fit solves its problem, keeps zeros, and finds what little noise leaves in sight."""

from __future__ import annotations

import time

import numpy as np
import pytest

from sherd.methods.graphical.fitting import Target, Zero, fit
from sherd.methods.graphical.junction_tree import JunctionTree, project

SIZES = (3, 4, 2)
ALL = (0, 1, 2)


def truth(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """A distribution in which 0 and 2 are independent given 1."""
    rng = np.random.default_rng(seed)
    left, right = rng.random((3, 4)), rng.random((4, 2))
    joint = left[:, :, None] * right[None]
    return joint / joint.sum()


def targets(joint: np.ndarray[tuple[int, ...], np.dtype[np.float64]], noise: float) -> list[Target]:
    """Both pairs, with noise of a deviation."""
    rng = np.random.default_rng(1)
    found = []
    for pair in ((0, 1), (1, 2)):
        shares = project(joint, ALL, pair)
        found.append(
            Target(
                attributes=pair,
                shares=shares + rng.normal(0, noise, shares.shape),
                variance=np.full(shares.shape, noise**2),
            )
        )
    return found


def fitted(
    given: list[Target], **more: object
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The model's joint distribution, multiplied out."""
    tree = JunctionTree.of([ALL], SIZES)
    start = [np.full(size, 1 / size) for size in SIZES]
    model = fit(tree, given, start=start, strength=30.0, **more)  # type: ignore[arg-type]
    return model.marginals[0]


def test_a_model_is_found_again_from_its_marginals() -> None:
    """With hardly any noise, the joint distribution of three attributes from two pairs."""
    joint = truth(3)
    np.testing.assert_allclose(fitted(targets(joint, 1e-6)), joint, atol=2e-3)


def test_the_fit_is_an_optimum() -> None:
    """No small step towards another distribution makes the objective smaller."""
    joint = truth(4)
    given = targets(joint, 0.02)
    found = fitted(given)

    def objective(p: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        misfit = sum(
            float((np.square(project(p, ALL, t.attributes) - t.shares) / t.variance).sum()) / 2
            for t in given
        )
        divergence = float((p * np.log(np.maximum(p, 1e-300) * p.size)).sum())
        return misfit + 30.0 * divergence

    best = objective(found)
    rng = np.random.default_rng(5)
    for _ in range(200):
        other = rng.dirichlet(np.full(found.size, 0.3)).reshape(found.shape)
        assert objective(0.99 * found + 0.01 * other) >= best - 1e-6
    assert found.sum() == pytest.approx(1)


def test_noise_draws_the_model_towards_independence() -> None:
    """The more noise there is, the nearer the model is to the product of its attributes."""
    joint = truth(6)
    apart = []
    for noise in (1e-3, 0.05, 1.0):
        found = fitted(
            [
                Target(
                    attributes=t.attributes,
                    shares=project(joint, ALL, t.attributes),
                    variance=np.full(t.shares.shape, noise**2),
                )
                for t in targets(joint, noise)
            ]
        )
        pair = project(found, ALL, (0, 1))
        product = np.outer(pair.sum(1), pair.sum(0))
        apart.append(float(np.abs(pair - product).sum()))
    assert apart[0] > apart[1] > apart[2]


def test_excluded_combinations_get_nothing() -> None:
    """Zeros stay zeros, whatever was measured there."""
    excluded = np.zeros((3, 4), np.bool_)
    excluded[1, 2] = excluded[2, 0] = True
    zeros = [Zero(attributes=(0, 1), excluded=excluded)]
    found = fitted(targets(truth(7), 0.01), zeros=zeros)
    assert project(found, ALL, (0, 1))[excluded].max() == 0
    assert found.sum() == pytest.approx(1)


def test_the_fit_keeps_to_one_thread() -> None:
    """Threads that wait for each other once took five times the processor that the fit needs."""
    rng = np.random.default_rng(2)
    sizes = (40, 40, 25)
    shares = rng.random(sizes) + 0.1
    shares /= shares.sum()
    given = [Target(attributes=ALL, shares=shares, variance=np.full(sizes, 1e-9))]
    start = [np.full(size, 1 / size) for size in sizes]
    whole, own = time.process_time(), time.thread_time()
    tree = JunctionTree.of([ALL], sizes)
    model = fit(tree, given, start=start, strength=1e5, steps=60, tolerance=0.0)
    own = time.thread_time() - own
    assert model.steps > 5
    assert time.process_time() - whole < 1.5 * own + 0.05
