"""What operators and analysts do: watch the service, look over folders, stop it, fetch releases."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx
from click.testing import CliRunner
from people import SCHEMA, people
from processes import Village, add_owners, wait_until

from sherd.cli import cli
from sherd.errors import StorageError
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.wire.exchange import Call, Parcel
from sherd.federation.wire.log_lines import JsonLines
from sherd.signing_keys import fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from consortium import Consortium


def ready(consortium: Consortium) -> tuple[int, dict[str, str]]:
    """What the service says of itself."""
    request = httpx.Request("GET", "https://registry.test/readyz")
    answer = consortium.transport.handle_request(request)
    return answer.status_code, json.loads(answer.content)


def test_readiness_looks_at_database_disk_clock_and_worker(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is looked at when asked, and named where it fails, without details."""
    good = dict.fromkeys(("database", "disk", "clock", "worker"), "ok")
    assert ready(consortium) == (200, good)

    def broken() -> None:
        raise StorageError("the address is postgresql://user:secret@host")

    with monkeypatch.context() as patch:
        patch.setattr(consortium.store, "check", broken)
        patch.setattr(consortium.store, "latest", broken)  # the clock is not at fault
        status, found = ready(consortium)
        assert (status, found) == (503, {**good, "database": "failed"})
    with monkeypatch.context() as patch:
        patch.setattr("sherd.federation.aggregator.service.LEAST_FREE", 1 << 62)
        assert ready(consortium) == (503, {**good, "disk": "failed"})
    consortium.add_owner("north", people(12), SCHEMA)
    consortium.aggregator.open_round(consortium.terms())
    with monkeypatch.context() as patch:
        patch.setattr(consortium, "time", consortium.time - 10_000)
        assert ready(consortium) == (503, {**good, "clock": "failed"})
    service: Any = consortium.transport._app.state.service

    class Dead:
        @staticmethod
        def is_alive() -> bool:
            return False

    service.worker = Dead()
    assert ready(consortium) == (503, {**good, "worker": "failed"})


