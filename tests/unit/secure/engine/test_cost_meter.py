"""What the steps of a secure computation cost, read from the engine's log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sherd.secure.engine.cost_meter import Meter, Traffic, traffic_of

if TYPE_CHECKING:
    from pathlib import Path

LINE = (
    "2026-01-01 [info] [api.cc:233] Link details: total send bytes {}, recv bytes {}, "
    "send actions {}, recv actions {}\n"
)


def test_all_programs_of_a_text_are_added_up() -> None:
    """Other lines are passed over; no line is no traffic."""
    text = "noise\n" + LINE.format(10, 20, 1, 2) + LINE.format(1, 2, 3, 4)
    assert traffic_of(text) == Traffic(sent=11, received=22, messages_sent=4, messages_received=6)
    assert traffic_of("nothing of interest") == Traffic()


def test_each_program_gets_the_lines_it_added(tmp_path: Path) -> None:
    """Steps of one name are summed, and what was opened by hand is counted too."""
    log = tmp_path / "log"
    log.write_text(LINE.format(5, 6, 1, 1))
    meter = Meter(log)
    meter.took("compiling", 2.0)
    meter.ran("choices", 0.5)
    with log.open("a") as file:
        file.write(LINE.format(7, 8, 2, 2))
    meter.ran("choices", 0.25)
    meter.passed("counts", [3, 3], [4])
    assert [one.sent for _, one in meter.traffic] == [5, 7, 6]
    data = meter.as_data()
    assert data["choices"] == {
        "seconds": 0.75, "sent": 12, "received": 14, "messages_sent": 3, "messages_received": 3,
    }  # fmt: skip
    assert data["compiling"]["seconds"] == 2.0
    assert data["counts"]["messages_sent"] == 2
    assert meter.by_step()["counts"].received == 4


def test_the_log_of_the_engine_goes_to_the_file(tmp_path: Path) -> None:
    """And nowhere else."""
    given: list[Any] = []
    logging = SimpleNamespace(
        LogOptions=SimpleNamespace, LogLevel=SimpleNamespace(INFO=1), setup_logging=given.append
    )
    Meter(tmp_path / "log").begin(SimpleNamespace(logging=logging))
    assert given[0].system_log_path == str(tmp_path / "log")
    assert given[0].enable_console_logger is False
