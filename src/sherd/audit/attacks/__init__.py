"""Attacks on releases, each a documented object that says what it knows, does and wins.

>>> [attack.name for attack in ATTACKS][:3]
['unchanged', 'linkage', 'linkage-known']
"""

from __future__ import annotations

from sherd.audit.attacks.attack import Attack
from sherd.audit.attacks.cells import INTERVAL, UNCHANGED
from sherd.audit.attacks.clusters import CO_CLUSTER, RECONSTRUCTION
from sherd.audit.attacks.controlled import INFERENCE, LINKABILITY, MEMBERSHIP
from sherd.audit.attacks.linkage import BY_DISTANCE, WITH_KNOWN
from sherd.audit.attacks.singling import SINGLING_OUT
from sherd.audit.attacks.uniqueness import UNIQUENESS

ATTACKS: tuple[Attack, ...] = (
    UNCHANGED,
    BY_DISTANCE,
    WITH_KNOWN,
    RECONSTRUCTION,
    CO_CLUSTER,
    INTERVAL,
    UNIQUENESS,
    SINGLING_OUT,
    LINKABILITY,
    INFERENCE,
    MEMBERSHIP,
)
"""Every attack the audit runs, in the order of the report."""

__all__ = ["ATTACKS", "Attack"]
