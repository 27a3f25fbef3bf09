"""What Spark says of a table it cannot read is said in other words, without its cells."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from sherd.engines.database_counts import spark_source
from sherd.engines.spark_failures import quieten, spark_failures
from sherd.errors import MissingPartError, SherdError, TableError

MALFORMED = "[MALFORMED_CSV_RECORD] Malformed CSV record: secret,1,2 SQLSTATE: KD000"


@pytest.mark.parametrize(
    ("told", "expected", "words"),
    [
        (f"[FAILED_READ_FILE] file:/t.csv Caused by: {MALFORMED}", TableError, "fit its header"),
        ("[FAILED_READ_FILE.NO_HINT] file:/secret.parquet", TableError, "a file of the table"),
        ("[CANNOT_READ_FILE_FOOTER] secret", TableError, "a file of the table"),
        ("ModuleNotFoundError: No module named 'sherd' secret", MissingPartError, "executors"),
    ],
)
def test_what_is_known_is_told_without_cells(
    told: str, expected: type[SherdError], words: str
) -> None:
    """The original error, whose text may hold rows, is not shown beside it."""
    with pytest.raises(expected, match=words) as refused, spark_failures():
        raise RuntimeError(told)
    assert "secret" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_what_is_not_known_stays_as_it_is() -> None:
    """A fault of ours is not taken for a fault of the table."""
    with pytest.raises(KeyError, match="ours"), spark_failures():
        raise KeyError("ours")


def test_counting_on_spark_refuses_rows_that_do_not_fit() -> None:
    """`dp-graph` and `diffgen` read the table by queries alone."""
    frame = MagicMock()
    frame.sparkSession.sql.return_value.toArrow.side_effect = RuntimeError(MALFORMED)
    with spark_source(frame) as source, pytest.raises(TableError, match="fit its header"):
        source.ask("SELECT 1")


def test_the_log_is_silent_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's log on the driver quotes the row that it could not read."""
    session = MagicMock()
    monkeypatch.setenv("SHERD_DEBUG", "1")
    quieten(session)
    session.sparkContext.setLogLevel.assert_not_called()
    monkeypatch.delenv("SHERD_DEBUG")
    quieten(session)
    session.sparkContext.setLogLevel.assert_called_once_with("OFF")
    session.sparkContext.setLogLevel.side_effect = RuntimeError("not over Spark Connect")
    quieten(session)
