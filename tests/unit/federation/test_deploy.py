"""The files in deploy/ name commands that there are, and take away what services do not need."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml

from sherd.cli import cli

if TYPE_CHECKING:
    from collections.abc import Callable

DEPLOY = Path(__file__).parents[3] / "deploy"


def is_command(words: list[str]) -> bool:
    """Whether words are a command of ours with options that it has."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, words
        command, words = found, words[1:]
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known, words
    return not isinstance(command, click.Group)


@pytest.mark.parametrize("who", ["aggregator", "owner"])
def test_units(who: str) -> None:
    """A unit starts a command, checks first, stops by SIGTERM and is confined."""
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.read(DEPLOY / "systemd" / f"sherd-{who}.service")
    service = unit["Service"]
    for key in ("ExecStartPre", "ExecStart"):
        program, *words = shlex.split(service[key])
        assert program.endswith("/sherd")
        assert is_command(words)
    assert service["KillSignal"] == "SIGTERM"
    for key in ("NoNewPrivileges", "PrivateTmp", "ProtectHome", "PrivateDevices"):
        assert service[key] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""


def test_compose_file() -> None:
    """The services name commands and files that there are; the service is read-only."""
    data: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    aggregator = data["services"]["aggregator"]
    assert is_command(aggregator["command"])
    assert aggregator["read_only"]
    assert aggregator["cap_drop"] == ["ALL"]
    assert (DEPLOY / "compose.yaml").parent.joinpath("haproxy.cfg").exists()
    assert (DEPLOY.parent / aggregator["build"]["dockerfile"]).exists()
    assert "/readyz" in aggregator["healthcheck"]["test"][-1]
    for service in ("aggregator", "proxy"):
        assert data["services"][service]["read_only"]
        assert data["services"][service]["ulimits"]["nofile"] >= 2 * most_connections()


def most_connections() -> int:
    """How many connections the proxy lets through at a time."""
    text = (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")
    return int(text.partition("maxconn ")[2].split()[0])


@pytest.mark.parametrize("who", ["aggregator", "owner"])
def test_units_are_taken_by_systemd(
    who: str, tmp_path: Path, require_or_skip: Callable[[str], None]
) -> None:
    """It finds no mistake in them, and little that a service could do beyond its work."""
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        require_or_skip("systemd-analyze is not installed")
    unit = tmp_path / f"sherd-{who}.service"
    shipped = (DEPLOY / "systemd" / unit.name).read_text(encoding="utf-8")
    unit.write_text(shipped.replace("/usr/local/bin/sherd", sys.executable), encoding="utf-8")

    def run(*words: str) -> str:
        done = subprocess.run(
            [str(analyse), *words, str(unit)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr

    assert run("verify") == ""
    run("security", "--offline=yes", "--threshold=15")  # 1.3 of 10 in version 252
