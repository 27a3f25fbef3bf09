"""What the steps of a secure computation cost: seconds, bytes and messages, as SPU counts them.

SPU tells what passed its link during a program only in its log. So the log goes to a file of
ours, and the lines that each program adds are read. They count what a party's engine sends and
receives, before TLS; what is opened is exchanged outside of programs and counted by hand.

The log names operations, sizes and times, no data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_LINE = re.compile(
    r"Link details: total send bytes (\d+), recv bytes (\d+), "
    r"send actions (\d+), recv actions (\d+)"
)


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What one party sent and received.

    >>> Traffic(sent=1, received=2, messages_sent=3, messages_received=4) + Traffic()
    Traffic(sent=1, received=2, messages_sent=3, messages_received=4)
    """

    sent: int = 0
    received: int = 0
    messages_sent: int = 0
    messages_received: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            sent=self.sent + other.sent,
            received=self.received + other.received,
            messages_sent=self.messages_sent + other.messages_sent,
            messages_received=self.messages_received + other.messages_received,
        )


def traffic_of(text: str) -> Traffic:
    """All that a piece of SPU's log says of its link.

    >>> traffic_of("Link details: total send bytes 5, recv bytes 7, send actions 1, "
    ...            "recv actions 2").received
    7
    """
    lines = [tuple(int(number) for number in one) for one in _LINE.findall(text)]
    sums = [sum(column) for column in zip(*lines, strict=True)] or [0, 0, 0, 0]
    return Traffic(sent=sums[0], received=sums[1], messages_sent=sums[2], messages_received=sums[3])


class Meter:
    """Seconds and traffic by step; ``log`` is where SPU's log goes, for the whole process.

    ``traffic`` has one entry for each program that was run and each result that was opened,
    in order; ``seconds`` sums by step.
    """

    def __init__(self, log: Path) -> None:
        self._log, self._place = log, 0
        self.seconds: dict[str, float] = {}
        self.traffic: list[tuple[str, Traffic]] = []

    def begin(self, libspu: Any) -> None:
        """Turn SPU's log to the file; other output of it stops."""
        options = libspu.logging.LogOptions()
        options.enable_console_logger = False
        options.system_log_path = str(self._log)
        options.trace_log_path = str(self._log.with_suffix(".trace"))
        options.log_level = libspu.logging.LogLevel.INFO
        libspu.logging.setup_logging(options)

    def ran(self, step: str, seconds: float) -> None:
        """A program has ended."""
        self.took(step, seconds)
        with self._log.open("rb") as file:
            file.seek(self._place)
            text = file.read()
        self._place += len(text)
        self.traffic.append((step, traffic_of(text.decode(errors="replace"))))

    def took(self, step: str, seconds: float) -> None:
        """Time went into a step."""
        self.seconds[step] = self.seconds.get(step, 0.0) + seconds

    def passed(self, step: str, sent: list[int], received: list[int]) -> None:
        """Messages of these lengths were exchanged outside of programs."""
        self.traffic.append(
            (
                step,
                Traffic(
                    sent=sum(sent),
                    received=sum(received),
                    messages_sent=len(sent),
                    messages_received=len(received),
                ),
            )
        )

    def by_step(self) -> dict[str, Traffic]:
        """The traffic of each step."""
        steps: dict[str, Traffic] = {}
        for step, one in self.traffic:
            steps[step] = steps.get(step, Traffic()) + one
        return steps

    def as_data(self) -> dict[str, dict[str, float]]:
        """Seconds, bytes and messages by step, as plain data."""
        by_step = self.by_step()
        return {
            step: {
                "seconds": round(self.seconds.get(step, 0.0), 3),
                "sent": by_step.get(step, Traffic()).sent,
                "received": by_step.get(step, Traffic()).received,
                "messages_sent": by_step.get(step, Traffic()).messages_sent,
                "messages_received": by_step.get(step, Traffic()).messages_received,
            }
            for step in dict.fromkeys([*self.seconds, *by_step])
        }
