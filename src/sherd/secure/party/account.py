"""What a joint run costs a party: reserved at its start, charged once under the run's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sherd.budget.ledger import Ledger
    from sherd.secure.party.party_settings import PartySettings


class Account:
    """Reserves the plan's epsilon, and charges it once for each run that was agreed on.

    ``run`` is the run that this party is known to be in, if any: where it is paid for, nothing is
    reserved. What is not charged is freed at the end.
    """

    def __init__(self, settings: PartySettings, ledger: Ledger | None, run: str | None) -> None:
        self._settings, self._ledger, self._run = settings, ledger, run
        self._reservation: Any = None

    def __enter__(self) -> Account:
        from sherd.budget.amount import Amount
        from sherd.release.protect import population_of

        plan, schema = self._settings.plan, self._settings.schema
        if self._ledger is not None and not self._paid(self._run):
            self._reservation = self._ledger.reserve(
                population=population_of(schema, self._settings.population),
                amount=Amount(plan.exact("epsilon") * schema.rows_per_unit),
                plan_hash=plan.hash,
                schema_hash=schema.hash,
                method=plan.method,
            )
        return self

    def _paid(self, run: str | None) -> bool:
        assert self._ledger is not None
        return run is not None and any(one.artefact == run for one in self._ledger.entries())

    def pay(self, run: str) -> None:
        """Charge the run, unless it was charged when it began."""
        if self._ledger is not None and not self._paid(run):
            assert self._reservation is not None
            self._ledger.charge(self._reservation, artefact_sha256=run)

    def as_data(self) -> dict[str, Any]:
        """What the manifest says of the budget."""
        from sherd.release.protect import population_of

        if self._ledger is None:
            return {"recorded": False}
        plan, schema = self._settings.plan, self._settings.schema
        population = population_of(schema, self._settings.population)
        spent = plan.exact("epsilon") * schema.rows_per_unit
        return {"recorded": True, "population": population, "spent": str(float(spent))}

    def __exit__(self, *_error: object) -> None:
        held = self._reservation
        if self._ledger is not None and held is not None and not self._ledger.is_charged(held):
            self._ledger.free(held)
