"""Attacks on releases, each a documented object that says what it knows, does and wins.

>>> [attack.name for attack in ATTACKS][:3]
['cluster-linkage-known', 'cluster-linkage', 'unchanged']
"""

from __future__ import annotations

from sherd.auditing.attacks.attack import Attack
from sherd.auditing.attacks.cell_attacks import CO_CLUSTER, INTERVAL, RECONSTRUCTION, UNCHANGED
from sherd.auditing.attacks.cluster_linkage import CLUSTERS_ALONE, CLUSTERS_KNOWN
from sherd.auditing.attacks.controlled import INFERENCE, LINKABILITY, MATCHING, MEMBERSHIP
from sherd.auditing.attacks.group_disclosure import GROUPS
from sherd.auditing.attacks.linkage_attack import BY_DISTANCE, WITH_KNOWN
from sherd.auditing.attacks.singling import SINGLING_OUT, UNIQUENESS

ATTACKS: tuple[Attack, ...] = (
    CLUSTERS_KNOWN,
    CLUSTERS_ALONE,
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
    MATCHING,
    GROUPS,
)
"""Every attack the audit runs, in the order of the report."""

__all__ = ["ATTACKS", "Attack"]
