"""``idp``: Laplace noise on every value, at the farthest distance the value itself can move.

The k = 1 case of delvasto2025: the local sensitivity of a value x is max(hi − x, x − lo),
so the noise is at most that of ``dp`` and at least half of it. Individual differential
privacy (Definition 5 of soria-comas2025): the scale is taken as that of the actual table.
"""

from __future__ import annotations

from sherd.guarantees import Assumption, IndividualDP, Proposition
from sherd.methods.ranking.masking import Masking, plain_sums
from sherd.methods.ranking.ranking_promise import Promise
from sherd.methods.ranking.sensitivity import local

METHOD = Masking(
    name="idp",
    title="Individual differential privacy by noise on every value",
    summary="Adds noise to every value, as wide as the farthest end of the domain is from it. "
    "Down to half the noise of dp, for a weaker promise.",
    least_k=0,
    promises={
        "paper": Promise(
            help="individual differential privacy of every record",
            notion=lambda epsilon: IndividualDP(epsilon=epsilon),
            covers="every released value of every protected attribute, under the noise of the "
            "actual table",
            source=Proposition(work="delvasto2025", place="sections 3.2 and 5.1.1"),
            assumes=(Assumption.FROZEN_SCALE,),
        ),
    },
    default_promise="paper",
    centre="value",
    reach="local",
    sums=plain_sums,
    sensitivity=local,
)
