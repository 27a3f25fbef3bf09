"""Questions to owners of rows: which histograms, over which bins, with how much noise.

A question travels as plain data and is read strictly: whoever asks may be anybody. It may name
any bins and any marginals, as the promise holds whatever is asked, as long as the noise that
is asked for costs no more than the plan has. What is bounded is its size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sherd.errors import PlanError
from sherd.methods.graphical.measuring import SHARPNESS, Marginal, Noise, Request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sherd.methods.graphical.junction_tree import Clique
    from sherd.methods.graphical.learning import Design

MOST_NUMBERS = 2**22
"""Numbers of one answer: 32 megabytes."""

MOST_MARGINALS = 2**14
"""Marginals of one question."""

MOST_SCALE = 2**18
"""The largest scale of noise: a histogram for a hundred-thousand-millionth of ρ."""


@dataclass(frozen=True, kw_only=True)
class HistogramQuestion:
    """Histograms to count: the bin of every fine cell of each attribute, marginals and scales."""

    binnings: tuple[tuple[int, ...], ...]
    marginals: tuple[tuple[Clique, Fraction], ...]

    @classmethod
    def of(cls, design: Design, requests: Sequence[Request]) -> HistogramQuestion:
        """The question that asks for these requests, whose bins agree with each other."""
        bins = {
            a: one
            for request in requests
            for a, one in zip(request.marginal.attributes, request.marginal.bins, strict=True)
        }
        return cls(
            binnings=tuple(
                bins.get(a, tuple(range(grid.size))) for a, grid in enumerate(design.grids)
            ),
            marginals=tuple((one.marginal.attributes, one.noise.scale) for one in requests),
        )

    @classmethod
    def read(cls, design: Design, data: Mapping[str, Any]) -> HistogramQuestion:
        """The question in plain data; PlanError where it is none about this design."""
        try:
            fits = set(data) == {"binnings", "marginals"}
            if not 0 < len(data["marginals"]) <= MOST_MARGINALS:
                raise ValueError
            question = cls(
                binnings=tuple(tuple(one) for one in data["binnings"]),
                marginals=tuple(
                    (tuple(one["attributes"]), _scale(one["scale"])) for one in data["marginals"]
                ),
            )
            fits = fits and len(question.binnings) == len(design.grids)
            fits = fits and all(
                _are_bins(one, grid.size)
                for one, grid in zip(question.binnings, design.grids, strict=False)
            )
            places = range(len(design.grids))
            fits = fits and all(
                1 <= len(clique) <= 4 and all(type(a) is int and a in places for a in clique)
                for clique, _ in question.marginals
            )
            fits = fits and question.length <= MOST_NUMBERS
        except (TypeError, KeyError, ValueError, LookupError, ArithmeticError):
            fits = False
        if not fits:
            raise PlanError(
                "a question about the rows is not valid",
                must="bins of the plan's attributes, and marginals of them with their noise",
            )
        return question

    def as_data(self) -> dict[str, Any]:
        """The question as plain data."""
        return {
            "binnings": [list(one) for one in self.binnings],
            "marginals": [
                {"attributes": list(clique), "scale": str(scale)}
                for clique, scale in self.marginals
            ],
        }

    @property
    def requests(self) -> tuple[Request, ...]:
        """The requests that are asked."""
        return tuple(
            Request(
                marginal=Marginal(attributes=clique, bins=tuple(self.binnings[a] for a in clique)),
                noise=Noise(kind="gaussian", scale=scale),
            )
            for clique, scale in self.marginals
        )

    @property
    def length(self) -> int:
        """How many numbers answer it."""
        sizes = [max(one) + 1 for one in self.binnings]
        return sum(math.prod(sizes[a] for a in clique) for clique, _ in self.marginals)

    @property
    def cost(self) -> Fraction:
        """What answering it costs, in ρ."""
        return sum((one.noise.cost for one in self.requests), Fraction(0))


def _are_bins(bins: tuple[int, ...], cells: int) -> bool:
    """A bin for every fine cell, and no bin that is none's."""
    whole = len(bins) == cells and all(type(one) is int and 0 <= one < cells for one in bins)
    return whole and set(bins) == set(range(max(bins) + 1))


def _scale(text: Any) -> Fraction:
    """A scale on its lattice, written as a fraction of two short numbers."""
    if type(text) is not str or not 0 < len(text) <= 20:
        raise ValueError
    scale = Fraction(text)
    if not 0 < scale <= MOST_SCALE or (scale * SHARPNESS).denominator != 1:
        raise ValueError
    return scale
