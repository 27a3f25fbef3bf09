"""Counts and times of the service, in the text format that Prometheus reads.

Only routes, states and status codes are labels: no owner, no round, no value.
"""

from __future__ import annotations

import threading
from collections import Counter


class Metrics:
    """Counters that any thread may raise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._messages: Counter[str] = Counter()

    def count(self, path: str, status: int, seconds: float) -> None:
        """One request."""
        with self._lock:
            self._requests[path, status] += 1
            self._seconds[path] += seconds  # type: ignore[assignment]

    def sent(self, messages: int) -> None:
        """Messages that were fetched by owners."""
        with self._lock:
            self._messages["sent"] += messages

    def received(self, messages: int) -> None:
        """Messages that owners sent."""
        with self._lock:
            self._messages["received"] += messages

    def text(self, rounds: dict[str, int]) -> str:
        """Everything, as text."""
        with self._lock:
            lines = ["# TYPE sherd_requests_total counter"]
            lines += [
                f'sherd_requests_total{{path="{path}",status="{status}"}} {count}'
                for (path, status), count in sorted(self._requests.items())
            ]
            lines.append("# TYPE sherd_request_seconds_total counter")
            lines += [
                f'sherd_request_seconds_total{{path="{path}"}} {float(seconds):.6f}'
                for path, seconds in sorted(self._seconds.items())
            ]
            lines.append("# TYPE sherd_messages_total counter")
            lines += [
                f'sherd_messages_total{{direction="{way}"}} {count}'
                for way, count in sorted(self._messages.items())
            ]
        lines.append("# TYPE sherd_rounds gauge")
        lines += [f'sherd_rounds{{state="{s}"}} {count}' for s, count in sorted(rounds.items())]
        return "\n".join(lines) + "\n"
