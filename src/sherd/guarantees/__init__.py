"""What a release promises, as a value: notion, unit, adversary, assumptions, source.

A guarantee is computed from a plan and a schema alone, before any data is read, and
speaks both in words a lawyer can read and as JSON.
"""

from sherd.guarantees.assumptions import Adversary, Assumption, Unit
from sherd.guarantees.concentrated import ZeroConcentratedDP
from sherd.guarantees.guarantee import Guarantee, Proposition
from sherd.guarantees.notions import (
    DifferentialPrivacy,
    GroupDiversity,
    IndividualDP,
    KAnonymity,
    KLooseness,
    LDiversity,
    NoGuarantee,
    Notion,
)

__all__ = [
    "Adversary",
    "Assumption",
    "DifferentialPrivacy",
    "GroupDiversity",
    "Guarantee",
    "IndividualDP",
    "KAnonymity",
    "KLooseness",
    "LDiversity",
    "NoGuarantee",
    "Notion",
    "Proposition",
    "Unit",
    "ZeroConcentratedDP",
]
