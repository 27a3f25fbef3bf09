"""What Spark reports of a table it cannot read, in words that quote none of its cells.

Spark's own message holds the row that it could not read, and so does its log on the driver.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from sherd.errors import MissingPartError, TableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sherd.errors import SherdError


@contextlib.contextmanager
def spark_failures() -> Iterator[None]:
    """Say what is wrong with a table, or with the cluster, where Spark fails while it reads."""
    try:
        yield
    except Exception as error:
        known = _in_our_words(str(error))
        if known is None:
            raise
        raise known from None


def _in_our_words(told: str) -> SherdError | None:
    if "No module named 'sherd'" in told:
        return MissingPartError(
            "the executors do not have Sherd",
            must="the same version of Sherd on the driver and on every executor",
            do="install it there, or set PYSPARK_PYTHON to a Python that has it",
        )
    if "MALFORMED" in told or "Malformed" in told:
        return TableError(
            "the table has rows that do not fit its header",
            must="as many cells in every row as in the header",
            do="mend the file, or convert it to Parquet",
        )
    if "FAILED_READ_FILE" in told or "CANNOT_READ_FILE_FOOTER" in told:
        return TableError(
            "Spark cannot read a file of the table",
            must="files that are whole, and that stay while they are read",
            do="make the damaged file again, or protect a copy that nobody writes to",
        )
    return None


def quieten(session: Any) -> None:
    """Keep rows out of the driver's log, unless it is asked for (``SHERD_DEBUG``)."""
    if not os.environ.get("SHERD_DEBUG"):
        with contextlib.suppress(Exception):  # over Spark Connect the log is the server's
            session.sparkContext.setLogLevel("OFF")
