"""What is signed of a joint release: each owner's part when it delivers, and the release itself.

The plan, which every owner signed, names the aggregator's key and says that the release is signed.
So whoever changes a released manifest and works its hashes out again needs the aggregator's key,
and whoever changes what it says of an owner needs that owner's. An owner that has looked at the
release signs its manifest besides; without that the aggregator alone vouches for the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.values import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping


def part_text(
    *, plan_hash: str, owner: str, artefact: str, head: str, versions: Mapping[str, str]
) -> bytes:
    """What an owner signs when it delivers: its artefact under this plan, and its ledger's head."""
    return b"sherd-part-1\0" + canonical([plan_hash, owner, artefact, head, dict(versions)])


def countersigned_text(*, plan_hash: str, owner: str, manifest: str) -> bytes:
    """What an owner signs when its part is in the release: the hash of the release's manifest."""
    return b"sherd-countersigned-1\0" + canonical([plan_hash, owner, manifest])
