"""Guarantees as values: notions, assumptions, words and data."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from sherd.errors import PlanError
from sherd.guarantees import (
    Adversary,
    Assumption,
    DifferentialPrivacy,
    Guarantee,
    IndividualDP,
    KAnonymity,
    KLooseness,
    LDiversity,
    NoGuarantee,
    Notion,
    Proposition,
    Unit,
)
from sherd.guarantees.notions import number

ALL: list[Notion] = [
    DifferentialPrivacy(epsilon=1.0),
    IndividualDP(epsilon=0.5),
    KAnonymity(k=5),
    LDiversity(l=3),
    KLooseness(k=10),
    NoGuarantee(reason="it was made for a test"),
]


def _guarantee(**more: Any) -> Guarantee:
    return Guarantee(
        **{
            "notion": DifferentialPrivacy(epsilon=1.0),
            "unit": Unit.RECORD,
            "covers": "everything",
            "adversary": Adversary.SEES_RELEASE,
            "assumes": (Assumption.PUBLIC_BOUNDS, Assumption.ROW_STRUCTURE_RELEASED),
            "source": Proposition(work="w", place="p. 1"),
            "not_covered": ("the weather",),
            **more,
        }
    )


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("notion", [DifferentialPrivacy, IndividualDP])
def test_epsilon_is_finite_and_above_0(notion: Any, epsilon: float) -> None:
    """Nothing else is a promise."""
    with pytest.raises(PlanError, match="epsilon is out of range"):
        notion(epsilon=epsilon)


@pytest.mark.parametrize("delta", [-0.1, 1, math.nan])
def test_delta_is_a_probability_below_1(delta: float) -> None:
    """A delta of 1 promises nothing."""
    with pytest.raises(PlanError, match="delta is out of range"):
        DifferentialPrivacy(epsilon=1, delta=delta)


@pytest.mark.parametrize(
    "make",
    [
        lambda: KAnonymity(k=0),
        lambda: KAnonymity(k=True),
        lambda: KAnonymity(k=2.5),  # type: ignore[arg-type]
        lambda: LDiversity(l=0),
        lambda: LDiversity(l=2, k=0),
        lambda: KLooseness(k=0),
    ],
)
def test_counts_are_whole_and_from_1(make: Any) -> None:
    """For every notion that counts."""
    with pytest.raises(PlanError, match="out of range"):
        make()


@pytest.mark.parametrize("notion", ALL, ids=lambda n: n.code)
def test_only_differential_privacy_is_called_so(notion: Notion) -> None:
    """Every other notion that could be mistaken for it says that it is not."""
    assert notion.is_differential_privacy == isinstance(notion, DifferentialPrivacy)
    for text in (notion.words(), notion.definition()):
        if not notion.is_differential_privacy and not isinstance(notion, NoGuarantee):
            assert "it is not differential privacy" in text


@pytest.mark.parametrize("notion", ALL, ids=lambda n: n.code)
def test_a_definition_holds_no_number(notion: Notion) -> None:
    """It speaks of ε, k and l; the words of an instance name theirs, and data keeps them."""
    assert not any(sign.isdigit() for sign in notion.definition().replace("1/", ""))
    assert json.loads(json.dumps(notion.as_data()))["notion"] == notion.code


def test_the_base_says_nothing_itself() -> None:
    """Every notion has words and a definition of its own."""
    with pytest.raises(TypeError, match="abstract"):
        Notion()  # type: ignore[abstract]


def test_the_factor_is_never_understated() -> None:
    """It is called about what it is, and left as e^ε where no float holds it."""
    assert "at most e^ε ≈ 2.718 times" in DifferentialPrivacy(epsilon=1).words()
    huge = DifferentialPrivacy(epsilon=1000).words()
    assert "at most e^ε times" in huge
    assert "ε = 1000" in huge


def test_delta_is_said() -> None:
    """With it the bound holds but for that probability."""
    words = DifferentialPrivacy(epsilon=1, delta=1e-6).words()
    assert words.startswith("(ε, δ)-differential privacy with ε = 1 and δ = 1e-06")
    assert words.endswith("but for a probability of at most δ")


def test_the_numbers_are_in_the_words() -> None:
    """k, l, ε and the reason."""
    assert KAnonymity(k=5).words().startswith("5-anonymity")
    assert LDiversity(l=3, k=5).words().startswith("5-anonymity and 3-diversity")
    assert "1/3" in LDiversity(l=3).words()
    assert "1/10" in KLooseness(k=10).words()
    assert "ε = 0.5:" in IndividualDP(epsilon=0.5).words()
    assert NoGuarantee(reason="why not").words() == "no guarantee: why not"
    assert number(0.1 + 0.2) == "0.3"


def test_conditions_and_leaks_are_told_apart() -> None:
    """What must be true stands under "Only if", what is given away under "Not covered"."""
    lines = _guarantee().words().splitlines()
    assert lines[0].startswith("Promise: ")
    assert sum(line.startswith("Only if: ") for line in lines) == 1
    assert sum(line.startswith("Not covered: ") for line in lines) == 2
    assert "Not covered: the weather." in lines
    assert lines[-1] == "Source: w, p. 1."


def test_a_guarantee_is_plain_data() -> None:
    """JSON and back, words included."""
    data = json.loads(json.dumps(_guarantee().as_data()))
    assert data["epsilon"] == 1.0
    assert data["unit"] == "record"
    assert data["assumes"] == ["public-bounds", "row-structure-released"]
    assert data["words"] == _guarantee().words()


def test_a_seed_takes_everything_away() -> None:
    """The notion is none, and the seed is among what leaks."""
    seeded = _guarantee().seeded()
    assert isinstance(seeded.notion, NoGuarantee)
    assert seeded.assumes[-1] is Assumption.SEEDED
    assert "carries no guarantee" in seeded.words()


@pytest.mark.parametrize("member", [*Unit, *Adversary, *Assumption], ids=lambda m: m.value)
def test_every_member_has_its_sentence(member: Any) -> None:
    """Lower case and without a full stop, since it stands inside one."""
    assert member.words
    assert not member.words.endswith(".")
    assert member.value == member.value.lower()
    assert type(member)(member.value) is member
