"""dp-graph from sums of owners' rows: questions, their price, and the model they lead to."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp

from sherd.errors import PlanError, VerificationError
from sherd.methods.graphical.dp_graph import METHOD, code, design_of
from sherd.methods.graphical.measuring import NoisyCounts
from sherd.methods.graphical.row_sums import learn_from_sums
from sherd.randomness import Randomness
from sherd.release.plan import Plan
from sherd.release.summed_rows import RowOwners, SumsRows
from sherd.tables.schema import Schema

SCHEMA = Schema.from_data(
    {
        "attributes": {
            "age": {"type": "integer", "domain": [0, 9]},
            "colour": {"type": "category", "values": ["red", "green", "blue"]},
            "tall": {"type": "boolean"},
        }
    }
)
PLAN = Plan(method="dp-graph", epsilon=2.0, delta=1e-6, choice="all")


def table(rows: int, seed: int) -> Any:
    """Records whose attributes go together."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    age = rng.integers(0, 10, rows)
    colour = np.array(["red", "green", "blue"])[(age + rng.integers(0, 2, rows)) % 3]
    return pa.table({"age": age, "colour": pa.array(colour), "tall": pa.array(age > 4)})


def ask_everybody(among: RowOwners, parts: list[Any], seed: int = 0, most: int = 9) -> list[Any]:
    """All questions, or the first ones, with the sums of the owners' answers."""
    answered: list[Any] = []
    while (question := METHOD.next_question(PLAN, SCHEMA, among, answered)) is not None:
        if len(answered) == most:
            break
        sources = [Randomness.seeded(seed + 10 * len(answered) + i) for i in range(len(parts))]
        answers = [
            METHOD.own_numbers(part, SCHEMA, PLAN, among, question, source)
            for part, source in zip(parts, sources, strict=True)
        ]
        sums = np.sum(answers, axis=0)
        assert len(sums) == METHOD.length(PLAN, SCHEMA, question)
        answered.append((question, sums))
    return answered


def test_owners_learn_what_one_owner_learns() -> None:
    """The sums are the whole table's histograms with the stated noise, and a model follows."""
    parts = [table(500, 1), table(300, 2), table(700, 3)]
    among = RowOwners(owners=3, colluders=2, rows=1500)
    answered = ask_everybody(among, parts)
    assert len(answered) == 2
    design = design_of(PLAN, SCHEMA)
    learned = learn_from_sums(
        design, among, [(question_of(design, q), sums) for q, sums in answered]
    )
    import pyarrow as pa

    whole = code(pa.concat_tables(parts), SCHEMA, design)
    for one in (*learned.fine, *learned.measured):
        apart = one.counts - whole.histogram(one.request.marginal)
        assert np.abs(apart).max() < 6 * float(one.request.noise.scale)
        assert apart.any()
    assert learned.spent * 3 <= design.total  # what all but one owner face is all of it


def question_of(design: Any, question: Any) -> Any:
    """A question as the method reads it."""
    from sherd.methods.graphical.row_questions import HistogramQuestion

    return HistogramQuestion.read(design, question)


@pytest.mark.parametrize(("extra", "same"), [(0, True), (8, False)])
def test_noise_is_distributed_as_one_owners(extra: int, same: bool) -> None:
    """With noise that withstands nobody, sums are distributed as one owner's noisy counts.

    750 residuals of each; false alarm 1 in 10,000. A count that is off by a deviation is found.
    """
    part, among = table(400, 1), RowOwners(owners=4, colluders=0, rows=1600)
    import pyarrow as pa

    design = design_of(PLAN, SCHEMA)
    pooled = code(pa.concat_tables([part] * 4), SCHEMA, design)
    joint, single = [], []
    for seed in range(50):
        ((question, sums),) = ask_everybody(among, [part] * 4, seed * 1000, most=1)
        requests = question_of(design, question).requests
        exact = np.concatenate([pooled.histogram(one.marginal).ravel() for one in requests])
        joint.append(sums - exact + extra)
        measurer = NoisyCounts(pooled, Randomness.seeded(7_000_000 + seed))
        fine = measurer.measure(requests)
        single.append(np.concatenate([one.counts.ravel() for one in fine]) - exact)
    p = ks_2samp(np.concatenate(joint), np.concatenate(single)).pvalue
    assert (p > 1e-4) == same


