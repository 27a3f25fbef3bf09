"""Sherd makes one protected table from data held in fragments.

>>> import sherd
>>> schema = sherd.datasets.schema("adult")
>>> plan = sherd.Plan(method="dp-um", epsilon=1.0, k=100)
>>> plan.guarantee(schema).notion.is_differential_privacy
True
"""

from __future__ import annotations

import importlib

# Without `typing`: Ctrl-C while that is imported, before anybody can catch it, is a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sherd import datasets as datasets
    from sherd import methods as methods
    from sherd.budget.amount import Amount as Amount
    from sherd.budget.ledger import Ledger as Ledger
    from sherd.datasets.sources import read as read
    from sherd.errors import SherdError as SherdError
    from sherd.federation.aggregator.aggregator_home import AggregatorHome as AggregatorHome
    from sherd.federation.owner.owner_home import OwnerHome as OwnerHome
    from sherd.federation.wire.browser_login import log_in as log_in
    from sherd.federation.wire.fetching import fetch as fetch
    from sherd.methods.fragmenting.fragment_table import fragment as fragment
    from sherd.release.bundle import Release as Release
    from sherd.release.plan import Plan as Plan
    from sherd.release.protect import Settings as Settings
    from sherd.release.protect import protect as protect
    from sherd.release.protect import protect_to as protect_to
    from sherd.release.query_release import query as query
    from sherd.release.signature import make_key as make_key
    from sherd.release.signature import sign as sign
    from sherd.release.tune import tune as tune
    from sherd.report.reporting import audit as audit
    from sherd.report.reporting import compare as compare
    from sherd.secure.party import PartySettings as PartySettings
    from sherd.secure.party import take_part as take_part
    from sherd.tables.infer import schema as schema
    from sherd.tables.schema import Schema as Schema
    from sherd.verifying.verification import verify as verify

__version__ = "0.1.0"

# What `import sherd` offers, imported when it is first asked for, so that the command line's
# help does not wait for Arrow.
_PUBLIC = {
    "AggregatorHome": "sherd.federation.aggregator.aggregator_home",
    "Amount": "sherd.budget.amount",
    "Ledger": "sherd.budget.ledger",
    "OwnerHome": "sherd.federation.owner.owner_home",
    "PartySettings": "sherd.secure.party",
    "Plan": "sherd.release.plan",
    "Release": "sherd.release.bundle",
    "Schema": "sherd.tables.schema",
    "Settings": "sherd.release.protect",
    "SherdError": "sherd.errors",
    "audit": "sherd.report.reporting",
    "compare": "sherd.report.reporting",
    "fetch": "sherd.federation.wire.fetching",
    "fragment": "sherd.methods.fragmenting.fragment_table",
    "log_in": "sherd.federation.wire.browser_login",
    "make_key": "sherd.release.signature",
    "protect": "sherd.release.protect",
    "protect_to": "sherd.release.protect",
    "query": "sherd.release.query_release",
    "read": "sherd.datasets.sources",
    "schema": "sherd.tables.infer",
    "sign": "sherd.release.signature",
    "take_part": "sherd.secure.party",
    "tune": "sherd.release.tune",
    "verify": "sherd.verifying.verification",
}

_PACKAGES = ("datasets", "methods")
"""Packages that are attributes too."""

if not TYPE_CHECKING:  # a type checker takes the imports above for it
    __all__ = list(_PUBLIC) + list(_PACKAGES)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"sherd.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'sherd' has no attribute '{name}'")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC, *_PACKAGES})
