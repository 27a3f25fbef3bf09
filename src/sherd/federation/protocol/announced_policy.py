"""What an owner announces beforehand of its policy, so that no round is opened in vain.

An announcement is public: its owner chooses which settings it tells, and may tell none. It
binds nobody. An owner's own policy decides about every round as before; the announcement lets
the aggregator refuse at once what that policy would refuse later.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sherd.errors import PlanError
from sherd.federation.protocol.joint_plan import (
    LEAST_K,
    MOST_TIME,
    NAME,
    Kind,
    Linkage,
    Sharing,
    check_name,
    cluster_sizes,
    exact,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sherd.federation.protocol.joint_plan import Terms

TELLS = ("kinds", "methods", "attributes", "linkage", "least_k", "largest_epsilon")
"""The settings of a policy that an owner can announce."""

_MOST_NAMES, _MOST_LETTERS = 2000, 200


@dataclass(frozen=True, kw_only=True)
class AnnouncedPolicy:
    """What one owner announces to one aggregator that it would agree to; None: not announced.

    ``version`` is the second in which it was made, and grows: a later announcement takes the
    place of an earlier one. ``attributes`` are those that the owner would offer.
    """

    owner: str
    aggregator: str
    version: int
    kinds: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    attributes: tuple[str, ...] | None = None
    linkage: tuple[str, ...] | None = None
    least_k: int | None = None
    largest_epsilon: str | None = None

    def __post_init__(self) -> None:
        check_name(self.owner, "owner")
        check_name(self.aggregator, "aggregator")
        if not 0 < self.version <= MOST_TIME:
            raise PlanError("the version of an announcement is out of range", must="a second")
        for names, known in ((self.kinds, Kind), (self.linkage, Linkage)):
            if not set(names or ()) <= {each.value for each in known}:
                raise PlanError("an announced setting is unknown")
        if not all(NAME.fullmatch(name) for name in self.methods or ()):
            raise PlanError("the name of an announced method is not valid")
        for name in self.attributes or ():
            if not 0 < len(name) <= _MOST_LETTERS or not name.isprintable():
                raise PlanError("the name of an announced attribute is not valid")
        if max(len(self.methods or ()), len(self.attributes or ())) > _MOST_NAMES:
            raise PlanError("an announcement is too long", must=f"at most {_MOST_NAMES} names")
        if self.least_k is not None and not LEAST_K <= self.least_k < 2**53:
            raise PlanError("the announced least k is out of range", must=f"from {LEAST_K}")
        if self.largest_epsilon is not None and self.largest_epsilon != "0":
            exact(self.largest_epsilon)

    @property
    def in_words(self) -> dict[str, str]:
        """The announced settings in words, by their names."""
        given = {name: getattr(self, name) for name in TELLS}
        return {
            name: (", ".join(value) or "none") if isinstance(value, tuple) else str(value)
            for name, value in given.items()
            if value is not None
        }

    def objections(self, terms: Terms) -> list[str]:
        """Every limit that a round would break, as far as its terms show it."""
        against = []
        if self.kinds is not None and terms.kind.value not in self.kinds:
            against.append(f"takes no part in {terms.kind.value} rounds")
        if self.methods is not None and terms.method not in self.methods:
            against.append(f"does not allow the method {terms.method}")
        linked = terms.linkage is not Linkage.NONE
        if linked and self.linkage is not None and terms.linkage.value not in self.linkage:
            against.append(f"does not allow the linkage {terms.linkage.value}")
        smallest = min(cluster_sizes(terms.parameters), default=None)
        if smallest is not None and self.least_k is not None and smallest < self.least_k:
            against.append(f"allows k from {self.least_k}; the round asks for {smallest}")
        asked, most = _share(terms, self.owner), self.largest_epsilon
        if asked is not None and most is not None and asked > Fraction(most):
            words = f"allows epsilon up to {most} in one round"
            against.append(f"{words}; the round asks for {float(asked):g}")
        return against


def _share(terms: Terms, owner: str) -> Fraction | None:
    """An owner's epsilon, where the terms alone say what it will be."""
    if terms.epsilon is None:
        return None
    if terms.kind is Kind.HORIZONTAL:
        return Fraction(terms.epsilon)
    if terms.sharing is Sharing.GIVEN:
        return Fraction(terms.given[owner])
    if terms.sharing is Sharing.EQUAL and terms.kind is Kind.VERTICAL:
        return Fraction(terms.epsilon) / len(terms.owners)
    return None


def announced_objections(
    terms: Terms, announced: Mapping[str, AnnouncedPolicy]
) -> dict[str, list[str]]:
    """Why a round is refused before anybody is asked, by owner; empty where nothing is known.

    Attributes are compared between the owners that announce theirs: by rows they must be the
    same, by columns no two may have one in common, in blocks either of the two.
    """
    asked = {name: announced[name] for name in terms.owners if name in announced}
    objections = {name: policy.objections(terms) for name, policy in asked.items()}
    offered = {name: p.attributes for name, p in asked.items() if p.attributes is not None}
    first = next(iter(offered), None)
    for name, attributes in offered.items():
        if terms.kind is Kind.HORIZONTAL:
            here, there = set(offered[first or name]), set(attributes)
            objections[name] += [f"offers no attribute '{each}', as {first} does"
                            for each in sorted(here - there)]  # fmt: skip
            objections[name] += [f"offers the attribute '{each}', and {first} does not"
                            for each in sorted(there - here)]  # fmt: skip
        else:
            for other, theirs in offered.items():
                if terms.kind is Kind.BLOCKS and set(theirs) == set(attributes):
                    continue  # of the same attributes, they have other people
                if other < name:
                    objections[name] += [f"offers the attribute '{each}', as {other} does"
                                    for each in sorted(set(attributes) & set(theirs))]  # fmt: skip
    return {name: words for name, words in objections.items() if words}
