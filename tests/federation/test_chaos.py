"""Chaos: random faults in every round, and afterwards nothing is spent twice, lost or left hanging.

``tests/support/storm.py`` says which faults, and how. `make chaos` runs it for as long as
SHERD_CHAOS_SECONDS says over both kinds of storage and with real processes, and prints the
counts; in the ordinary tests it runs for a few seconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lossy import Fault, LossyProxy
from people import KINDS
from power import build
from processes import Village, add_owners, free_port

from sherd.federation.protocol.states import ROUND_ENDS, RoundState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sherd.federation.protocol.joint_plan import Kind

SECONDS = float(os.environ.get("SHERD_CHAOS_SECONDS", "16"))
SEED = int(os.environ.get("SHERD_CHAOS_SEED", "1"))
SCRIPT = Path(__file__).parents[1] / "support" / "storm.py"
PARTIES = SCRIPT.with_name("party_storm.py")
UNSYNCED = """
import sys
import storm
from sherd.budget import storage
kept = storage._configure
def careless(connection):
    kept(connection)
    connection.execute("PRAGMA synchronous = OFF")
storage._configure = careless
sys.exit(storm.main())
"""


FRESH_NOISE = """
import sys
import numpy as np
import party_storm
from sherd.secure.party.run_journal import RunWords
fresh = np.random.default_rng(1)
RunWords.words = lambda self, n: fresh.integers(0, 2**64, n, np.uint64)
sys.exit(party_storm.main())
"""


@pytest.fixture(scope="module")
def power(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """What makes power cuts; None where there is no compiler."""
    return build(tmp_path_factory.mktemp("power"))


def rage(
    power: Path | None,
    seconds: float,
    *options: str,
    code: str | None = None,
    script: Path = SCRIPT,
) -> dict[str, Any]:
    """A storm in a process of its own; what it came to."""
    given = [str(script)] if code is None else ["-c", code]
    command = [sys.executable, *given, "--seconds", str(seconds), "--seed", str(SEED), *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SCRIPT.parent), *sys.path])}
    if power is not None:
        environment["LD_PRELOAD"] = str(power)
    ran = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, timeout=300 + 2 * seconds, check=False
    )
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    assert ran.returncode == bool(found["failures"])
    print(json.dumps(found, indent=1))  # noqa: T201 - the record of a run
    return found


def check(found: dict[str, Any], power: Path | None) -> None:
    """Nothing went wrong although much was wrong."""
    assert found["failures"] == []
    rounds = found["rounds"]
    assert rounds.get("horizontal released", 0) + rounds.get("vertical released", 0) >= 2
    assert found["faults"] >= sum(rounds.values())
    if power is not None and found["seconds"] >= 60:
        kinds = {"power cut at an owner", "power cut at the aggregator", "disk full"}
        assert kinds <= found["by_kind"].keys()


@pytest.mark.timeout(400 + 3 * SECONDS)  # a run of an hour is no hang
def test_chaos(power: Path | None) -> None:
    """Rounds under faults end, are paid for once, and are released where they can be."""
    check(rage(power, SECONDS / 2), power)


@pytest.mark.timeout(400 + 3 * SECONDS)
def test_chaos_on_postgresql(power: Path | None, postgresql: str) -> None:
    """The same where the aggregator's rounds are in PostgreSQL."""
    check(rage(power, SECONDS / 4, "--postgresql", postgresql), power)


@pytest.mark.slow
def test_a_careless_ledger_is_found_out(power: Path | None) -> None:
    """A ledger that does not sync loses what was spent: the storm tells it from ours."""
    if power is None:
        pytest.skip("power cuts need a C compiler")
    found = rage(power, 45.0, code=UNSYNCED)
    assert any("ledger" in each or "charged" in each for each in found["failures"])


@pytest.mark.timeout(400 + 3 * SECONDS)
def test_chaos_of_parties(power: Path | None) -> None:
    """Runs of two and three parties end, are paid for once, and open nothing unpaid or anew."""
    pytest.importorskip("mpyc")
    found = rage(power, SECONDS / 4, script=PARTIES)
    assert found["failures"] == []
    assert found["faults"] >= 1
    assert {"2 parties released", "3 parties released"} <= found["runs"].keys()


@pytest.mark.slow
def test_parties_that_draw_noise_anew_are_found_out(power: Path | None) -> None:
    """A step that is computed again with other noise could be averaged: the storm tells it."""
    found = rage(power, 40.0, code=FRESH_NOISE)
    assert any("differently" in each for each in found["failures"])


@pytest.fixture
def plain_village(quick_path: Path) -> Iterator[tuple[Village, LossyProxy]]:
    """Real processes behind a proxy that copies calls late."""
    port = free_port()
    proxy = LossyProxy(port, Fault.LATE_COPY)
    village = Village(quick_path, port=port, url=proxy.url)
    yield village, proxy
    village.close()
    proxy.close()


@pytest.mark.slow
@pytest.mark.timeout(400 + 3 * SECONDS)
@pytest.mark.parametrize("kind", KINDS)
def test_chaos_of_processes(plain_village: tuple[Village, LossyProxy], kind: Kind) -> None:
    """Processes killed or stopped at any moment; every round ends and is paid for once."""
    village, proxy = plain_village
    dice = random.Random(SEED)  # noqa: S311 - dice, no secrets
    add_owners(village, kind)
    village.start_all()
    until, number, faults = time.monotonic() + SECONDS / 8, 0, Counter[str]()
    while time.monotonic() < until or number < 2:
        name = f"r{number}"
        village.open_round(name, kind=kind)
        for _ in range(dice.randint(1, 6)):
            time.sleep(dice.uniform(0.0, 0.5))
            victim = dice.choice(("aggregator", *village.homes))
            if dice.random() < 0.7:
                village.start(victim)  # which kills it first
                faults["killed"] += 1
            else:
                os.kill(village.running[victim].pid, signal.SIGSTOP)
                time.sleep(dice.uniform(0.0, 0.5))
                os.kill(village.running[victim].pid, signal.SIGCONT)
                faults["stopped for a while"] += 1
        assert village.check_released(name).state in ROUND_ENDS
        number += 1
    assert village.round("r0").state is RoundState.RELEASED
    faults["late copies"] = proxy.faults
    told = {"processes": kind.value, "rounds": number, "faults": dict(faults)}
    print(json.dumps(told))  # noqa: T201 - the record of a run