def test_requests_have_numbers_in_both_logs(
    consortium: Consortium, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller's number comes back and is in the log; what is no number is replaced."""
    caplog.set_level("INFO", logger="sherd.aggregator")
    consortium.add_owner("north", people(12), SCHEMA)
    north = consortium.agents["north"]
    north.turn()
    records = [record for record in caplog.records if record.getMessage() == "request"]
    assert records[-1].__dict__["request"] == north.client.request_id
    request = httpx.Request("GET", "https://registry.test/healthz")
    request.headers["X-Request-Id"] = "x\x1b[2J"
    answer = consortium.transport.handle_request(request)
    assert len(answer.headers["X-Request-Id"]) == 16


def test_logs_name_round_and_owner(
    consortium: Consortium, caplog: pytest.LogCaptureFixture
) -> None:
    """What both sides log of a round can be found by the round's and the owner's name."""
    caplog.set_level("INFO", logger="sherd.aggregator")
    caplog.set_level("INFO", logger="sherd.owner")
    consortium.add_owner("north", people(600), SCHEMA)
    consortium.aggregator.open_round(consortium.terms(owners=("north",)))
    consortium.settle()

    def lines(logger: str, **always: str) -> list[dict[str, Any]]:
        form = JsonLines(**always)
        return [json.loads(form.format(r)) for r in caplog.records if r.name == logger]

    theirs = lines("sherd.aggregator")
    calls = [each for each in theirs if each.get("path") == "/v1/exchange"]
    assert {each["owner"] for each in calls if each["status"] == 200} == {"north"}
    assert any(each.get("rounds") == ["r1"] for each in calls)
    events = {each["event"]: each for each in theirs if each.get("round_id") == "r1"}
    assert {"round opened", "round collecting", "round released"} <= events.keys()
    assert events["release countersigned"]["actor"] == "north"
    ours = [each for each in lines("sherd.owner", owner="north") if each.get("round_id") == "r1"]
    assert {"offered", "protected and charged", "fetched the release"} <= {
        each["event"] for each in ours
    }
    assert {each["owner"] for each in ours} == {"north"}


def test_a_refused_message_is_logged_with_its_reason(
    consortium: Consortium, caplog: pytest.LogCaptureFixture
) -> None:
    """Names of rounds are cut, reasons are codes: an owner writes no lines of its own."""
    caplog.set_level("INFO", logger="sherd.aggregator")
    consortium.add_owner("north", people(12), SCHEMA)
    client = consortium.agents["north"].client
    parcel = Parcel(round="no\nsuch\x1b[31m" + "x" * 500, raw=b"{}", chunks=())
    client.exchange(Call(parcels=(parcel,), seen=None, wait=0.0))
    (line,) = [r for r in caplog.records if getattr(r, "refused", None)]
    assert line.__dict__["refused"] == ["malformed"]
    assert len(line.__dict__["rounds"][0]) == 63
    assert "\x1b" not in JsonLines().format(line)
    assert "\n" not in JsonLines().format(line)


def test_owner_check(consortium: Consortium) -> None:
    """A folder is looked over: the table against its schema and policy included."""
    home = consortium.add_owner("north", people(12), SCHEMA, key_column="id")
    found = CliRunner().invoke(cli, ["owner", "check", "--home", str(home.folder), "--json"])
    told = {each["what"]: each["ok"] for each in json.loads(found.output)}
    bad = {what for what, fine in told.items() if not fine}
    assert bad == {"certificate"}  # these tests have none
    details = {each["what"]: each["detail"] for each in json.loads(found.output)}
    assert details["key"] == fingerprint(home.key.public)  # what people compare
    home.channel[0].unlink()
    found = CliRunner().invoke(cli, ["owner", "check", "--home", str(home.folder)])
    assert "no certificate yet" in found.output
    schema = home.folder / "schema.yaml"
    schema.write_text(schema.read_text().replace("colour:", "color:"))
    found = CliRunner().invoke(
        cli, ["owner", "check", "--home", str(home.folder), "--json"], standalone_mode=False
    )
    told = {each["what"]: each["ok"] for each in json.loads(found.output)}
    assert told["table"] is False
    assert found.return_value == 2


def test_serving_stopping_and_fetching(village: Village, tmp_path: Path) -> None:
    """A real service is checked, an analyst fetches and verifies, SIGTERM ends all well."""
    add_owners(village, Kind.HORIZONTAL, 40)
    village.start_all()
    village.open_round()
    village.check_released()
    home = str(village.premises.folder)
    run = CliRunner()
    told = run.invoke(cli, ["aggregator", "check", "--home", home], standalone_mode=False)
    assert told.return_value == 0, told.output
    given = run.invoke(cli, ["aggregator", "enrol", "--home", home, "--analyst", "ann", "--json"])
    token = tmp_path / "token"
    token.write_text(json.loads(given.output)["token"])
    command = [sys.executable, "-m", "sherd", "fetch", "r1", "--url", village.url]
    command += ["--authority", str(village.premises.authority), "--token-file", str(token)]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "checks passed" in done.stdout
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, "it overwrites nothing"
    assert "--force" not in done.stderr, "the command has no such option"
    without = [word for word in command if word not in ("--authority", command[8])]
    done = subprocess.run(
        [*without, "-o", str(tmp_path / "no")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 5
    assert "--authority" in done.stderr
    token.write_text("wrong")
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "no")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 5
    assert not (tmp_path / "no").exists()
    for name in ("north", "aggregator"):
        process = village.running[name]
        began = time.monotonic()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 0, name
        assert time.monotonic() - began < 20
    wait_until(lambda: village.running["aggregator"].poll() is not None, "all is over")
    logs = [log.read_text() for log in village.logs if log.name.startswith("aggregator")]
    lines = [line for text in logs for line in text.splitlines()]
    assert any("listening" in line for line in lines)
    # owners that waited were answered, not cut off with a traceback
    assert not any("Traceback" in line or '"error"' in line for line in lines)
