"""Protect: plan, ledger, table and method composed into a release. Everybody calls this.

The order of events is fixed: the guarantee is computed from plan and schema; the ledger
reserves the amount; only then is data read; the method runs; the bundle is staged and synced;
one transaction turns the reservation into a charge with the artefact's hash; a rename
publishes. A run that fails before the charge frees the reservation and leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sherd.budget.sealed_folder import new_key
from sherd.engines import Engine, InMemory
from sherd.engines.spark_stages import is_spark_frame
from sherd.errors import PlanError, UsageError
from sherd.extras import check_extras
from sherd.release.bundle import Release, Staged, check_format, check_target
from sherd.release.charging import (
    Occasion,
    check_alone,
    chosen_ledger,
    cost_of,
    looking,
    population_of,
    reserved,
)
from sherd.release.manifest import manifest_of
from sherd.release.method import Finding, FollowsReleases, Lineage, PrivateRecord, Run
from sherd.release.private_files import check_cell_key
from sherd.release.staging import hidden_beside
from sherd.release.table_source import (
    CountedTable,
    counted_where_it_is,
    released,
    run_on_counts,
)
from sherd.release.watching import watched
from sherd.tables.coded_columns import FORM as CODED

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from sherd.budget.amount import Amount
    from sherd.budget.entries import Reservation
    from sherd.budget.ledger import Ledger
    from sherd.guarantees import Guarantee
    from sherd.randomness import Randomness
    from sherd.release.plan import Plan
    from sherd.release.private_files import CellKey
    from sherd.tables.prepare import Prepared
    from sherd.tables.schema import Schema

Progress = Callable[[str, int, int], None]

PAID = "the release was paid for already; the next run with the same ledger puts it into its place"
"""What an error is told that comes between the charge and the end."""


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a run is carried out; none of it changes what is promised, but for the stamps.

    ``seed`` makes a release reproducible and takes its guarantee away; ``keep_order`` keeps
    the rows in the order they came and makes it unfit for publication. ``key`` is the
    attribute that names tuples over time: with it, the release has a private ``record``, and
    ``past`` is the record of the release that this one follows. ``engine`` is where the heavy
    work runs (see ``sherd.engines``); the release is the same on each. ``randomness`` gives
    the source for the table that was read, where it is not the operating system's: a keyed
    one, so that the same occasion comes out the same again. ``again`` allows another release of
    a population whose promise takes for granted that there is none (see ``check_alone``).
    ``cell_key`` is the owner's key for what a plan releases as ciphertext.
    """

    seed: int | None = None
    keep_order: bool = False
    threads: int | None = None
    progress: Progress | None = None
    key: str | None = None
    past: PrivateRecord | None = field(default=None, repr=False)
    engine: Engine = field(default_factory=InMemory)
    randomness: Callable[[pa.Table], Randomness] | None = field(default=None, repr=False)
    again: bool = False
    cell_key: CellKey | None = field(default=None, repr=False)

    def run(self, table: pa.Table | None) -> Run:
        """What the method is given to protect this table."""
        from sherd.randomness import Randomness

        if self.seed is not None:
            source = Randomness.seeded(self.seed)
        elif self.randomness is not None and table is not None:
            source = self.randomness(table)
        else:
            source = Randomness.from_system()
        extra: dict[str, Any] = {} if self.progress is None else {"progress": self.progress}
        return Run(
            randomness=source,
            threads=self.threads or cores(),
            shuffle=not self.keep_order,
            engine=self.engine,
            cell_key=self.cell_key,
            **extra,
        )


