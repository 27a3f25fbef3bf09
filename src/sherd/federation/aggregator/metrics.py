"""Counts and times of the service, by Prometheus' own client.

Routes, states, codes and the names of owners are labels: no round, no value. Gauges are read from
the database when they are asked for, so that several services on one database tell the same.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from sherd.errors import MissingPartError
from sherd.federation.aggregator.storage.audit_log import ends_by_reason
from sherd.federation.protocol.states import ROUND_TASKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sherd.federation.aggregator.round_work import Aggregator

SECONDS = (0.005, 0.02, 0.1, 0.5, 2, 10, 30)
"""The upper ends of the classes that requests are counted in by how long they take."""


class Metrics:
    """Counters that any thread may raise; without Prometheus' client they count nothing."""

    def __init__(self, aggregator: Aggregator) -> None:
        self._aggregator = aggregator
        self._registry: Any = None
        if importlib.util.find_spec("prometheus_client") is None:
            return
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "sherd_requests", "Requests.", ["path", "status"], registry=registry
        )
        self._seconds = Histogram(
            "sherd_request_seconds",
            "How long requests took, those that wait for messages included.",
            ["path"],
            buckets=SECONDS,
            registry=registry,
        )
        self._messages = Counter(
            "sherd_messages", "Messages of the protocol.", ["direction"], registry=registry
        )
        registry.register(self)

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count one request."""
        if self._registry is not None:
            self._requests.labels(path, str(status)).inc()
            self._seconds.labels(path).observe(seconds)

    def sent(self, messages: int) -> None:
        """Messages that were fetched by owners."""
        self._pass("sent", messages)

    def received(self, messages: int) -> None:
        """Messages that owners sent."""
        self._pass("received", messages)

    def _pass(self, direction: str, messages: int) -> None:
        if self._registry is not None:
            self._messages.labels(direction).inc(messages)

    def describe(self) -> list[Any]:
        """Describe nothing beforehand: registering must not read the database."""
        return []

    def collect(self) -> Iterator[Any]:
        """What the database tells, as Prometheus' client asks for it."""
        from prometheus_client.core import GaugeMetricFamily

        store, now = self._aggregator.store, self._aggregator.now()
        states = GaugeMetricFamily("sherd_rounds", "Rounds by state.", labels=["state"])
        for state, count in store.counts().items():
            states.add_metric([state], count)
        ends = GaugeMetricFamily(
            "sherd_rounds_failed", "Rounds that ended without a release.", labels=["reason"]
        )
        for reason, count in ends_by_reason(store.engine).items():
            ends.add_metric([reason], count)
        seen = GaugeMetricFamily(
            "sherd_owner_silent_seconds", "How long ago an owner called.", labels=["owner"]
        )
        for owner, last in store.seen().items():
            seen.add_metric([owner], max(0, now - last))
        waiting = sum(each.state in ROUND_TASKS for each in store.unfinished())
        queue = GaugeMetricFamily("sherd_queue", "Rounds that wait for the worker.", value=waiting)
        yield from (states, ends, seen, queue)

    def text(self) -> str:
        """Everything, in the text format that Prometheus reads."""
        if self._registry is None:
            raise MissingPartError(
                "metrics need an optional part",
                got="no module 'prometheus_client'",
                do="install it: pip install 'sherd[federation]'",
            )
        from prometheus_client import generate_latest

        return str(generate_latest(self._registry).decode())
