"""What deploy/ names exists: commands, options, addresses, and what an image is built from."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from ipaddress import ip_address, ip_network
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
    text = (DEPLOY / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    text = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    for before, least in (
        ("run --rm aggregator", 1),
        ("exec aggregator sherd", 2),
        ("-- sherd", 1),
    ):
        lines = re.findall(rf"{before} (.*)", text)
        assert len(lines) >= least, before
        found += [line.split() for line in lines]
    return found


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
    """Callers behind the proxy are not counted as one.

    It is in one network with the aggregator, so that it calls from one address, and that address
    is given to nobody who starts before it.
    """
    services = COMPOSE["services"]
    command = services["aggregator"]["command"]
    ((network, asked),) = services["proxy"]["networks"].items()
    assert network in services["aggregator"]["networks"]
    assert command[command.index("--proxy") + 1] == asked["ipv4_address"]
    (pool,) = COMPOSE["networks"][network]["ipam"]["config"]
    address = ip_address(asked["ipv4_address"])
    assert address in ip_network(pool["subnet"])
    assert address not in ip_network(pool["ip_range"])
    assert ip_network(pool["ip_range"]).subnet_of(ip_network(pool["subnet"]))  # type: ignore[arg-type]


def test_nobody_but_the_aggregator_reaches_the_database() -> None:
    """It is in a network of the two alone, from which nothing leads out."""
    services = COMPOSE["services"]
    (network,) = services["database"]["networks"]
    assert COMPOSE["networks"][network]["internal"]
    assert [name for name in services if network in services[name]["networks"]] == [
        "database",
        "aggregator",
    ]


def test_an_image_is_built_from_locked_libraries() -> None:
    """With hashes, and in the versions that the tests run with."""
    pinned = re.compile(r"^([a-z0-9-]+==[^\s;]+)", re.MULTILINE)
    image, dev = (
        set(pinned.findall((ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")))
        for name in ("image", "dev")
    )
    assert image <= dev
    assert {"fastapi", "duckdb", "hatchling"} <= {each.partition("==")[0] for each in image}
    recipe = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    assert recipe.count("pip install") == 2
    assert "--no-deps --require-hashes -r /image.lock" in recipe
    assert "--no-deps --no-build-isolation /src" in recipe


def test_no_secret_gets_into_an_image_or_a_commit() -> None:
    """The password's file is neither copied nor kept; what the build needs is copied."""
    secret = COMPOSE["secrets"]["database_password"]["file"].removeprefix("./")
    assert f"deploy/{secret}" in (ROOT / ".gitignore").read_text().splitlines()
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in rules
    let_in = [rule[1:] for rule in rules if rule.startswith("!")]
    needed = {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "requirements/image.lock",
        "src",
        "examples",
    }
    assert needed == set(let_in)
    assert not any(fnmatch(f"deploy/{secret}", rule) for rule in let_in)
    for name in let_in:
        assert (ROOT / name).exists(), name
