"""The owner's outbox: protected artefacts that are paid for, and found again to be sent.

An artefact is a release bundle as ``protect`` writes it, in a folder named after the plan.
The ledger charges a plan once and knows where its artefact is, so that whatever happens
afterwards sends the same bytes.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.budget.amount import Amount
from sherd.errors import BudgetError, StorageError, VerificationError
from sherd.federation.owner import owner_linking as linking
from sherd.federation.owner.owner_table import table_hash
from sherd.federation.protocol.messages import Attachment, Delivery, part_text
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OWNER_ENDS
from sherd.federation.protocol.summing import derive_key
from sherd.federation.wire.chunks import describe_file
from sherd.federation.wire.failpoints import reach
from sherd.tables.coded_columns import FORM as CODED
from sherd.values import digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sherd.budget.entries import Account
    from sherd.budget.ledger import Ledger
    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.owner.owner_journal import OwnerJournal
    from sherd.federation.owner.policy import Policy
    from sherd.federation.protocol.owner_machine import Owner
    from sherd.federation.wire.client import Client

SUFFIX = ".arrows"


def recover(ledger: Ledger) -> list[Path]:
    """Put what a dead agent paid for and did not put in its place there."""
    from sherd.release.bundle import MANIFEST
    from sherd.release.bundle import digest as file_digest

    return ledger.recover(lambda folder: file_digest(folder / MANIFEST))


def sweep(home: OwnerHome, ledger: Ledger) -> None:
    """Throw away what a dead agent had half done and not paid for; only for the one agent."""
    for staged in home.outbox.glob(".*.staged-*"):
        if ledger.charge_of(staged.name[1:].partition(".")[0]) is None:
            shutil.rmtree(staged, ignore_errors=True)
    for fetched in home.releases.glob(".*"):
        shutil.rmtree(fetched, ignore_errors=True)
    for bulk in home.bulk.glob(".*"):
        bulk.unlink(missing_ok=True)


def occasion_hash(machine: Owner) -> str:
    """What the ledger knows a delivery by: the joint plan, at this owner, of this table.

    A round that repeats one without a release is the same occasion: its artefact is there
    already, and sending it again costs nothing.
    """
    data = machine.data
    plan = data.agreed
    if data.table is None:  # begun by an earlier version
        return digest(["sherd-occasion-1", plan.hash, data.owner])
    common = "" if data.common is None else data.common.sha256
    return digest(["sherd-occasion-2", plan.tag, data.owner, data.table, common])


def noise_key(home: OwnerHome, machine: Owner, table: pa.Table) -> bytes:
    """The key of a release's noise: from the home's secret, the occasion and the very table.

    A restored home makes the same bytes again; another plan or another table has noise that nobody
    can relate to this one's (ADR 0014).
    """
    about = b"sherd-noise-1" + bytes.fromhex(occasion_hash(machine)) + table_hash(table)
    return derive_key(home.seed, about)


def folder_of(home: OwnerHome, machine: Owner) -> Path:
    """Where a plan's artefact lies."""
    return home.outbox / occasion_hash(machine)


def made(home: OwnerHome, ledger: Ledger, machine: Owner) -> bool:
    """Whether the plan's artefact is there."""
    folder = folder_of(home, machine)
    charge = ledger.charge_of(occasion_hash(machine))
    if charge is None:
        plan = machine.data.agreed
        return folder.exists() and plan.share(machine.data.owner).epsilon is None
    if not folder.exists():
        recover(ledger)  # paid for, and then there was no room to put it in its place
    if not folder.exists():
        raise StorageError(
            "an artefact that was paid for is not in the outbox",
            got=str(folder),
            do="restore the folder from a backup; it will not be made or charged again",
        )
    return True


def deliver(
    home: OwnerHome, ledger: Ledger, machine: Owner, client: Client, *, is_made: bool
) -> tuple[Delivery, dict[str, Path]]:
    """Protect (once) and describe what is to be delivered."""
    fresh = False
    if not is_made:
        try:
            _protect(home, ledger, machine, client)
            fresh = True
        except BudgetError:
            # Another process of ours may have been faster with this very plan.
            if not made(home, ledger, machine):
                raise
    reach("owner.charged")
    return _describe(home, ledger, machine, fresh=fresh)


def _protect(home: OwnerHome, ledger: Ledger, machine: Owner, client: Client) -> None:
    from sherd.randomness import Randomness
    from sherd.release.charging import Occasion
    from sherd.release.protect import Settings, protect_to
    from sherd.tables.prepare import Prepared

    data = machine.data
    plan = data.agreed
    joins = plan.terms.kind.joins

    def read() -> Prepared:
        loaded = linking.load(home, machine)
        if not joins:
            return Prepared(table=loaded.table, kept=None)
        assert data.common is not None
        common = linking.fetch(client, data.round, data.common)
        people = loaded.arranged(linking.pseudonyms(home, machine, loaded), common)
        return Prepared(table=people, kept=None)

    opened = plan.terms.opened

    protect_to(
        folder_of(home, machine),
        read,
        plan.schema(data.owner),
        plan.local(data.owner),
        ledger=ledger,
        population=home.settings.population,
        # Columns that are joined have rows in the order of the pseudonyms; the aggregator
        # shuffles them after the join.
        settings=Settings(
            keep_order=joins,
            randomness=lambda table: Randomness.keyed(noise_key(home, machine, table)),
        ),
        format=CODED if plan.coded else SUFFIX.removeprefix("."),
        before_publishing=lambda _release: reach("owner.staged"),
        occasion=Occasion(
            hash=occasion_hash(machine),
            note=f"round {data.round}",
            time=None if opened is None else datetime.fromtimestamp(opened, UTC),
        ),
    )


