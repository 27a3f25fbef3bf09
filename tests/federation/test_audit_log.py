"""The aggregator's audit log: what is in it, and that nobody changes it unseen."""

from __future__ import annotations

import dataclasses
import sqlite3
import time
from typing import TYPE_CHECKING

import pytest
from people import SCHEMA, people

from sherd.cli import run
from sherd.errors import FormatError, VerificationError
from sherd.federation.aggregator.aggregator_home import AggregatorHome, AggregatorSettings
from sherd.federation.aggregator.api import make_app
from sherd.federation.aggregator.service import WORKER_SECONDS, Service
from sherd.federation.aggregator.storage import audit_log
from sherd.federation.protocol import audit_chain

if TYPE_CHECKING:
    from pathlib import Path

    from consortium import Consortium


def test_what_is_done_is_in_the_log(consortium: Consortium) -> None:
    """Who was let in, how rounds went, who fetched and signed a release, who was put out."""
    for number, name in enumerate(("north", "south")):
        consortium.add_owner(name, people(12, seed=number, first=number * 100), SCHEMA)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    consortium.aggregator.open_round(consortium.terms("r2"))
    consortium.aggregator.revoke("south")
    lines = list(audit_log.lines(consortium.store.engine))
    told = [(line.actor, line.event, line.subject, line.detail) for line in lines]
    assert told[0] == ("operator", "member added", "north", "owner")
    assert ("operator", "round opened", "r1", "north, south") in told
    data = consortium.store.round("r1")
    assert data is not None
    assert ("registry", "round released", "r1", data.manifest) in told
    for owner in ("north", "south"):
        assert (owner, "release fetched", "r1", "") in told
        assert (owner, "release countersigned", "r1", data.manifest) in told
    assert ("operator", "member removed", "south", "") in told
    assert told[-1] == ("registry", "round aborted", "r2", "stopped")
    assert audit_chain.verify_lines(lines)[0] == len(lines)
    assert audit_log.ends_by_reason(consortium.store.engine) == {"stopped": 1}


def test_no_line_is_changed_added_or_taken_out_unseen(consortium: Consortium) -> None:
    """Each change is found at its line; an end that was cut off by a hash kept elsewhere."""
    for number in range(6):
        consortium.store.log(now=number, actor="ann", event="looked", subject=f"r{number}")
    good = list(audit_log.lines(consortium.store.engine))
    count, head = audit_chain.verify_lines(good)
    assert count == 6
    changed = [*good[:2], dataclasses.replace(good[2], actor="bob"), *good[3:]]
    rehashed = dataclasses.replace(changed[2], hash=changed[2].expected(good[1].hash))
    for wrong in (
        changed,
        [*good[:2], rehashed, *good[3:]],
        good[1:],
        [*good[:3], *good[4:]],
        [*good[:3], good[2], *good[3:]],
        [good[1], good[0], *good[2:]],
    ):
        with pytest.raises(VerificationError, match="was changed"):
            audit_chain.verify_lines(wrong)
    audit_chain.verify_lines(good[:4])
    with pytest.raises(VerificationError, match="end of the audit log is missing"):
        audit_chain.verify_lines(good[:4], head)
    texts = list(audit_chain.export(good))
    assert list(audit_chain.read_export(texts)) == good
    for text in ("", "[]", "{}", '{"number": "1"}', texts[0].replace('"time": 0', '"time": "0"')):
        with pytest.raises(FormatError):
            list(audit_chain.read_export([text]))


def test_the_command_shows_exports_and_checks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed row of the database ends with 4; an export is checked by itself."""
    settings = AggregatorSettings(name="registry", url="https://registry.test")
    home = AggregatorHome.make(tmp_path / "registry", settings, ["registry.test"])
    command = ["aggregator", "audit", "--home", str(home.folder)]
    assert run(command) == 0
    shown = capsys.readouterr().out
    assert "operator  member added  operator  operator" in shown
    head = shown.split()[-1]
    out = tmp_path / "audit.jsonl"
    assert run([*command, "--export", str(out), "--head", head]) == 0
    assert out.stat().st_mode & 0o077 == 0
    assert run([*command, "--check", str(out), "--head", head]) == 0
    out.write_text(out.read_text().replace("member added", "member added!"))
    assert run([*command, "--check", str(out)]) == 4
    db = sqlite3.connect(home.folder / "aggregator.db")
    db.execute("UPDATE audit SET actor = 'nobody'")
    db.commit()
    db.close()
    assert run(command) == 4
    capsys.readouterr()


def test_readiness_notices_a_stuck_worker_and_a_changed_clock(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is alive and does not come back, and a clock that jumped, are said."""
    service = make_app(consortium.aggregator, worker=False).state.service
    assert isinstance(service, Service)

    class Alive:
        """A thread that lives."""

        def is_alive(self) -> bool:
            """It does."""
            return True

    monkeypatch.setattr(service, "worker", Alive())
    assert set(service.readiness().values()) == {"ok"}
    monkeypatch.setattr(service, "_beat", time.monotonic() - WORKER_SECONDS - 1)
    assert service.readiness()["worker"] == "failed"
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    assert service.readiness()["clock"] == "failed"
