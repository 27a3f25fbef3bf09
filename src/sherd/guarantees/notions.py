"""Notions of privacy, each with its parameters, its words and how it composes.

A k-anonymity-like notion is never called differential privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from sherd.errors import PlanError


def _check_epsilon(epsilon: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise PlanError(
            "epsilon is out of range",
            must="a finite number above 0",
            got=repr(epsilon),
            do="values from 0.01 to 1 are usual",
        )


def _check_whole(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PlanError(
            f"{name} is out of range", must=f"a whole number from {least}", got=repr(value)
        )


def number(value: float) -> str:
    """A number as a person writes it.

    >>> number(1.0), number(0.25)
    ('1', '0.25')
    """
    return f"{value:.6g}"


@dataclass(frozen=True, kw_only=True)
class Notion:
    """Base of the notions: a code, words, and whether it is differential privacy."""

    code: ClassVar[str] = "none"
    is_differential_privacy: ClassVar[bool] = False

    def words(self) -> str:
        """One sentence that says what is promised."""
        raise NotImplementedError

    def as_data(self) -> dict[str, object]:
        """The notion as plain data."""
        return {"notion": self.code, **{k: v for k, v in vars(self).items() if v is not None}}


@dataclass(frozen=True, kw_only=True)
class DifferentialPrivacy(Notion):
    """ε-differential privacy, or (ε, δ) where δ is not 0.

    >>> DifferentialPrivacy(epsilon=1.0).words()[:30]
    'ε-differential privacy with ε ='
    """

    code: ClassVar[str] = "differential-privacy"
    is_differential_privacy: ClassVar[bool] = True
    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)
        if not 0 <= self.delta < 1:
            raise PlanError(
                "delta is out of range", must="at least 0 and below 1", got=repr(self.delta)
            )

    def words(self) -> str:
        """One sentence that says what is promised."""
        tail = f" and δ = {number(self.delta)}" if self.delta else ""
        return (
            f"ε-differential privacy with ε = {number(self.epsilon)}{tail}: whatever the data, any "
            f"output is at most {number(math.exp(min(self.epsilon, 700)))} times as likely with a "
            "person's true data as with any other in its place"
        )


@dataclass(frozen=True, kw_only=True)
class IndividualDP(Notion):
    """ε-individual differential privacy: the bound holds around the actual table only.

    >>> IndividualDP(epsilon=1.0).is_differential_privacy
    False
    """

    code: ClassVar[str] = "individual-differential-privacy"
    epsilon: float

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    def words(self) -> str:
        """One sentence that says what is promised."""
        return (
            f"ε-individual differential privacy with ε = {number(self.epsilon)}: the bound of "
            "differential privacy holds between the actual table and its neighbours, with the "
            "noise of the actual table; it is not differential privacy, because the amount of "
            "noise depends on the data"
        )


@dataclass(frozen=True, kw_only=True)
class KAnonymity(Notion):
    """Every combination of quasi-identifiers occurs at least k times."""

    code: ClassVar[str] = "k-anonymity"
    k: int

    def __post_init__(self) -> None:
        _check_whole("k", self.k, 1)

    def words(self) -> str:
        """One sentence that says what is promised."""
        return (
            f"{self.k}-anonymity: every released combination of quasi-identifiers belongs to at "
            f"least {self.k} records; it is not differential privacy"
        )


@dataclass(frozen=True, kw_only=True)
class LDiversity(Notion):
    """No sensitive value of a person can be held with more confidence than 1/l."""

    code: ClassVar[str] = "l-diversity"
    l: int  # noqa: E741 - the field's own name for it
    k: int | None = None

    def __post_init__(self) -> None:
        _check_whole("l", self.l, 1)
        if self.k is not None:
            _check_whole("k", self.k, 1)

    def words(self) -> str:
        """One sentence that says what is promised."""
        head = f"{self.k}-anonymity and " if self.k is not None else ""
        return (
            f"{head}{self.l}-diversity: from the release alone, no sensitive value can be assigned "
            f"to a person with probability above 1/{self.l}; it is not differential privacy"
        )


@dataclass(frozen=True, kw_only=True)
class KLooseness(Notion):
    """Every link between fragments is hidden among at least k."""

    code: ClassVar[str] = "k-looseness"
    k: int

    def __post_init__(self) -> None:
        _check_whole("k", self.k, 1)

    def words(self) -> str:
        """One sentence that says what is promised."""
        return (
            f"{self.k}-looseness: every sensitive association between fragments corresponds to at "
            f"least {self.k} equally likely ones, so it can be guessed with probability at most "
            f"1/{self.k}; it is not differential privacy"
        )


@dataclass(frozen=True, kw_only=True)
class NoGuarantee(Notion):
    """Nothing is promised, and the reason is said."""

    code: ClassVar[str] = "no-guarantee"
    reason: str

    def words(self) -> str:
        """One sentence that says that nothing is promised."""
        return f"no guarantee: {self.reason}"
