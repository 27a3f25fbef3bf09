"""What errors tell people to do can be done: commands, options and extras exist under that name."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import click

from sherd.cli import cli
from sherd.release.method import DIRECTORY, find

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _texts(node: ast.expr) -> Iterator[str]:
    """The literal texts of an expression, whatever is put between them."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _actions(root: Path) -> Iterator[tuple[str, str]]:
    """Every text after ``do=`` in the source, with its place."""
    for path in sorted((root / "src" / "sherd").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "do":
                for text in _texts(node.value):
                    yield f"{path.relative_to(root)}:{node.value.lineno}", text


def _commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{above}{name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{above}{name} ")


def _options(commands: dict[str, click.Command]) -> set[str]:
    known = {"--help", "--version"}
    for command in commands.values():
        for one in command.get_params(click.Context(command)):
            known |= {*one.opts, *one.secondary_opts}
    for method in DIRECTORY:
        known |= {f"--{parameter.name.replace('_', '-')}" for parameter in find(method).parameters}
    return known


def test_every_action_names_what_there_is(root: Path) -> None:
    """Options and commands of the command line, and extras of the package."""
    commands = dict(_commands(cli))
    options = _options(commands)
    extras = set(
        re.findall(r"^([a-z-]+) = \[", (root / "pyproject.toml").read_text(), re.MULTILINE)
    )
    wrong, seen = [], 0
    for place, text in _actions(root):
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text):
            seen += 1
            if option not in options:
                wrong.append(f"{place}: {option}")
        for words in re.findall(r"(?<![\w.'-])(?<!the )(?<!of )sherd ([a-z]+(?: [a-z]+)?)", text):
            seen += 1
            if words not in commands and words.split()[0] not in commands:
                wrong.append(f"{place}: sherd {words}")
        for extra in re.findall(r"sherd\[([a-z,-]+)\]", text):
            seen += 1
            if not set(extra.split(",")) <= extras:
                wrong.append(f"{place}: sherd[{extra}]")
    assert wrong == []
    assert seen > 50
