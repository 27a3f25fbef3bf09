"""What a joint run costs a party: reserved at its start, charged once for the run.

What is opened in a run is known to all parties at once, so it is charged before the first share
leaves, when there is no artefact yet: the run is the occasion, and ``protect``'s own way of
reserving for an occasion is the one used here.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sherd.release.charging import Occasion, reserved

if TYPE_CHECKING:
    from sherd.budget.entries import Entry, Reservation
    from sherd.budget.ledger import Ledger
    from sherd.secure.party.party_settings import PartySettings


class RunBudget:
    """Reserves the plan's epsilon, and charges it once for each run that was agreed on.

    ``run`` is the run that this party is known to be in, if any: where it is paid for, nothing is
    reserved. What is not charged is freed at the end.
    """

    def __init__(self, settings: PartySettings, ledger: Ledger | None, run: str | None) -> None:
        self._settings, self._ledger, self._run = settings, ledger, run
        self._held = contextlib.ExitStack()

    def __enter__(self) -> RunBudget:
        if self._run is None or self.charge_of(self._run) is None:
            self._held.enter_context(self._reserved())
        return self

    def _reserved(
        self, occasion: Occasion | None = None
    ) -> contextlib.AbstractContextManager[Reservation | None]:
        one = self._settings
        return reserved(self._ledger, one.plan, one.schema, one.population, occasion)

    def charge_of(self, run: str) -> Entry | None:
        """What was charged for a run."""
        return None if self._ledger is None else self._ledger.charge_of(run)

    def pay(self, run: str) -> None:
        """Charge the run, unless it was charged when it began."""
        if self._ledger is None or self.charge_of(run) is not None:
            return
        # The run has its name only now; what was held for it is held under that name.
        self._held.close()
        with self._reserved(Occasion(hash=run, note="secure computation")) as held:
            assert held is not None
            self._ledger.charge(held, artefact_sha256=None, once=True)

    def __exit__(self, *_error: object) -> None:
        self._held.close()
