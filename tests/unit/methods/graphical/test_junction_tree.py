"""Junction trees give the marginals that multiplying everything out gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sherd.methods.graphical.junction_tree import JunctionTree, eliminate, expand, project
from sherd.verifying.drawn_records import marginal

SIZES = (2, 3, 2, 4, 2)


@st.composite
def factors(draw: Any) -> list[tuple[int, ...]]:
    """Cliques of up to three of five attributes; some attributes may be in none."""
    attributes = st.sets(st.integers(0, len(SIZES) - 1), min_size=1, max_size=3)
    return [tuple(sorted(one)) for one in draw(st.lists(attributes, min_size=1, max_size=6))]


@settings(max_examples=60, deadline=None)
@given(factors(), st.integers(0, 2**32 - 1))
def test_marginals_are_those_of_the_whole_product(chosen: list[tuple[int, ...]], seed: int) -> None:
    """Every clique's marginal and log Z, held to a table of all 96 combinations."""
    rng = np.random.default_rng(seed)
    tables = [rng.normal(0, 2, [SIZES[a] for a in one]) for one in chosen]
    whole = np.zeros(SIZES)
    tree = JunctionTree.of(chosen, SIZES)
    potentials = [np.zeros([SIZES[a] for a in clique]) for clique in tree.cliques]
    for one, table in zip(chosen, tables, strict=True):
        whole = whole + expand(table, one, tuple(range(len(SIZES))))
        home = tree.home(one)
        potentials[home] += expand(table, one, tree.cliques[home])
    found, total = tree.calibrate(potentials)
    assert math.isclose(total, float(np.log(np.exp(whole).sum())), rel_tol=1e-9)
    joint = np.exp(whole - total)
    for clique, table in zip(tree.cliques, found, strict=True):
        np.testing.assert_allclose(table, project(joint, tuple(range(5)), clique), atol=1e-12)
    assert {a for clique in tree.cliques for a in clique} == set(range(len(SIZES)))


@settings(max_examples=60, deadline=None)
@given(factors())
def test_cliques_of_an_attribute_hang_together(chosen: list[tuple[int, ...]]) -> None:
    """The running intersection property: what two cliques share, all between them hold."""
    tree = JunctionTree.of(chosen, SIZES)
    for i, separator in enumerate(tree.separators[1:], start=1):
        before = {a for clique in tree.cliques[:i] for a in clique}
        assert set(separator) == set(tree.cliques[i]) & before
    for one in chosen:
        assert set(one) <= set(tree.cliques[tree.home(one)])


@settings(max_examples=30, deadline=None)
@given(factors(), st.integers(0, 2**32 - 1))
def test_the_verifiers_own_algorithm_agrees(chosen: list[tuple[int, ...]], seed: int) -> None:
    """Elimination in the verifier and messages in the method: two ways, one answer."""
    rng = np.random.default_rng(seed)
    tables = [(one, rng.random([SIZES[a] for a in one])) for one in chosen]
    whole = np.ones(SIZES)
    for one, table in tables:
        whole = whole * expand(table, one, tuple(range(len(SIZES))))
    wanted = chosen[0]
    direct = project(whole, tuple(range(5)), wanted) / whole.sum()
    logarithms = [(one, np.log(table)) for one, table in tables]
    np.testing.assert_allclose(marginal(logarithms, SIZES, wanted), direct, atol=1e-12)


def test_elimination_takes_the_cheapest_first() -> None:
    """A cycle of four needs one chord; the chord taken is the cheaper one."""
    sizes = (10, 2, 10, 2)
    cliques = eliminate([(0, 1), (1, 2), (2, 3), (0, 3)], sizes)
    assert sorted(cliques) == [(0, 1, 3), (1, 2, 3)]


@settings(max_examples=100, deadline=None)
@given(factors())
def test_elimination_always_takes_the_cheapest_that_is_left(chosen: list[tuple[int, ...]]) -> None:
    """Beside weights that are all worked out again for every step."""
    near: dict[int, set[int]] = {a: set() for a in range(len(SIZES))}
    for one in chosen:
        for a in one:
            near[a] |= set(one) - {a}
    cliques: list[set[int]] = []
    while near:
        a = min(near, key=lambda v: (math.prod(SIZES[b] for b in near[v] | {v}), v))
        clique = near.pop(a) | {a}
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
        for b in clique - {a}:
            near[b] = (near[b] | clique) - {a, b}
    assert eliminate(chosen, SIZES) == [tuple(sorted(clique)) for clique in cliques]
