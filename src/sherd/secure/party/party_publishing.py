"""From a journal and an engine to the release on disk.

What is released depends on the opened results alone, which all parties know: with all of them a
party makes the release without anybody's help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from sherd.methods.specialising.partition import Partition
    from sherd.methods.specialising.secure_leaf_counts import PartyCells
    from sherd.release.bundle import Release
    from sherd.secure.engine.interface import JointEngine
    from sherd.secure.party.party_settings import PartySettings
    from sherd.secure.party.run_budget import RunBudget
    from sherd.secure.party.run_journal import RunJournal, RunWords


def replay(settings: PartySettings, journal: RunJournal) -> Partition | None:
    """The partition that a journal leads to, None where it is not complete."""
    import numpy as np

    from sherd.secure.engine.shapes import NotKnownError, Shapes
    from sherd.secure.party.journaled_engine import JournaledEngine

    # With every result known, neither cells nor classes are asked for, only their number.
    classes = np.zeros(int(journal.statement["records"]), np.int64)
    engine = JournaledEngine(Shapes(len(settings.peers)), journal)
    try:
        return partition_of(settings, engine, {}, classes)
    except NotKnownError:
        return None


def partition_of(
    settings: PartySettings,
    engine: JointEngine,
    cells: Mapping[int, PartyCells],
    classes: NDArray[np.int64],
    masks: RunWords | None = None,
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> Partition:
    """The partition of these cells; ``masks`` are this party's own words."""
    from sherd.methods.specialising.arbdistdp import agreement
    from sherd.methods.specialising.diffgen import settings as chosen
    from sherd.methods.specialising.joint_specialisation import release

    plan, schema = settings.plan, settings.schema
    agreed = agreement(plan, chosen(plan, schema), len(classes))

    def own_words(_party: int, n: int) -> NDArray[np.uint64]:
        assert masks is not None
        return masks.words(n)

    return release(engine, cells, classes, agreed, masks=own_words, progress=progress)


def publish(
    settings: PartySettings, journal: RunJournal, partition: Partition, budget: RunBudget
) -> Release:
    """Write the release, and set the journal aside."""
    from sherd.methods.specialising.diffgen import facts
    from sherd.release.bundle import Release
    from sherd.release.manifest import manifest_of
    from sherd.release.protect import Settings
    from sherd.secure.engine.spu_engine import PROTOCOLS

    plan, schema = settings.plan, settings.schema
    n = int(journal.statement["records"])
    charged = budget.charge_of(journal.run)
    manifest = manifest_of(schema, plan, plan.guarantee(schema), Settings(), charged)
    opened = [{"what": one.what, "numbers": len(one.values)} for one in journal.entries]
    release = Release(
        tables={"data": partition.weighted(), "records": partition.expanded(n)},
        manifest={
            **manifest,
            "facts": {
                **facts(partition, schema, plan, n),
                "parties": settings.names,
                "computing": settings.names[: settings.hosts],
                "protocol": "MPyC" if settings.engine == "mpyc" else PROTOCOLS[settings.hosts],
                "linkage": str(settings.linkage),
                "run": journal.run,
                "opened": opened,
            },
        },
    )
    if not settings.output.exists():
        release.stage(settings.output).publish()
    if journal.path == settings.journal:
        journal.finish()
    return release
