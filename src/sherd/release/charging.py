"""What a release costs: the ledger to book in, what is reserved, and what is booked.

Amounts are known from plan and schema alone; what a run really spent is known from its findings.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sherd.errors import SherdError, UsageError
from sherd.release.bundle import MANIFEST, digest
from sherd.release.method import REAL_SPEND

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from fractions import Fraction
    from pathlib import Path

    from sherd.budget.amount import Amount
    from sherd.budget.entries import Entry, Reservation
    from sherd.budget.ledger import Ledger
    from sherd.guarantees import Guarantee
    from sherd.release.bundle import Release
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Occasion:
    """What a release is made for when that is more than its plan: a joint plan, for instance.

    The ledger notes ``hash`` in the place of the plan's and charges it once at most, so that
    an occasion never has two artefacts. ``time`` is what the manifest states as its time, so
    that a repetition is the same to the byte.
    """

    hash: str
    note: str = ""
    time: datetime | None = None


def chosen_ledger(
    ledger: Ledger | Literal["default"] | None, population: str | None = None
) -> Ledger | None:
    """The ledger to book in; what a dead run paid for and did not publish is published first."""
    if ledger == "default":
        from sherd.budget.ledger import Ledger
        from sherd.budget.storage import chosen_path

        place = chosen_path(None)
        ledger = None if place is None else Ledger(place)
        if ledger is not None:
            ledger.recover(lambda folder: digest(folder / MANIFEST))
    if ledger is None and population is not None:
        raise UsageError(
            "a population is named, but no ledger is kept to charge it in",
            must="a ledger, or no population",
            got=repr(population),
            do="name a ledger (--ledger, SHERD_LEDGER), or leave out the population",
        )
    return ledger


MOST_COST = 1_000_000.0
"""The most ε that one release is booked with as really spent; the ledger adds up numbers only."""


@contextlib.contextmanager
def looking(ledger: Ledger | None, reservation: Reservation | None) -> Iterator[None]:
    """Book a look if a run that reads data ends in a refusal, which is an output, too."""
    try:
        yield
    except Exception as error:
        if ledger is not None and reservation is not None:
            try:
                ledger.look(reservation, note=type(error).__name__)
            except SherdError as second:
                error.add_note(f"the look could not be booked: {second}")
        raise


def cost_of(release: Release, schema: Schema, reservation: Reservation) -> Amount | None:
    """What a release really spends, where the run found out; at least what it claims.

    A column that is published without any noise spends more than any ε: ``MOST_COST`` is booked.
    """
    from sherd.budget.amount import Amount

    spent = [float(one.value) for one in release.findings if one.name == REAL_SPEND]
    if not spent:
        return None
    really = min(spent[0] * schema.rows_per_unit, MOST_COST)
    return max(reservation.amount, Amount(really))


def population_of(schema: Schema, population: str | None) -> str:
    """The account a release is charged to: as named, as the schema says, or the schema's own.

    A schema that names a unit but no population has the account of that unit's name: another
    column or domain must not open a fresh one.
    """
    if population is not None and not population.strip():
        raise UsageError("the population has no name", must="a name, or none given at all")
    if population is not None and not " ".join(population.split()).isprintable():
        raise UsageError("the population's name has signs that cannot be printed", must="a name")
    own = _named_after(schema) if schema.unit is None else f"unit {schema.unit}"
    return " ".join((population or schema.population or own).split())


def told_population(population: str, schema: Schema, told: Schema) -> str:
    """The account's name as a release states it.

    A name made from the schema holds a hash over labels that are not published, so anybody could
    test guesses at them: the release states the name made from the published part of the schema.
    """
    return _named_after(told) if population == _named_after(schema) else population


def _named_after(schema: Schema) -> str:
    return f"unnamed-{schema.hash[:12]}"


def check_alone(ledger: Ledger, guarantee: Guarantee, plan: Plan, reservation: Reservation) -> None:
    """Refuse a second release whose promise assumes that there is no other.

    Releases without an ε do not add up to anything: anybody who holds two of the same people can
    intersect them. The ledger knows of earlier ones; what it does not know of cannot be refused.
    It is called with a reservation in hand: of two runs that begin at once, at least one sees the
    other.
    """
    from sherd.budget.entries import NONE
    from sherd.guarantees import Assumption

    follows = Assumption.ONLY_EARLIER_RELEASES in guarantee.assumes
    if not (follows or Assumption.NO_OTHER_RELEASE in guarantee.assumes):
        return
    name = reservation.population
    for one in ledger.reservations():
        if one.population == name and one.measure == NONE and one.id != reservation.id:
            raise UsageError(
                "another release of this population is under way, and whoever holds both can "
                "intersect them",
                got=f"population '{name}'",
                do="wait until it has ended, and follow it; or add --again (in Python: "
                "Settings(again=True)) if the releases go to people who never see both",
            )
    earlier = [one for one in ledger.entries(name) if one.kind == "charge" and one.measure == NONE]
    if follows:
        _check_last(earlier, plan, name)
    elif earlier:
        raise UsageError(
            "this population has a release already, and whoever holds both can intersect them",
            must="the first release of the population, or one that follows the earlier one",
            got=f"population '{name}', with {len(earlier)} "
            f"release{'s' * (len(earlier) > 1)} without an ε in the ledger",
            do="keep a record (--key, --record) and follow it (--after); or add --again (in "
            "Python: Settings(again=True)) if these are other people, or the releases go to "
            "people who never see both",
        )


def _check_last(earlier: list[Entry], plan: Plan, name: str) -> None:
    """Refuse to follow a release that another one follows: neither record knows the other's people.

    A release that was charged in memory has no file's hash; there, a plan that was charged before
    is the second to follow the same release.
    """
    release = (plan.parameters.get("after") or {}).get("release")
    places = [at for at, one in enumerate(earlier) if one.artefact == release]
    later = len(earlier) - 1 - places[-1] if places else 0
    if later or any(one.plan_hash == plan.hash for one in earlier):
        raise UsageError(
            "the release that this one would follow is not the last: people who joined since are "
            "in another, which its record does not know, and whoever holds both can intersect them",
            must="a release that follows the population's last one, made from the last record",
            got=f"population '{name}', with releases since",
            do="follow the last release (--after, --old-record); or add --again (in Python: "
            "Settings(again=True)) if the releases go to people who never see both",
        )


@contextlib.contextmanager
def reserved(
    ledger: Ledger | None,
    plan: Plan,
    schema: Schema,
    population: str | None,
    occasion: Occasion | None = None,
    staging: Path | None = None,
) -> Iterator[Reservation | None]:
    """Hold what the plan costs while the run lasts; a plan without an epsilon is counted.

    An occasion that is charged before its artefact exists, as a joint run is, uses it, too.
    ``staging`` is where the run will write what is not paid for yet: the ledger knows it before it
    is made, to have it cleared away whenever the run dies.
    """
    if ledger is None:
        yield None
        return
    from sherd.budget.amount import Amount

    # A person with several rows is charged for each of them.
    measure = measure_of(plan, schema)
    free = measure == "none"
    amount = Amount.zero() if free else Amount(plan.exact("epsilon") * schema.rows_per_unit)
    rho, delta = _concentrated(plan, amount)
    with ledger.reserving(
        measure=measure,
        rho=rho,
        delta=delta,
        population=population_of(schema, population),
        amount=amount,
        plan_hash=plan.hash if occasion is None else occasion.hash,
        schema_hash=schema.hash,
        method=plan.method,
        note="" if occasion is None else occasion.note,
        staging=staging,
    ) as reservation:
        yield reservation


def _concentrated(plan: Plan, amount: Amount) -> tuple[Fraction | None, Fraction | None]:
    """The ρ and δ of a plan whose ε holds at a δ: what its noise is made by."""
    from sherd.guarantees.concentrated import rho_of

    if plan.parameters.get("epsilon") is None or plan.parameters.get("delta") is None:
        return None, None
    delta = plan.exact("delta")
    return rho_of(amount.epsilon, delta), delta


def measure_of(plan: Plan, schema: Schema) -> str:
    """Which of the ledger's sums a plan adds to: ``dp``, ``idp``, or ``none``."""
    from sherd.guarantees import IndividualDP

    if plan.parameters.get("epsilon") is None:
        return "none"
    notion = plan.guarantee(schema).notion
    return "idp" if isinstance(notion, IndividualDP) else "dp"
