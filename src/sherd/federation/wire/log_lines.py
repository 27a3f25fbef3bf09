"""Logs as JSON lines: what happened, in which round, of which owner; never a value."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

_FIELDS = (
    "request",
    "path",
    "owner",
    "member",
    "round_id",
    "rounds",
    "status",
    "milliseconds",
    "refused",
    "actor",
    "about",
    "detail",
    "code",
)


class JsonLines(logging.Formatter):
    """Log records as JSON lines with a few known fields; messages are constants of ours."""

    def __init__(self, **always: str) -> None:
        super().__init__()
        self._always = always

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": when, "level": record.levelname.lower(), **self._always}
        ours = record.name.startswith("sherd")
        # What other libraries have to say may quote a request.
        line["event"] = record.getMessage() if ours else f"{record.name}: {record.levelname}"
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        return json.dumps(line)


def send_logs(*names: str, stream: Any = None, level: int = logging.INFO, **always: str) -> None:
    """Send these logs to a stream as JSON lines, other libraries' only from warnings on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(**always))
    for name in names:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level if name.startswith("sherd") else max(level, logging.WARNING))
        logger.propagate = False
