"""From a journal and an engine to the release on disk.

What is released depends on the opened results alone, which all parties know: with all of them a
party makes the release without anybody's help.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sherd.methods.specialising.partition import Partition
    from sherd.release.bundle import Release
    from sherd.secure.party.account import Account
    from sherd.secure.party.party_settings import PartySettings
    from sherd.secure.party.run_journal import Journal


def replay(settings: PartySettings, journal: Journal) -> Partition | None:
    """The partition that a journal leads to, None where it is not complete."""
    import numpy as np

    from sherd.secure.engine.shapes import NotKnownError, Shapes

    # With every result known, neither cells nor classes are asked for, only their number.
    classes = np.zeros(int(journal.statement["records"]), np.int64)
    try:
        return partition_of(settings, Shapes(len(settings.peers)), journal, {}, classes)
    except NotKnownError:
        return None


def partition_of(
    settings: PartySettings,
    engine: Any,
    journal: Journal,
    cells: Mapping[int, Any],
    classes: Any,
    tell: Callable[[str, tuple[int, ...]], None] = lambda _what, _values: None,
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> Partition:
    """The partition of these cells; ``tell`` is told every result that is new."""
    from sherd.methods.specialising.arbdistdp import agreement
    from sherd.methods.specialising.diffgen import settings as chosen
    from sherd.methods.specialising.joint_specialisation import release
    from sherd.secure.party.run_journal import Resumed

    plan, schema = settings.plan, settings.schema
    agreed = agreement(plan, chosen(plan, schema), len(classes))
    resumed: Any = Resumed(engine, journal, tell)

    def masks(party: int, n: int) -> NDArray[np.uint64]:
        codes = [column.tobytes() for column in cells[party].codes]
        return own_masks(settings.key.read_bytes(), journal.run, codes, n)

    return release(resumed, cells, classes, agreed, masks=masks, progress=progress)


def own_masks(key: bytes, run: str, codes: Sequence[bytes], n: int) -> NDArray[np.uint64]:
    """Words that only the holder of the key knows, the same for a run that is started again.

    They depend on the party's cells, too: with other cells, nothing is masked by the same words.
    """
    import numpy as np

    seed = hmac.new(key, b"sherd-party-masks-1" + run.encode(), "sha512")
    for one in codes:
        seed.update(hashlib.sha512(one).digest())
    return np.frombuffer(hashlib.shake_256(seed.digest()).digest(8 * n), "<u8").astype(np.uint64)


def publish(
    settings: PartySettings, journal: Journal, partition: Partition, account: Account
) -> Release:
    """Write the release, and set the journal aside."""
    from sherd.methods.specialising.diffgen import facts
    from sherd.release.bundle import Release
    from sherd.release.protect import Settings, manifest_of
    from sherd.secure.engine.spu_engine import PROTOCOLS

    plan, schema = settings.plan, settings.schema
    n = int(journal.statement["records"])
    manifest = manifest_of(schema, plan, plan.guarantee(schema), Settings(), None)
    opened = [{"what": what, "numbers": len(values)} for what, values in journal.entries]
    release = Release(
        tables={"data": partition.weighted(), "records": partition.expanded(n)},
        manifest={
            **manifest,
            "facts": {
                **facts(partition, schema, plan, n),
                "parties": settings.names,
                "computing": settings.names[: settings.hosts],
                "protocol": PROTOCOLS[settings.hosts],
                "linkage": str(settings.linkage),
                "run": journal.run,
                "opened": opened,
            },
            "budget": account.as_data(),
        },
    )
    if not settings.output.exists():
        release.stage(settings.output).publish()
    if journal.path == settings.journal:
        journal.finish()
    return release
