"""``dp-graph`` for rows that lie with several owners: learning from sums of noisy histograms.

Owners have disjoint records over the same attributes, so a histogram of all records is the sum of
theirs. Each owner adds its part of the noise (``shared_noise``) and answers; the aggregator is
given sums and runs the same ``learn`` as one owner does, over a measurer that looks answers up
and says what to ask next. It is deterministic, so that it can be begun again after any answer.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sherd.errors import PlanError, VerificationError
from sherd.methods.graphical.learning import DataAccess, Design, Learned, ask_all, learn
from sherd.methods.graphical.measuring import Measurement, Request
from sherd.methods.graphical.row_questions import HistogramQuestion
from sherd.methods.graphical.shared_noise import SharedNoise
from sherd.methods.graphical.spending import Spending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.release.summed_rows import RowOwners

    Numbers = NDArray[np.int64]
    Answers = Sequence[tuple[HistogramQuestion, Numbers]]

SIGMAS = 40
"""Deviations of noise beyond which a sum of counts is nobody's: an answer was wrong."""


class UnansweredError(Exception):
    """The model cannot be learned yet: these requests come next."""

    def __init__(self, requests: Sequence[Request]) -> None:
        super().__init__("requests are not answered yet")
        self.requests = tuple(requests)


class AnsweredSums:
    """The measurer of those who are told sums: looks answers up, in the order of asking."""

    def __init__(self, design: Design, among: RowOwners, answers: Answers) -> None:
        self._design, self._among, self._answers = design, among, list(answers)

    @property
    def rows(self) -> int:
        """The public number of records of all owners."""
        return self._among.rows

    def measure(self, requests: Sequence[Request]) -> list[Measurement]:
        """The sums of the owners' answers; raises where nobody was asked yet."""
        if not requests:
            return []
        if not self._answers:
            raise UnansweredError(requests)
        question, sums = self._answers.pop(0)
        if question != HistogramQuestion.of(self._design, requests):
            raise VerificationError("the answers so far are to other questions")
        sharing, measured, at = sharing_of(self._among), list[Measurement](), 0
        for one in requests:
            cells = one.marginal.cells
            counts = sums[at : at + cells].reshape(one.marginal.shape)
            whole = sharing.whole(one.noise, cells)
            if int(np.abs(counts).max()) > self.rows + SIGMAS * whole.scale:
                raise VerificationError(
                    "the sum of the owners' answers is not a histogram of their rows"
                )
            measured.append(
                Measurement(request=Request(marginal=one.marginal, noise=whole), counts=counts)
            )
            at += cells
        return measured


def sharing_of(among: RowOwners) -> SharedNoise:
    """How the owners of rows share out noise."""
    return SharedNoise(owners=among.owners, colluders=among.colluders)


def check_design(design: Design) -> None:
    """Raise where a design cannot be carried out by sums."""
    if design.kind != "gaussian":
        raise PlanError(
            "owners of rows cannot share out the noise of pure epsilon",
            must="a delta, so that the noise is Gaussian",
            do="give delta, far below one in the number of records",
        )
    if design.choice == "tree":
        raise PlanError(
            "sums of histograms do not choose a tree",
            must="the choice 'all' or 'workload'",
            got="'tree'",
            do="set choice=all, or name the marginals",
        )


def next_question(design: Design, among: RowOwners, answers: Answers) -> HistogramQuestion | None:
    """What to ask after these answers; None where the model can be learned."""
    account = Spending(kind=design.kind, total=design.total)
    measurer = AnsweredSums(design, among, answers)
    try:
        ask_all(design, DataAccess(measurer=measurer, chooser=None, account=account))
    except UnansweredError as missing:
        return HistogramQuestion.of(design, missing.requests)
    return None


def learn_from_sums(design: Design, among: RowOwners, answers: Answers) -> Learned:
    """The model that the sums lead to; ``spent`` is what an outsider sees of it."""
    learned = learn(design, AnsweredSums(design, among, answers), None)
    costs = (one.request.noise.cost for one in (*learned.fine, *learned.measured))
    return replace(learned, spent=sum(costs, Fraction(0)))
