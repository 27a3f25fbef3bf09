"""The guarantee of a release, as one value that explains itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape

from sherd.guarantees.assumptions import Adversary, Assumption, Unit
from sherd.guarantees.notions import NoGuarantee, Notion


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
