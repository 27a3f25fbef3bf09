"""What deploy/ names exists: commands, options, addresses, and what an image is built from."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import click
import pytest
import yaml

from sherd.cli import cli

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def commands() -> list[list[str]]:
    """Every command line of Sherd in the folder."""
    found = [COMPOSE["services"]["aggregator"]["command"]]
    for unit in (DEPLOY / "systemd").glob("*.service"):
        lines = re.findall(r"^Exec\w+=\S+/sherd (.*)$", unit.read_text(), re.MULTILINE)
        assert len(lines) == 2, unit
        found += [line.split() for line in lines]
    text = (DEPLOY / "compose.yaml").read_text().replace("\\\n#", " ")
    (set_up,) = re.findall(r"run --rm aggregator (aggregator init .*)", text)
    return [*found, set_up.split()]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_and_options_exist(words: list[str]) -> None:
    """Each is a command of the command line with these options."""
    command: click.Command = cli
    context = click.Context(cli)
    while words and isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, words[0]
        command, words = found, words[1:]
    known = {option for each in command.params for option in each.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_proxy_is_the_one_that_is_named() -> None:
    """Callers behind the proxy are not counted as one."""
    command = COMPOSE["services"]["aggregator"]["command"]
    address = COMPOSE["services"]["proxy"]["networks"]["inside"]["ipv4_address"]
    assert command[command.index("--proxy") + 1] == address
    assert address.startswith("172.30.84.")
    assert COMPOSE["networks"]["inside"]["ipam"]["config"] == [{"subnet": "172.30.84.0/24"}]


def test_no_secret_gets_into_an_image_or_a_commit() -> None:
    """The password's file is neither copied nor kept; what the build needs is copied."""
    secret = COMPOSE["secrets"]["database_password"]["file"].removeprefix("./")
    assert f"deploy/{secret}" in (ROOT / ".gitignore").read_text().splitlines()
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in rules
    let_in = [rule[1:] for rule in rules if rule.startswith("!")]
    assert {"pyproject.toml", "README.md", "LICENSE", "src", "examples"} == set(let_in)
    assert not any(fnmatch(f"deploy/{secret}", rule) for rule in let_in)
    for name in let_in:
        assert (ROOT / name).exists(), name
