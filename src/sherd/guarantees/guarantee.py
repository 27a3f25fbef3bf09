"""The guarantee of a release, as one value that explains itself.

``in_todays_words`` knows how guarantees were worded before, so that a promise written then can be
compared today. Each pair is a text that a release carries and the text that says the same now.
Only these are taken for one another: a promise in any other words is not the one that its plan
leads to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from sherd.guarantees.assumptions import Adversary, Assumption, Unit
from sherd.guarantees.notions import NoGuarantee, Notion

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Proposition:
    """Where a guarantee is proved: a bibliography key and a place in it."""

    work: str
    place: str

    def words(self) -> str:
        """The source as a person writes it.

        >>> Proposition(work="soria-comas2025", place="Prop. 8").words()
        'soria-comas2025, Prop. 8'
        """
        return f"{self.work}, {self.place}"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What a release promises, to whom, against whom and under which assumptions.

    ``covers`` says what the notion speaks about; ``not_covered`` lists, in words, what
    the release gives away all the same.
    """

    notion: Notion
    unit: Unit
    covers: str
    adversary: Adversary
    assumes: tuple[Assumption, ...]
    source: Proposition
    not_covered: tuple[str, ...] = ()

    def seeded(self) -> Guarantee:
        """The guarantee of the same release made with reproducible random numbers: none."""
        return replace(
            self,
            notion=NoGuarantee(reason="the random numbers are reproducible (a seed was given)"),
            assumes=(*self.assumes, Assumption.SEEDED),
        )

    def _repr_html_(self) -> str:
        """The guarantee in words, for a notebook."""
        lines = (line.partition(": ") for line in self.words().splitlines())
        rows = (f"<dt>{escape(head)}</dt><dd>{escape(text)}</dd>" for head, _, text in lines)
        return f"<dl>{''.join(rows)}</dl>"

    def words(self) -> str:
        """The guarantee in words a lawyer can read, as several lines."""
        lines = [
            f"Promise: {self.notion.words()}.",
            f"Protects: {self.unit.words}.",
            f"Covers: {self.covers}.",
            f"Against: {self.adversary.words}.",
        ]
        lines += [f"Only if: {a.words}." for a in self.assumes if not a.leaks]
        lines += [f"Not covered: {a.words}." for a in self.assumes if a.leaks]
        lines += [f"Not covered: {text}." for text in self.not_covered]
        lines.append(f"Source: {self.source.words()}.")
        return "\n".join(lines)

    def as_data(self) -> dict[str, object]:
        """The guarantee as plain data, for a manifest."""
        return {
            **self.notion.as_data(),
            "unit": self.unit.value,
            "covers": self.covers,
            "adversary": self.adversary.value,
            "assumes": [assumption.value for assumption in self.assumes],
            "not_covered": list(self.not_covered),
            "source": {"work": self.source.work, "place": self.source.place},
            "words": self.words(),
        }


EARLIER: tuple[tuple[str, str], ...] = (
    (
        "to the other parties: who is among the records that all of them have",
        "to the other parties: who is among the records that all of them have, whether every cell "
        "has one holder and, where the plan settles overlaps, which of its own cells count",
    ),
    ("clusters made anew", "clusters recomputed"),
    (
        "everything that is released: the ordered centroids of each attribute",
        "everything that is released, which is the ordered centroids of each attribute, and "
        "refusal as an outcome: no value of a record decides whether a run is refused",
    ),
    ("that they were is not covered by epsilon", "that they were is not covered"),
)
"""What a text was, and what it is."""

WAITING = (
    "which new records wait for a later release: their values decide that, so somebody who knows "
    "that a person joined before they were released can learn more than the bound says"
)
"""What a release that follows another gives away by holding new records back."""

NAMED_SINCE: tuple[str, ...] = (
    "refusals-seen",
    "the ends of ranges: each is the value of somebody in the class (boxes: tight)",
    "the ends of ranges of attributes without a declared domain: they follow the leading digits of "
    "values",
    "how frequent values are, as far as that decides which of the smallest fragmentations fits",
    WAITING,
)
"""What promises leave aside in so many words today, and earlier ones did without naming it."""

NAMED_SINCE_FORMAT_2: tuple[str, ...] = (WAITING,)
"""Those of them that early manifests of the second format do not name either."""


def in_todays_words(stated: Any) -> Any:
    """A stated guarantee with every earlier text in today's words.

    >>> in_todays_words({"covers": "the centroids, clusters made anew"})
    {'covers': 'the centroids, clusters recomputed'}
    """
    if isinstance(stated, dict):
        return {key: in_todays_words(value) for key, value in stated.items()}
    if isinstance(stated, list):
        return [in_todays_words(value) for value in stated]
    if not isinstance(stated, str):
        return stated
    for before, now in EARLIER:
        if now not in stated:
            stated = stated.replace(before, now)
    return stated


def as_named_before(
    promise: Mapping[str, Any], named_since: tuple[str, ...] = NAMED_SINCE
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Today's promise as it was stated before, and what of it was not named then.

    >>> before, since = as_named_before({"assumes": ["seeded", "refusals-seen"], "not_covered": []})
    >>> before["assumes"], since
    (['seeded'], ('refusals-seen',))
    """
    lists = ("assumes", "not_covered")
    since = tuple(one for name in lists for one in promise[name] if one in named_since)
    left = {name: [one for one in promise[name] if one not in since] for name in lists}
    return {**promise, **left}, since
