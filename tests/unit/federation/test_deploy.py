"""The files in deploy/ name commands that there are, and take away what services do not need."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from sherd.cli import cli

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
    text = (DEPLOY / "compose.yaml").read_text()
    (init,) = re.findall(r"aggregator (aggregator init.*?)\n#\s+(--url.*?)\n", text, re.DOTALL)
    assert is_command(shlex.split(" ".join(init).replace("\\", "")))