def protect(
    table: Any,
    schema: Schema,
    plan: Plan,
    *,
    ledger: Ledger | Literal["default"] | None = "default",
    population: str | None = None,
    settings: Settings | None = None,
) -> Release:
    """Protect a table (pandas, polars or pyarrow); the release's ``table`` is of the same kind.

    A Spark DataFrame is protected on its cluster: the release is then a ``DistributedRelease``.
    Methods that need nothing but counts leave it, and a table in a database whose address is
    given, where it is.
    The release is charged to the population in the ledger that ``SHERD_LEDGER`` or the default
    names, as on the command line, or in the one given. ``ledger=None`` keeps none.
    """
    from sherd.tables.frames import to_arrow

    settings = settings or Settings()
    promised = _promise(plan, schema, settings)
    elsewhere = counted_where_it_is(table, plan)
    if elsewhere is None and is_spark_frame(table):
        from sherd.release.distributed_release import protect_distributed

        return protect_distributed(
            table, schema, plan, promised, settings, ledger=ledger, population=population
        )
    book = chosen_ledger(ledger, population)
    with reserved(book, plan, schema, population) as reservation:
        _check_alone(book, promised, plan, reservation, settings)
        with looking(book, reservation):
            taken = elsewhere or to_arrow(table, lenient=is_strict(plan), declared=True)
            release = _make(taken, schema, plan, promised, settings, reservation)
        release = _told(release, schema, population)
        if book is not None and reservation is not None:
            book.charge(
                reservation,
                artefact_sha256=_fingerprint(release.tables),
                cost=cost_of(release, schema, reservation),
            )
    return release if elsewhere is not None else replace(release, original=table)


def _told(release: Release, schema: Schema, population: str | None) -> Release:
    """The release with a finding where the caller's population is not the schema's."""
    from sherd.budget.population_name import same

    if population is None or schema.population is None or same(population, schema.population):
        return release
    finding = Finding(
        name="population",
        value=population_of(schema, population),
        meaning=f"WARNING: charged instead of '{schema.population}', which the schema names",
    )
    return replace(release, findings=(finding, *release.findings))


def protect_to(
    folder: str | Path,
    read: Callable[[], pa.Table | Prepared | CountedTable | Iterator[pa.Table]],
    schema: Schema,
    plan: Plan,
    *,
    ledger: Ledger | Literal["default"] | None = "default",
    population: str | None = None,
    settings: Settings | None = None,
    format: str = "parquet",  # noqa: A002 - what everybody calls it
    force: bool = False,
    spreadsheet_safe: bool = False,
    before_publishing: Callable[[Release], None] = lambda _release: None,
    occasion: Occasion | None = None,
) -> Release:
    """Protect what ``read`` returns and write the bundle, whole or not at all.

    ``read`` gives a table, or its blocks one after the other where an engine takes them.
    A table that was prepared already is not prepared again, and one that is counted where it is
    (``CountedTable``) is not read at all.
    """
    settings = settings or Settings()
    _check_engine(plan, settings)
    check_format(format, spreadsheet_safe=spreadsheet_safe)
    check_target(Path(folder), force=force)
    promised = _promise(plan, schema, settings)
    book, hidden = chosen_ledger(ledger, population), hidden_beside(Path(folder))
    with reserved(book, plan, schema, population, occasion, hidden) as reservation:
        if occasion is None:
            _check_alone(book, promised, plan, reservation, settings)
        with looking(book, reservation):
            taken, coded = settings.engine.take_in(read), format == CODED
            release = _make(taken, schema, plan, promised, settings, reservation, coded=coded)
        release = _told(release, schema, population)
        if occasion is not None and occasion.time is not None:
            stated = {"created": occasion.time.isoformat(timespec="seconds")}
            release = replace(release, manifest={**release.manifest, **stated})
        staged = release.stage(
            folder,
            format=format,
            force=force,
            spreadsheet_safe=spreadsheet_safe,
            key=None if reservation is None else new_key(),
            hidden=hidden,
        )
        if release.record is not None:
            release = replace(release, record=release.record.belonging_to(staged.artefact))
        try:
            before_publishing(release)
            cost = None if reservation is None else cost_of(release, schema, reservation)
            _publish(staged, book, reservation, once=occasion is not None, cost=cost)
        except BaseException as error:
            # After the charge the staged bundle is what was paid for: it stays, and the
            # ledger knows where it is.
            if book is None or reservation is None or not book.is_charged(reservation):
                staged.discard()
            else:
                error.add_note(PAID)
            raise
    return release


def _check_alone(
    ledger: Ledger | None,
    guarantee: Guarantee,
    plan: Plan,
    reservation: Reservation | None,
    settings: Settings,
) -> None:
    """A seeded release promises nothing that another could break."""
    if ledger is None or reservation is None or settings.again or settings.seed is not None:
        return
    check_alone(ledger, guarantee, plan, reservation)


def _check_engine(plan: Plan, settings: Settings) -> None:
    if settings.engine.name not in plan.spec.traits.engines:
        raise PlanError(
            f"the method '{plan.method}' does not run on the engine '{settings.engine.name}'",
            must="one of " + ", ".join(plan.spec.traits.engines),
            do="leave out --engine, or take a sample that fits into memory",
        )


