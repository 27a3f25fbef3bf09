"""Which rows of the parties belong to one record: by pseudonyms, without showing identifiers.

The pseudonyms are those of ``federation.protocol.linkage``. There is no aggregator: a batch
of blinded identifiers goes round all parties, each raises it by its key, and its origin removes
the blind. Then every party shows its sorted pseudonyms to all others; those that all have are the
records, in the order of their pseudonyms. So each party learns which of its own people each other
party has, and how many that one has in all, and nothing of anybody it does not have itself.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from sherd.errors import TableError, UsageError
from sherd.federation.protocol.linkage import (
    POINT,
    Secret,
    check_pseudonyms,
    intersection,
    keyed_pseudonyms,
)
from sherd.secure.party.party_settings import RecordLinkage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sherd.secure.party.channel import Channel
    from sherd.secure.party.party_rows import Input
    from sherd.secure.party.party_settings import PartySettings


def link(
    channel: Channel, settings: PartySettings, given: Input, rows: Mapping[int, int], terms: str
) -> tuple[Input, str]:
    """The rows whose people all parties have, and a hash of who they are.

    ``rows`` is how many each party has, ``terms`` the hash of what all agree on.
    """
    import numpy as np

    if settings.linkage is RecordLinkage.KNOWN:
        return given, given.ids_hash
    if settings.linkage is RecordLinkage.HMAC:
        assert settings.linkage_key is not None
        names = keyed_pseudonyms(_shared(settings.linkage_key), terms, given.identifiers)
    else:
        names = _go_round(channel, settings, given, rows, terms)
    sizes = {place: POINT * count for place, count in rows.items()}
    lists = channel.exchange_bytes(b"".join(sorted(names)), sizes)
    for place, batch in lists.items():
        check_pseudonyms(batch, rows[place])
    common = intersection(list(lists.values()))
    if not common:
        raise TableError(
            "the parties have no record in common",
            must="ids written alike at all parties",
            do="compare how the parties write them",
        )
    place_of = {name: place for place, name in enumerate(names)}
    wanted = [place_of[common[i : i + POINT]] for i in range(0, len(common), POINT)]
    return given.take(np.array(wanted, np.int64)), hashlib.sha256(common).hexdigest()


def _go_round(
    channel: Channel, settings: PartySettings, given: Input, rows: Mapping[int, int], terms: str
) -> list[bytes]:
    """All parties' batches at once, each one party further in every step."""
    # Made of the party's own key, so that a run that is started again makes the same pseudonyms.
    seed = hmac.digest(settings.key.read_bytes(), b"sherd-party-linkage-1", "sha512")
    secret, parties, rank = Secret(seed, terms), len(settings.peers), settings.rank
    batch = secret.blind(given.identifiers)
    for step in range(1, parties + 1):
        origin = (rank - step) % parties
        size = POINT * rows[origin]
        batch = channel.pass_bytes((rank + 1) % parties, batch, (rank - 1) % parties, size)
        if origin != rank:
            batch = secret.raise_batch(batch)
    return secret.finish(batch)


def _shared(path: Path) -> bytes:
    key = path.read_bytes() if path.is_file() else b""
    if len(key) < 32:
        raise UsageError(
            "the linkage by HMAC needs the key all parties share",
            must="at least 32 bytes, the same at all parties",
            got=str(path),
        )
    return key
