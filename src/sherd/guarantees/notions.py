"""Notions of privacy, each with its parameters, its words and how it composes.

A k-anonymity-like notion is never called differential privacy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
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


def _bound(factor: str) -> str:
    return (
        f"whatever the data, any output is at most {factor} times as likely with a person's true "
        "data as with any other in its place"
    )


@dataclass(frozen=True, kw_only=True)
class Notion(ABC):
    """Base of the notions: a code, words, and whether it is differential privacy."""

    code: ClassVar[str] = "none"
    is_differential_privacy: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def definition(cls) -> str:
        """What is promised in general, parameters by their names.

        >>> KLooseness.definition()[:12]
        'k-looseness:'
        """

    @abstractmethod
    def words(self) -> str:
        """One sentence that says what is promised."""

    def as_data(self) -> dict[str, object]:
        """The notion as plain data."""
        return {"notion": self.code, **{k: v for k, v in vars(self).items() if v is not None}}


@dataclass(frozen=True, kw_only=True)
class DifferentialPrivacy(Notion):
    """ε-differential privacy, or (ε, δ) where δ is not 0.

    >>> DifferentialPrivacy(epsilon=1.0).words()[:31]
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

    @classmethod
    def definition(cls) -> str:
        """What is promised in general."""
        return f"ε-differential privacy: {_bound('e^ε')}"

    def words(self) -> str:
        """One sentence that says what is promised."""
        # Beyond e^20 nobody reads the factor, and a float may not hold it.
        about = f" ≈ {math.exp(self.epsilon):.4g}" if self.epsilon <= 20 else ""
        bound = _bound(f"e^ε{about}")
        if not self.delta:
            return f"ε-differential privacy with ε = {number(self.epsilon)}: {bound}"
        return (
            f"(ε, δ)-differential privacy with ε = {number(self.epsilon)} and "
            f"δ = {number(self.delta)}: {bound}, but for a probability of at most δ"
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
        named = f"ε-individual differential privacy with ε = {number(self.epsilon)}"
        return self.definition().replace("ε-individual differential privacy", named, 1)

    @classmethod
    def definition(cls) -> str:
        """What is promised in general."""
        return (
            "ε-individual differential privacy: the bound of differential privacy, e^ε, holds "
            "between the actual table and its neighbours, with the noise of the actual table; it "
            "is not differential privacy, because the amount of noise depends on the data"
        )


class _Counted:
    """What notions of one whole number share: words are the definition with it filled in."""

    letter: ClassVar[str]
    text: ClassVar[str]

    def __post_init__(self) -> None:
        _check_whole(self.letter, getattr(self, self.letter), 1)

    def words(self) -> str:
        """One sentence that says what is promised."""
        return self.text.format(getattr(self, self.letter))

    @classmethod
    def definition(cls) -> str:
        """What is promised in general."""
        return cls.text.format(cls.letter)


@dataclass(frozen=True, kw_only=True)
class KAnonymity(_Counted, Notion):
    """Every combination of quasi-identifiers occurs at least k times."""

    code: ClassVar[str] = "k-anonymity"
    letter: ClassVar[str] = "k"
    text: ClassVar[str] = (
        "{0}-anonymity: every released combination of quasi-identifiers belongs to at "
        "least {0} records; it is not differential privacy"
    )
    k: int


@dataclass(frozen=True, kw_only=True)
class LDiversity(_Counted, Notion):
    """No sensitive value of a person can be held with more confidence than 1/l."""

    code: ClassVar[str] = "l-diversity"
    letter: ClassVar[str] = "l"
    text: ClassVar[str] = (
        "{0}-diversity: from the release alone, no sensitive value can be assigned "
        "to a person with probability above 1/{0}; it is not differential privacy"
    )
    l: int  # noqa: E741 - the field's own name for it
    k: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is not None:
            _check_whole("k", self.k, 1)

    def words(self) -> str:
        """One sentence that says what is promised."""
        head = f"{self.k}-anonymity and " if self.k is not None else ""
        return head + super().words()


@dataclass(frozen=True, kw_only=True)
class KLooseness(_Counted, Notion):
    """Every link between fragments is hidden among at least k."""

    code: ClassVar[str] = "k-looseness"
    letter: ClassVar[str] = "k"
    text: ClassVar[str] = (
        "{0}-looseness: every sensitive association between fragments corresponds to at "
        "least {0} equally likely ones, so it can be guessed with probability at most "
        "1/{0}; it is not differential privacy"
    )
    k: int


@dataclass(frozen=True, kw_only=True)
class NoGuarantee(Notion):
    """Nothing is promised, and the reason is said."""

    code: ClassVar[str] = "no-guarantee"
    reason: str

    def words(self) -> str:
        """One sentence that says that nothing is promised."""
        return f"no guarantee: {self.reason}"

    @classmethod
    def definition(cls) -> str:
        """What is promised in general: nothing."""
        return "no guarantee"


_NOT_DP = "; it is not differential privacy"

_CONDITIONS = {
    "entropy": "entropy {}-diversity",
    "recursive": "recursive ({}, {})-diversity",
    "closeness": "{}-closeness (equal distance)",
    "ordered_closeness": "{}-closeness (ordered distance)",
    "likeness": "enhanced {}-likeness",
}
"""What is said of each condition, with its limit filled in."""


@dataclass(frozen=True, kw_only=True)
class GroupDiversity(Notion):
    """What holds for the sensitive values of every group; None where it is not promised.

    What can be believed of a person is a mixture of groups, and holds the same.

    >>> GroupDiversity(closeness=0.2).words()
    '0.2-closeness (equal distance); it is not differential privacy'
    """

    code: ClassVar[str] = "group-diversity"
    l: int | None = None  # noqa: E741 - the field's own name for it
    k: int | None = None
    share: float | None = None
    size: int | None = None
    entropy: float | None = None
    recursive: tuple[float, int] | None = None
    closeness: float | None = None
    ordered_closeness: float | None = None
    likeness: float | None = None

    @classmethod
    def definition(cls) -> str:
        """What is promised in general."""
        return (
            "conditions on the sensitive values of every group: entropy or recursive diversity, "
            "t-closeness, (α, k)-anonymity, β-likeness" + _NOT_DP
        )

    def words(self) -> str:
        """One sentence that says what is promised."""
        said = [
            notion.words().removesuffix(_NOT_DP)
            for notion in (
                KAnonymity(k=self.k) if self.k is not None else None,
                LDiversity(l=self.l) if self.l is not None and self.l > 1 else None,
            )
            if notion is not None
        ]
        if self.share is not None and self.size is not None:
            said.append(
                f"({number(self.share)}, {self.size})-anonymity: groups of at least {self.size} "
                f"records, no sensitive value above {number(self.share)} of a group"
            )
        elif self.share is not None:
            said.append(f"no sensitive value above {number(self.share)} of a group")
        elif self.size is not None:
            said.append(f"groups of at least {self.size} records")
        for name, text in _CONDITIONS.items():
            limit = getattr(self, name)
            if limit is not None:
                said.append(text.format(*map(number, limit if name == "recursive" else (limit,))))
        return "; ".join(said) + _NOT_DP

    def as_data(self) -> dict[str, object]:
        """The notion as plain data."""
        data = super().as_data()
        if self.recursive is not None:
            data["recursive"] = list(self.recursive)
        return data
