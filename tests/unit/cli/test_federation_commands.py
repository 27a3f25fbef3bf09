"""``sherd aggregator`` and ``sherd owner`` from set-up to a release, as commands."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from driving import step
from people import SCHEMA, people

from sherd.cli import run


def call(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, Any, str]:
    """A command's exit code, its JSON if it printed any, and all it said."""
    capsys.readouterr()
    code = run([str(each) for each in args])
    out, err = capsys.readouterr()
    try:
        data = json.loads(out)
    except ValueError:
        data = None
    return code, data, out + err


@pytest.fixture
def settled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, Path]:
    """An aggregator and an owner that is enrolled, both set up by commands."""
    from processes import free_port

    registry, north = tmp_path / "registry", tmp_path / "north"
    url = f"http://127.0.0.1:{free_port()}"
    code, made, _ = call(
        capsys, "aggregator", "init", "--home", registry, "--name", "registry", "--url", url,
        "--json",
    )  # fmt: skip
    assert code == 0
    pq.write_table(people(20), tmp_path / "people.parquet")
    (tmp_path / "schema.yaml").write_text(SCHEMA, encoding="utf-8")
    code, owner, _ = call(
        capsys, "owner", "init", "--home", north, "--name", "north", "--source",
        tmp_path / "people.parquet", "--schema", tmp_path / "schema.yaml", "--key", "id", "--json",
    )  # fmt: skip
    assert code == 0
    code, _, said = call(capsys, "aggregator", "enrol", "--home", registry, owner["request"])
    assert code == 2
    assert "another channel" in said
    answer = tmp_path / "answer.json"
    code, _, said = call(
        capsys, "aggregator", "enrol", "--home", registry, owner["request"], "--fingerprint",
        owner["fingerprint"], "-o", answer,
    )  # fmt: skip
    assert code == 0
    assert made["fingerprint"] in said, "what the owner is to be told"
    code, _, _ = call(
        capsys, "owner", "init", "--home", north, "--enrolment", answer, "--fingerprint", "00-00"
    )
    assert code == 4
    code, _, _ = call(
        capsys, "owner", "init", "--home", north, "--enrolment", answer, "--fingerprint",
        made["fingerprint"],
    )  # fmt: skip
    assert code == 0
    policy = (north / "policy.yaml").read_text(encoding="utf-8")
    for old, new in (
        ("aggregators: {}", f"aggregators: {{registry: {made['fingerprint']}}}"),
        ("kinds: []", "kinds: [horizontal]"),
        ("methods: []", "methods: [dp-um]"),
        ("attributes: []", "attributes: all"),
        ("least_k: 10", "least_k: 3"),
        ("least_rows: 100", "least_rows: 3"),
        ("largest_epsilon: 0", "largest_epsilon: 1"),
        ("lifetime_epsilon: 0", "lifetime_epsilon: 1"),
    ):
        assert old in policy
        policy = policy.replace(old, new)
    (north / "policy.yaml").write_text(policy, encoding="utf-8")
    return registry, north


