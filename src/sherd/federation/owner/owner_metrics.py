"""What an owner's agent tells Prometheus: budget left, rounds, and how long nobody answered.

The numbers are read from ledger and journal when they are asked for. Labels are populations, kinds
of budget and states: no round, no value.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from sherd.budget.ledger import Ledger
from sherd.errors import MissingPartError, SherdError, UsageError
from sherd.federation.owner.owner_journal import OwnerJournal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sherd.federation.owner.owner_home import OwnerHome


class OwnerMetrics:
    """A collector for Prometheus' client; ``silent`` says for how many seconds nobody answered."""

    def __init__(self, home: OwnerHome, silent: Callable[[], float]) -> None:
        self._home, self._silent = home, silent

    def describe(self) -> list[Any]:
        """Describe nothing beforehand: registering must not read the ledger."""
        return []

    def collect(self) -> Iterator[Any]:
        """What ledger and journal hold now; what cannot be read is told and ends nothing."""
        from prometheus_client.core import GaugeMetricFamily

        fit = 1.0
        for collected in (self._budgets, self._rounds):
            try:
                yield from collected()
            except SherdError:
                fit = 0.0
        yield GaugeMetricFamily(
            "sherd_owner_files_fit", "Whether ledger and journal can be read (1) or not.", value=fit
        )
        yield GaugeMetricFamily(
            "sherd_aggregator_silent_seconds",
            "How long ago the aggregator answered.",
            value=self._silent(),
        )

    def _budgets(self) -> list[Any]:
        from prometheus_client.core import GaugeMetricFamily

        labels = ["population", "kind"]
        left = GaugeMetricFamily(
            "sherd_budget_left", "Budget that is neither spent nor reserved.", labels=labels
        )
        spent = GaugeMetricFamily("sherd_budget_spent", "Budget that is spent.", labels=labels)
        for account in Ledger(self._home.ledger).accounts():
            for kind, column in account.columns.items():
                spent.add_metric([account.population, kind], float(column.spent))
                unlimited = column.left is None
                left.add_metric(
                    [account.population, kind], math.inf if unlimited else float(column.left or 0)
                )
        return [left, spent]

    def _rounds(self) -> list[Any]:
        from prometheus_client.core import GaugeMetricFamily

        with contextlib.closing(OwnerJournal(self._home.journal)) as journal:
            counts = Counter(data.state for data in journal.rounds())
        rounds = GaugeMetricFamily(
            "sherd_owner_rounds", "Rounds that have not ended, by state.", labels=["state"]
        )
        for state, count in counts.items():
            rounds.add_metric([state], count)
        return [rounds]


@contextlib.contextmanager
def serve_metrics(address: str | None, metrics: OwnerMetrics) -> Iterator[int | None]:
    """Answer Prometheus at ``HOST:PORT`` while the body runs; nowhere if no address is given.

    The port is told, since port 0 takes any that is free.
    """
    if address is None:
        yield None
        return
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and 0 <= int(port) < 65536):
        raise UsageError(
            "the address for metrics is not valid",
            must="HOST:PORT, such as 127.0.0.1:9470",
            got=repr(address),
        )
    if importlib.util.find_spec("prometheus_client") is None:
        raise MissingPartError(
            "metrics need an optional part",
            got="no module 'prometheus_client'",
            do="install it: pip install 'sherd[federation]'",
        )
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(metrics)
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), registry)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            "metrics cannot be served",
            must="an address of this machine that nobody listens at",
            got=f"{address}: {getattr(error, 'strerror', None) or type(error).__name__}",
            do="choose another with --metrics",
        ) from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
