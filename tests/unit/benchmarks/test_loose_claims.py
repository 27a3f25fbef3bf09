"""How claims about loose associations are judged, on rows made up for each verdict."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = Path(__file__).parents[3] / "benchmarks" / "004-fragments"
PAIRS = ("(12,1)", "(6,2)", "(4,3)", "(3,4)", "(2,6)", "(1,12)")


@pytest.fixture(name="claims")
def _claims(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("loose_claims")


def _row(grouping: str, query: str, ordered: int, utility: float, **more: Any) -> dict[str, Any]:
    row = {"algorithm": "one", "grouping": grouping, "query": query, "ordered": ordered,
           "utility": utility, "utility, standard error": 0.01, "runs": 5, "suppressed": 0.0,
           "fragments": "two"}  # fmt: skip
    return row | more


def _query(ordered: int, *utilities: float, query: str = "q", **more: Any) -> list[dict[str, Any]]:
    return [_row(g, query, ordered, u, **more) for g, u in zip(PAIRS, utilities, strict=False)]


def test_printed_cells(claims: ModuleType) -> None:
    """Each cell within the rounding; one that is off is counted and named."""
    rows = [{"query": "q", "value": "a", "with": 2500.0, "real": 2666.67, "without": 3000.0}]
    told = {"q": {"a": [2500, 2666, 3000]}}
    assert claims.printed(rows, rounding=0.7, **told)[1] is True
    words, held = claims.printed(rows, rounding=0.5, **told)
    assert held is False
    assert "2 of 3 cells" in words
    assert "2666.67 for 2666" in words


@pytest.mark.parametrize(
    ("least", "error", "held"), [(0.9, 0.01, True), (0.81, 0.01, None), (0.7, 0.01, False)]
)
def test_always_high(claims: ModuleType, least: float, error: float, held: bool | None) -> None:
    """By the least configuration, if it is not within two standard errors of the limit."""
    rows = [
        {"algorithm": "one", "part": "gamma", "gamma": g, "k": 4, "utility": u,
         "utility, standard error": error}
        for g, u in ((4, least), (12, 0.99))
    ]  # fmt: skip
    assert claims.always_high(rows, algorithm="one", utility=0.8)[1] is held


def test_nearly_all_looks_at_numbers_of_tuples_only(claims: ModuleType) -> None:
    """Configurations of the other part of the figure do not lift the count."""
    rows = [
        {"algorithm": "one", "part": part, "gamma": 8, "utility": u}
        for part, u in (("tuples", 0.99), ("tuples", 0.5), ("gamma", 0.99), ("gamma", 0.99))
    ]
    words, held = claims.nearly_all(rows, algorithm="one", utility=0.95)
    assert held is False
    assert "1 of 2" in words


def test_the_best_query_is_that_of_the_mean(claims: ModuleType) -> None:
    """One grouping in which another is better is said, and does not decide."""
    first = _query(2, 0.97, 0.97, 0.97, query="q0")
    other = _query(1, 0.99, 0.7, 0.7, query="q1")
    words, held = claims.one_is_best(first + other, algorithm="one", utility=0.9)
    assert held
    assert "best in 2 of 3" in words
    better = _query(1, 0.99, 0.99, 0.99, query="q1")
    assert not claims.one_is_best(first + better, algorithm="one", utility=0.9)[1]


@pytest.mark.parametrize(
    ("utilities", "error", "held"),
    [((0.05, 0.04, 0.06), 0.01, True), ((0.01, 0.0, 0.01), 0.1, None), ((-0.2,) * 3, 0.01, False)],
)
def test_not_null(
    claims: ModuleType, utilities: tuple[float, ...], error: float, held: bool | None
) -> None:
    """The mean over the groupings, beyond two standard errors."""
    rows = [row | {"utility, standard error": error} for row in _query(0, *utilities)]
    assert claims.not_null(rows, algorithm="one", utility=0.0)[1] is held


def test_similar_to_both(claims: ModuleType) -> None:
    """Every query with one ordered attribute within some points of that with two."""
    first = _query(2, 0.97, 0.97, query="q0")
    near = _query(1, 0.9, 0.9, query="q1")
    far = _query(1, 0.7, 0.7, query="q2")
    assert claims.like_both(first + near, algorithm="one", points=0.1)[1]
    assert not claims.like_both(first + near + far, algorithm="one", points=0.1)[1]


def test_stable(claims: ModuleType) -> None:
    """The largest and the least utility of every query; three fragments are not looked at."""
    calm = _query(1, 0.8, 0.9, query="q1")
    wild = _query(1, 0.5, 0.9, query="q2")
    three = _query(1, 0.1, 0.9, query="q3", fragments="three")
    words, held = claims.stable(calm, calm + three, algorithm="one", spread=0.2)
    assert held
    assert "2 of 2" in words
    assert not claims.stable(calm, wild, algorithm="one", spread=0.2)[1]


@pytest.mark.parametrize(
    ("utilities", "held"),
    [
        ((0.5, 0.6, 0.7, 0.7, 0.6, 0.5), True),
        ((0.72, 0.72, 0.7, 0.7, 0.72, 0.72), None),
        ((0.9, 0.9, 0.7, 0.7, 0.9, 0.9), False),
    ],
)
def test_the_middle_is_not_the_lowest(
    claims: ModuleType, utilities: tuple[float, ...], held: bool | None
) -> None:
    """Lower than all others beyond what runs differ by; one run, or two groupings, tell nothing."""
    rows = _query(1, *utilities)
    assert claims.middle_not_least(rows, [], algorithm="one")[1] is held
    once = _query(1, *utilities, runs=1)
    assert claims.middle_not_least(once, rows[:2], algorithm="one")[1] is None


@pytest.mark.parametrize(
    ("utilities", "held"), [((0.1, 0.4), True), ((0.01, 0.4), None), ((0.1, 0.2), False)]
)
def test_always_positive_and_sometimes_high(
    claims: ModuleType, utilities: tuple[float, ...], held: bool | None
) -> None:
    """Both halves of the sentence."""
    rows = _query(0, *utilities)
    assert claims.always_positive(rows, rows, algorithm="one", some=0.35)[1] is held
    worse = _query(0, -0.2, 0.5)
    assert claims.always_positive(rows, worse, algorithm="one", some=0.35)[1] is False


def test_typical(claims: ModuleType) -> None:
    """The median over queries and groupings of both tables."""
    rows = _query(1, 0.75, 0.8, 0.85)
    judge = claims.typical(1)
    assert judge(rows, rows, algorithm="one", utility=0.8, points=0.1)[1]
    assert not judge(rows, rows, algorithm="one", utility=1.0, points=0.1)[1]


def test_a_grouping_that_releases_nothing_is_not_compared(claims: ModuleType) -> None:
    """Growth among the others cannot be told to be growth from it; a fall among them can."""
    nothing = [_row("(1,12,12)", "q", 1, 0.0, fragments="three", suppressed=1.0)]
    middle = [_row("(2,6,6)", "q", 1, 0.4, fragments="three")]
    even = [_row("(3,4,4)", "q", 1, 0.5, fragments="three")]
    words, held = claims.even_groups_win(nothing + middle + even, algorithm="one")
    assert held is None
    assert "(1,12,12): nothing released" in words
    assert claims.even_groups_win(middle + even, algorithm="one")[1] is True
    assert claims.even_groups_win(nothing + even + middle, algorithm="one")[1] is False


@pytest.mark.parametrize(
    ("last", "error", "held"), [(0.9, 0.01, True), (0.5, 0.1, None), (0.1, 0.01, False)]
)
def test_changes_along_an_axis(
    claims: ModuleType, last: float, error: float, held: bool | None
) -> None:
    """The wanted sign beyond two standard errors; the ends named are those of the rows."""
    rows = [
        {"algorithm": "one", "part": "gamma", "gamma": g, "k": k, "seconds": s,
         "seconds, standard error": error}
        for k in (4, 8)
        for g, s in ((4, 0.5), (6, last))
    ]  # fmt: skip
    words, found = claims.changes("seconds", "gamma", "k", 1, ".3f s")(rows, algorithm="one")
    assert found is held
    assert words.startswith("from γ = 4 to 6 by ")
    assert words.endswith(" s)")