def _describe(
    home: OwnerHome, ledger: Ledger, machine: Owner, *, fresh: bool = False
) -> tuple[Delivery, dict[str, Path]]:
    """What is to be delivered; files that were ``fresh``ly written are not hashed once more."""
    from sherd.release.bundle import MANIFEST, read_manifest
    from sherd.release.bundle import digest as file_digest

    folder = folder_of(home, machine)
    artefact = file_digest(folder / MANIFEST)
    manifest = read_manifest(folder)
    charge = ledger.charge_of(occasion_hash(machine))
    if charge is not None and charge.artefact != artefact:
        raise VerificationError("the artefact in the outbox is not the one that was paid for")
    paths = {name: folder / name for name in manifest["files"] if name.endswith(SUFFIX)}
    files: dict[str, Attachment] = {}
    for name, path in paths.items():
        paid = manifest["files"][name]["sha256"]
        files[name] = describe_file(path, sha256=paid if fresh else None)
        if files[name].sha256 != paid:
            raise VerificationError("a file in the outbox is not the one that was paid for")
    _, head = ledger.head()
    write_witness(home, head)
    versions = {name: str(text) for name, text in manifest["versions"].items()}
    delivery = Delivery(
        artefact=artefact,
        files=files,
        rows=max(manifest["files"][name]["rows"] for name in paths),
        facts=dict(manifest["facts"]),
        head=head,
        versions=versions,
        signature=sign_part(home, machine, artefact=artefact, head=head, versions=versions),
    )
    return delivery, paths


def sign_part(
    home: OwnerHome, machine: Owner, *, artefact: str, head: str, versions: Mapping[str, str]
) -> str | None:
    """Our signature of what the release's manifest will say of us; None if the plan asks none."""
    plan, owner = machine.data.agreed, machine.data.owner
    if not plan.terms.signed_release:
        return None
    return home.key.sign(
        part_text(plan_hash=plan.hash, owner=owner, artefact=artefact, head=head, versions=versions)
    )


def objection(home: OwnerHome, ledger: Ledger, machine: Owner) -> tuple[Reason, str] | None:
    """Whether the ledger is the one the aggregator saw last, and has enough left."""
    plan = machine.data.agreed
    head, witness = machine.data.head, read_witness(home)
    population = home.settings.population
    known = [each for each in (head, witness) if each and not home.is_superseded(each)]
    account, held = ledger.standing(population, *known)
    if not held:
        whose = "a row that was delivered before, or that its witness has"
        return Reason.ROLLED_BACK, f"the ledger does not hold {whose}"
    epsilon = plan.share(machine.data.owner).epsilon
    if epsilon is None:
        return None
    limit = apply_lifetime(ledger, account, home.policy)
    if (account.spent + account.reserved + Amount(epsilon)) > limit:
        left = limit.less(account.spent + account.reserved)
        return Reason.BUDGET, f"{left} of epsilon is left of {limit}"
    return None


def repetition_objection(journal: OwnerJournal, machine: Owner) -> tuple[Reason, str] | None:
    """Why a round does not repeat one of ours that ended without a release; None if it does."""
    plan = machine.data.agreed
    if plan.terms.repeats is None:
        return None
    same = [data for data in journal.rounds(all=True) if data.plan and data.plan.tag == plan.tag]
    first = [data for data in same if data.plan and data.plan.hash == plan.terms.repeats]
    if not first or first[0].plan is None or first[0].plan.substance != plan.substance:
        return Reason.PLAN_CHANGED, "the round says that it repeats one that we do not know so"
    others = [data for data in same if data.round != machine.data.round]
    if any(data.manifest or data.state not in OWNER_ENDS for data in others):
        return Reason.PLAN_CHANGED, "the round that it says to repeat has a release, or goes on"
    return None


def book_loss(home: OwnerHome, ledger: Ledger, machine: Owner) -> None:
    """Write into the ledger, once, that what was spent on a round brought no release, and why.

    It costs nothing more: an entry beside the charge, for readers of the ledger alone.
    """
    data = machine.data
    plan = data.plan
    if plan is None or data.manifest is not None or not (machine.ended and machine.spent):
        return
    paid = ledger.charge_of(occasion_hash(machine))
    occasion = digest(["sherd-loss-1", plan.hash, data.owner])
    if paid is None or ledger.charge_of(occasion) is not None:
        return
    words = "the round ended" if data.reason is None else data.reason.words
    why = "; ".join((words, *data.details))
    why = "".join(c if c.isprintable() else " " for c in why)
    with ledger.reserving(
        measure="none",
        population=home.settings.population,
        amount=Amount.zero(),
        plan_hash=occasion,
        schema_hash=plan.share(data.owner).schema_hash,
        method=plan.terms.method,
        note=f"round {data.round}: spent, nothing released: {why}"[:500],
    ) as reservation:
        ledger.charge(reservation, artefact_sha256=data.artefact or plan.hash, once=True)


def apply_lifetime(ledger: Ledger, account: Account, policy: Policy) -> Amount:
    """The most the population may ever spend: the policy's limit, or a lower one in force."""
    most = Amount(policy.lifetime_epsilon)
    limit = account.limit
    if limit is None or most < limit:
        ledger.set_limit(account.population, most)
        return most
    return limit


def read_witness(home: OwnerHome) -> str | None:
    """The ledger head that is kept elsewhere, if one is."""
    place = home.settings.witness
    if place is None or not Path(place).exists():
        return None
    return Path(place).read_text(encoding="ascii").strip() or None


def write_witness(home: OwnerHome, head: str) -> None:
    """Keep the ledger head elsewhere, if the owner wants to."""
    from sherd.tables.files import write_whole

    if home.settings.witness is not None:
        write_whole(Path(home.settings.witness), (head + "\n").encode())