def test_price_of_questions_never_exceeds_the_plan() -> None:
    """Whatever is asked: the plan's ρ is all there is, and the price of an honest round fits."""
    among = RowOwners(owners=2, colluders=1, rows=800)
    answered = ask_everybody(among, [table(400, 1), table(400, 2)])
    questions = [question for question, _ in answered]
    total = design_of(PLAN, SCHEMA).total
    assert 0 < METHOD.price(PLAN, SCHEMA, questions) <= total
    with pytest.raises(PlanError, match="more would be spent"):
        METHOD.price(PLAN, SCHEMA, [*questions, questions[1]])
    cheap = {**questions[0], "marginals": [{"attributes": [0], "scale": "1/16"}]}
    with pytest.raises(PlanError, match="more would be spent"):
        METHOD.price(PLAN, SCHEMA, [cheap])


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"binnings": [[0] * 10, [0, 1, 2]]},
        {"binnings": [[0] * 9, [0, 1, 2], [0, 1]]},
        {"binnings": [[0, 2] * 5, [0, 1, 2], [0, 1]]},
        {"binnings": [[-1] * 10, [0, 1, 2], [0, 1]]},
        {"binnings": [[0.0] * 10, [0, 1, 2], [0, 1]]},
        {"binnings": 3},
        {"marginals": []},
        {"marginals": [{"attributes": [3], "scale": "9"}]},
        {"marginals": [{"attributes": [1, 0], "scale": "9"}]},
        {"marginals": [{"attributes": [0, 0], "scale": "9"}]},
        {"marginals": [{"attributes": [True], "scale": "9"}]},
        {"marginals": [{"attributes": [], "scale": "9"}]},
        {"marginals": [{"attributes": [0], "scale": "0"}]},
        {"marginals": [{"attributes": [0], "scale": "-9"}]},
        {"marginals": [{"attributes": [0], "scale": "1/17"}]},
        {"marginals": [{"attributes": [0], "scale": "1e9"}]},
        {"marginals": [{"attributes": [0], "scale": 9}]},
        {"marginals": [{"attributes": [0], "scale": "9" * 50}]},
        {"marginals": [{"attributes": [0]}]},
        {"marginals": [{"attributes": [0, 1, 2], "scale": "99"}] * 100_000},
        {"marginals": 7},
    ],
)
def test_questions_are_read_strictly(change: dict[str, Any]) -> None:
    """Whoever asks may be anybody: what is no question is refused before anything is counted."""
    among = RowOwners(owners=2, colluders=1, rows=800)
    first = METHOD.next_question(PLAN, SCHEMA, among, [])
    assert first is not None
    with pytest.raises(PlanError):
        METHOD.price(PLAN, SCHEMA, [{**first, **change}])


def test_sums_that_are_no_histogram_are_refused() -> None:
    """An owner that sends rubbish spoils the round, which then ends without a release."""
    among = RowOwners(owners=2, colluders=1, rows=800)
    answered = ask_everybody(among, [table(400, 1), table(400, 2)])
    question, sums = answered[0]
    with pytest.raises(VerificationError, match="not a histogram"):
        METHOD.next_question(PLAN, SCHEMA, among, [(question, sums + 2**40)])
    with pytest.raises(VerificationError, match="other questions"):
        METHOD.next_question(PLAN, SCHEMA, among, [answered[1]])


def test_plans_that_sums_cannot_carry_out() -> None:
    """Pure ε and trees are refused when the plan is made, not when it is carried out."""
    assert isinstance(METHOD, SumsRows)
    METHOD.check_rows(PLAN, SCHEMA)
    for parameters, words in (
        ({"choice": "all"}, "pure epsilon"),
        ({"choice": "tree", "delta": 1e-6}, "do not choose a tree"),
    ):
        plan = Plan(method="dp-graph", epsilon=1.0, **parameters)
        with pytest.raises(PlanError, match=words):
            METHOD.check_rows(plan, SCHEMA)
    with pytest.raises(PlanError, match="out of range"):
        RowOwners(owners=2, colluders=2, rows=800)
    assert RowOwners(owners=5, colluders=2, rows=1).honest == 3
    assert METHOD.price(PLAN, SCHEMA, []) == Fraction(0)
