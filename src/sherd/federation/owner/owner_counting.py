"""The owner's part in a round of sums: check a question, charge once, count, mask.

The first answer is charged with the whole of what the plan costs; each later one has a row of
its own in the ledger, of amount 0. Both are written before the answer leaves and name the very
question, so that an exchange is answered for one question only, in this round and in one that
repeats it, and a ledger that lost such a row is seen to be an old one. Noise comes from the
home's secret, the occasion, the table and the question (ADR 0014): an agent that dies after
paying makes the same answer again.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from sherd.budget.amount import Amount
from sherd.errors import BudgetError, PlanError
from sherd.federation.owner import outbox
from sherd.federation.owner import owner_linking as linking
from sherd.federation.protocol.messages import Masked
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.summing import (
    about,
    among,
    derive_key,
    mask_keys,
    masked,
    method_of,
    read_question,
)
from sherd.federation.wire.failpoints import reach
from sherd.values import digest

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.budget.ledger import Ledger
    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.protocol.messages import Ask
    from sherd.federation.protocol.owner_machine import Owner
    from sherd.federation.wire.client import Client


def answer(
    home: OwnerHome, ledger: Ledger, machine: Owner, client: Client
) -> tuple[Masked, dict[str, Path]]:
    """The answer to the question that waits, paid for, and where its bytes lie."""
    data = machine.data
    ask = waiting(machine)
    question = _checked(machine, client)
    paid = ledger.charge_of(_occasion(machine, ask))
    if paid is not None and paid.artefact != ask.attachment.sha256:
        raise Reason.PLAN_CHANGED.error("this answer belongs to another question")
    reach("owner.protecting")
    numbers = _counted(home, ledger, machine, question)
    reach("owner.charged")
    raw = masked(
        numbers,
        home.seed,
        data.owner,
        mask_keys(data.agreed),
        about(data.agreed, ask.exchange, ask.attachment.sha256),
    )
    made = linking.write_bulk(home, raw, len(numbers))
    linking.note_bulk(home, data.round)
    _, head = ledger.head()
    outbox.write_witness(home, head)
    artefact, versions = (data.questions or ())[0].attachment.sha256, _versions()
    body = Masked(
        exchange=ask.exchange,
        attachment=made.attachment,
        artefact=artefact,
        head=head,
        versions=versions,
        signature=outbox.sign_part(home, machine, artefact=artefact, head=head, versions=versions),
    )
    return body, {"attachment": made.path}


def waiting(machine: Owner) -> Ask:
    """The question that waits for an answer."""
    return (machine.data.questions or ())[machine.data.answered or 0]


def _checked(machine: Owner, client: Client) -> dict[str, Any]:
    """The question, once it is known to be one that the plan pays for, with those before it."""
    data = machine.data
    plan = data.agreed
    raws = [linking.fetch(client, data.round, one.attachment) for one in data.questions or ()]
    try:
        questions = [read_question(raw) for raw in raws]
        method_of(plan).price(plan.local(data.owner), plan.schema(data.owner), questions)
    except PlanError as error:
        raise Reason.PLAN_UNSOUND.error(error.what) from None
    return questions[-1]


def _occasion(machine: Owner, ask: Ask) -> str:
    """What the ledger knows an answer by: the round's occasion, and which question it was."""
    occasion = outbox.occasion_hash(machine)
    return occasion if ask.exchange == 1 else digest(["sherd-answer-1", occasion, ask.exchange])


def _counted(home: OwnerHome, ledger: Ledger, machine: Owner, question: dict[str, Any]) -> Any:
    """Our numbers with our part of the noise; charged when this returns."""
    from sherd.randomness import Randomness
    from sherd.release.charging import looking

    data, ask = machine.data, waiting(machine)
    plan = data.agreed
    schema, local = plan.schema(data.owner), plan.local(data.owner)

    def count() -> Any:
        table = linking.load(home, machine).table
        own = outbox.noise_key(home, machine, table)
        key = derive_key(own, f"sherd-answer-1\n{ask.exchange}\n{ask.attachment.sha256}".encode())
        source = Randomness.keyed(key)
        return method_of(plan).own_numbers(table, schema, local, among(plan), question, source)

    occasion = _occasion(machine, ask)
    if ledger.charge_of(occasion) is not None:
        return count()
    with _reserved(home, ledger, machine) as reservation:
        with looking(ledger, reservation):
            numbers = count()
        reach("owner.staged")
        try:
            ledger.charge(reservation, artefact_sha256=ask.attachment.sha256, once=True)
        except BudgetError:
            # Another process of ours may have been faster with this very question.
            paid = ledger.charge_of(occasion)
            if paid is None or paid.artefact != ask.attachment.sha256:
                raise
    return numbers


def _reserved(home: OwnerHome, ledger: Ledger, machine: Owner) -> Any:
    """Hold what an answer costs: the plan's whole cost for the first, nothing for others."""
    from sherd.release.charging import Occasion, reserved

    data, ask = machine.data, waiting(machine)
    plan = data.agreed
    schema, local = plan.schema(data.owner), plan.local(data.owner)
    occasion, population = _occasion(machine, ask), home.settings.population
    if ask.exchange == 1:
        note = f"round {data.round}"
        return reserved(ledger, local, schema, population, Occasion(hash=occasion, note=note))
    return ledger.reserving(
        measure="none",
        population=population,
        amount=Amount.zero(),
        plan_hash=occasion,
        schema_hash=schema.hash,
        method=local.method,
        note=f"round {data.round}, answer {ask.exchange}",
    )


def _versions() -> dict[str, str]:
    import numpy as np
    import pyarrow as pa

    from sherd import __version__

    return {
        "sherd": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pyarrow": pa.__version__,
    }
