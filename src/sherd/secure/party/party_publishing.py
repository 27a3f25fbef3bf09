"""From a journal and an engine to the release on disk.

What is released depends on the opened results alone, which all parties know: with all of them a
party makes the release without anybody's help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.secure.party.party_programs import SharedWork, program_of

if TYPE_CHECKING:
    from sherd.release.bundle import Release
    from sherd.secure.party.party_settings import PartySettings
    from sherd.secure.party.run_budget import RunBudget
    from sherd.secure.party.run_journal import RunJournal


def replay(settings: PartySettings, journal: RunJournal) -> Any:
    """The result that a journal leads to, None where it is not complete."""
    import numpy as np

    from sherd.secure.engine.shapes import NotKnownError, Shapes
    from sherd.secure.party.journaled_engine import JournaledEngine

    # With every result known, neither cells nor classes are asked for, only their number.
    classes = np.zeros(int(journal.statement["records"]), np.int64)
    engine = JournaledEngine(Shapes(len(settings.peers)), journal)
    program = program_of(settings.plan)
    try:
        return program.compute(
            settings, SharedWork(journal=journal, engine=engine, cells={}, classes=classes)
        )
    except NotKnownError:
        return None


def publish(
    settings: PartySettings, journal: RunJournal, result: Any, budget: RunBudget
) -> Release:
    """Write the release, and set the journal aside."""
    from sherd.release.bundle import Release
    from sherd.release.manifest import manifest_of
    from sherd.release.protect import Settings
    from sherd.secure.engine.spu_engine import PROTOCOLS

    plan, schema = settings.plan, settings.schema
    charged = budget.charge_of(journal.run)
    manifest = manifest_of(schema, plan, plan.guarantee(schema), Settings(), charged)
    opened = [{"what": one.what, "numbers": len(one.values)} for one in journal.entries]
    outcome = program_of(plan).outcome(settings, journal, result)
    release = Release(
        tables=outcome.tables,
        manifest={
            **manifest,
            "facts": {
                **outcome.facts,
                "parties": settings.names,
                "computing": settings.names[: settings.hosts],
                "protocol": "MPyC" if settings.engine == "mpyc" else PROTOCOLS[settings.hosts],
                "linkage": str(settings.linkage),
                "run": journal.run,
                "opened": opened,
            },
        },
        documents=outcome.documents,
    )
    if not settings.output.exists():
        release.stage(settings.output).publish()
    if journal.path == settings.journal:
        journal.finish()
    return release