def test_from_set_up_to_release(
    settled: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands of the how-to page, one after the other, end in a release."""
    registry, north = settled
    open_round = (
        "aggregator", "round", "open", "--home", registry, "first", "--kind", "horizontal",
        "--owner", "north", "-m", "dp-um", "-e", "1", "-k", "3",
    )  # fmt: skip
    assert "owners: north" in call(capsys, "aggregator", "status", "--home", registry)[2]
    assert call(capsys, *open_round)[0] == 0
    assert call(capsys, *open_round)[0] == 2  # there is such a round already
    code, _, said = call(capsys, *open_round[:5], "second", *open_round[6:], "--owner", "east")
    assert code == 2
    assert "owner 'east' is not enrolled" in said
    assert call(capsys, "aggregator", "release", "--home", registry, "first", "-o", "x")[0] == 2
    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.aggregator.serving import server
    from sherd.federation.owner.agent import Agent
    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.wire.client import Client

    premises = AggregatorHome(registry)
    port = int(premises.settings.url.rpartition(":")[2])
    service = server(premises.aggregator(), host="127.0.0.1", port=port)
    thread = threading.Thread(target=service.run, daemon=True)
    thread.start()
    while not service.started:
        time.sleep(0.05)
    home = OwnerHome(north)
    client = Client(url=premises.settings.url, name="north", aggregator="registry", key=home.key)
    agent = Agent(home, client)
    for _ in range(4):
        step(agent)
    code, waiting, _ = call(capsys, "owner", "requests", "--home", north, "--preview", "--json")
    assert code == 0
    assert waiting[0]["round"] == "first"
    assert waiting[0]["preview"]["label"].startswith("internal")
    shown = call(capsys, "owner", "requests", "--home", north, "--preview")[2]
    assert "first" in shown
    assert "own epsilon: 1" in shown
    assert not set("{}[]") & set(shown)
    assert call(capsys, "owner", "approve", "--home", north, "none")[0] == 2
    assert call(capsys, "owner", "approve", "--home", north, "first")[0] == 0
    assert "nothing waits" in call(capsys, "owner", "requests", "--home", north)[2]
    agent.client.close()
    agent.journal.close()
    del agent, client
    assert (
        call(capsys, "owner", "run", "--home", north, "--wait", "1", "--until-ended", "1")[0] == 0
    )
    code, status, _ = call(capsys, "owner", "status", "--home", north, "--audit", "--json")
    assert code == 0
    assert status["rounds"][0]["state"] == "closed"
    assert status["account"]["spent"] == 1.0
    assert any(line[2] == "protected and charged" for line in status["audit"])
    assert "closed" in call(capsys, "owner", "status", "--home", north, "--audit")[2]
    service.should_exit = True
    thread.join(20)
    code, status, _ = call(capsys, "aggregator", "status", "--home", registry, "first", "--json")
    assert (code, status["state"]) == (0, "released")
    shown = call(capsys, "aggregator", "status", "--home", registry, "first")[2]
    assert "released" in shown
    assert not set("{}[]") & set(shown)
    assert "released" in call(capsys, "aggregator", "status", "--home", registry)[2]
    assert call(capsys, "aggregator", "status", "--home", registry, "--json")[1]["members"]
    out = tmp_path / "out"
    assert call(capsys, "aggregator", "release", "--home", registry, "first", "-o", out)[0] == 0
    assert (out / "manifest.json").is_file()
    code, _, said = call(capsys, "aggregator", "release", "--home", registry, "first", "-o", out)
    assert code != 0
    assert "choose another" in said
    assert "--force" not in said, "the command has no such option"
    code, _, said = call(capsys, "verify", out)
    assert code == 0
    assert "ok    signatures: 1 of 1" in said
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    from sherd.verifying.joint_manifest import check_joint

    for change in ("plan_hash", "signature", "plan", "epsilon"):
        changed = json.loads(json.dumps(manifest))
        if change == "signature":
            changed["joint"]["owners"]["north"]["signature"] = "00" * 64
        elif change == "epsilon":
            changed["joint"]["plan"]["shares"][0]["epsilon"] = "2"
        else:
            changed["joint"][change] = "other"
        assert any(check.passed is False for check in check_joint(changed)), change


def test_other_commands(settled: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Analysts, removals, aborts, upgrades, refusals and wrong usage."""
    registry, north = settled
    code, made, _ = call(
        capsys, "aggregator", "enrol", "--home", registry, "--analyst", "ann", "--json"
    )
    assert code == 0
    assert len(made["token"]) > 30
    assert "token" in call(capsys, "aggregator", "enrol", "--home", registry, "--analyst", "bo")[2]
    assert call(capsys, "aggregator", "enrol", "--home", registry, "--remove", "ann")[0] == 0
    assert call(capsys, "aggregator", "enrol", "--home", registry, "--remove", "ann")[0] == 2
    assert call(capsys, "aggregator", "enrol", "--home", registry)[0] == 2
    assert call(capsys, "aggregator", "init", "--home", registry, "--upgrade")[0] == 0
    assert call(capsys, "aggregator", "init", "--home", registry)[0] == 2
    bad = ("aggregator", "init", "--home", north / "x", "--name", "a", "--url", "nowhere")
    assert call(capsys, *bad)[0] == 2
    assert "no rounds" in call(capsys, "aggregator", "status", "--home", registry)[2]
    assert call(capsys, "aggregator", "status", "--home", registry, "none")[0] == 2
    open_round = (
        "aggregator", "round", "open", "--home", registry, "--kind", "horizontal", "--owner",
        "north", "-m", "dp-um", "-e", "1", "-k", "3", "--json",
    )  # fmt: skip
    assert call(capsys, *open_round, "--deadline", "soon")[0] == 2
    assert call(capsys, *open_round, "--share", "north")[0] == 2
    assert call(capsys, *open_round, "--deadline", "1999-01-01")[0] == 2
    code, opened, _ = call(capsys, *open_round, "--set", "min_scale=0.01")
    assert code == 0
    abort = ("aggregator", "round", "abort", "--home", registry)
    assert call(capsys, *abort, opened["round"])[0] == 0
    assert call(capsys, *abort, "none")[0] == 5
    serve = ("aggregator", "serve", "--home", registry, "--plain", "--host", "0.0.0.0")  # noqa: S104
    assert call(capsys, *serve)[0] == 2
    assert call(capsys, "owner", "refuse", "--home", north, "none")[0] == 2
    assert call(capsys, "owner", "init", "--home", north, "--name", "x")[0] == 2
    assert call(capsys, "owner", "status", "--home", north / "nowhere")[0] == 2
    assert "spent 0" in call(capsys, "owner", "status", "--home", north)[2]


def test_help_does_not_import_the_federation() -> None:
    """The list of commands answers without importing what joint releases need."""
    import subprocess
    import sys

    code = (
        "import sys; from sherd.cli import run; run(['--help']);"
        "print([m for m in sys.modules if m in ('fastapi', 'sqlalchemy', 'httpx', 'pyarrow',"
        " 'cryptography')])"
    )
    source = str(Path(__file__).parents[3] / "src")
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": source},
    )
    assert done.stdout.strip().endswith("[]")
    assert "aggregator" in done.stdout