def _publish(
    staged: Staged,
    ledger: Ledger | None,
    reservation: Reservation | None,
    *,
    once: bool,
    cost: Amount | None,
) -> None:
    if ledger is None or reservation is None:
        staged.publish()
        return
    ledger.charge(
        reservation,
        artefact_sha256=staged.artefact,
        staged=staged.path,
        final=staged.final,
        finish=staged.publish,
        once=once,
        cost=cost,
        key=staged.key,
    )


def _promise(plan: Plan, schema: Schema, settings: Settings) -> Guarantee:
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

    kinds = ((schema, Schema, "sherd.Schema.load(path)"), (plan, Plan, "sherd.Plan(method=…)"))
    for given, kind, how in kinds:
        if not isinstance(given, kind):
            raise UsageError(
                f"the {kind.__name__.lower()} has the wrong type",
                must=f"a sherd.{kind.__name__}",
                got=f"a {type(given).__name__}",
                do=f"make one with {how}",
            )
    check_cell_key(plan, settings.cell_key)
    guarantee = plan.guarantee(schema)
    # Before anything is reserved or read; what parties need for a joint run they check themselves.
    check_extras(extra for extra in plan.spec.traits.needs if extra != "joint")
    return guarantee if settings.seed is None else guarantee.seeded()


def _make(
    table: pa.Table | Prepared | CountedTable,
    schema: Schema,
    plan: Plan,
    guarantee: Guarantee,
    settings: Settings,
    reservation: Reservation | None,
    *,
    coded: bool = False,
) -> Release:
    from sherd.release.preceding import keys_of
    from sherd.tables.prepare import Prepared, prepare

    if isinstance(table, CountedTable):
        with watched(settings.progress):
            counted = run_on_counts(table, schema, plan, settings.run(None))
        if isinstance(counted, tuple):
            manifest = manifest_of(schema, plan, guarantee, settings, reservation)
            outcome, treated = counted
            return released(outcome, treated, manifest)
        table = counted
    strict = is_strict(plan)
    prepared = table if isinstance(table, Prepared) else prepare(table, schema, strict=strict)
    record = None
    if settings.key is None and settings.past is None:
        with watched(settings.progress):
            run = replace(settings.run(prepared.table), coded=coded)
            outcome = plan.spec.run(prepared.table, schema, plan, run)
    elif not isinstance(plan.spec, FollowsReleases):
        raise PlanError(
            f"the method '{plan.method}' keeps no record of who is where",
            do="leave out the key and the record, or choose the method fragment",
        )
    elif settings.key is None:
        raise PlanError(
            "a release that follows another needs the key",
            must="the attribute that names tuples over time, as in the old release's record",
            do="give it with --key (in Python: Settings(key=…, past=…))",
        )
    else:
        with watched(settings.progress):
            outcome, record = plan.spec.run_keeping_record(
                prepared.table,
                schema,
                plan,
                settings.run(prepared.table),
                Lineage(
                    keys=keys_of(table, schema, settings.key, prepared.kept), past=settings.past
                ),
            )
    order_of, kept, treated = outcome.order_of, prepared.kept, prepared.treated
    del prepared  # its table is not needed beside the released one
    if order_of is not None and kept is not None:
        order_of = lambda: kept[outcome.order]  # noqa: E731 - worked out when asked for
    manifest = manifest_of(schema, plan, guarantee, settings, reservation)
    release = released(outcome, treated, manifest, coded=coded)
    return replace(release, order_of=order_of, record=record)


def is_strict(plan: Plan) -> bool:
    """Whether a plan promises that no record decides on a refusal."""
    return plan.parameters.get("guarantee") == "strict"


def _fingerprint(tables: Any) -> str:
    """The sha256 of the released tables as Arrow streams, for releases kept in memory."""
    import pyarrow as pa

    whole = hashlib.sha256()
    for name, table in sorted(tables.items()):
        whole.update(name.encode() + b"\0")
        sink = pa.PythonFile(_Hashed(whole), mode="w")
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return whole.hexdigest()


class _Hashed(io.RawIOBase):
    """A file that keeps nothing of what is written to it but a hash."""

    def __init__(self, whole: hashlib._Hash) -> None:
        self._whole = whole

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._whole.update(data)
        return len(data)
