"""Words that read as translated stay out, and help texts say what an option does, verb first."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import click
import pytest

from sherd.cli import COMMANDS, cli

ROOT = Path(__file__).parents[2]
BANNED = (
    r"\banew\b",
    r"name it otherwise",
    r"With you take part",
    r"the schema is not one\b",
    r"\b(is|are) there already\b",
    r"out of all proportion",
    r"does not go on\b",
)
QUOTED = "clusters made anew"
"""How a promise was worded once: such manifests are still read."""

NOT_VERBS = re.compile(
    r"A|An|As|At|By|For|How|If|Its|Of|Only|Sql|That|The|This|What|Where|Which|Who|Whose|With"
)


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, click.Command]]:
    """Every command below a group, with its name."""
    listed: list[tuple[str, click.Command]] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        listed.append((" ".join((*path, name)), command))
        if isinstance(command, click.Group):
            listed += commands(command, (*path, name))
    return listed


@pytest.mark.parametrize("folder", ["src", "docs", "examples"])
def test_translated_words_stay_out(folder: str) -> None:
    """Neither in code nor on pages nor in templates."""
    for path in (ROOT / folder).rglob("*"):
        if path.suffix not in (".py", ".md", ".html"):
            continue
        text = path.read_text(encoding="utf-8").replace(QUOTED, "")
        for words in BANNED:
            assert not re.search(words, text), f"{path.relative_to(ROOT)}: {words}"


def test_help_texts_begin_with_a_verb() -> None:
    """Of every option and command; they are sentences."""
    assert importlib.import_module("sherd.cli")
    seen = 0
    for name, command in commands(cli):
        if command.hidden:
            continue
        assert command.help, name
        said = [command.help, command.get_short_help_str(1000)]
        said += [COMMANDS[name][1]] if name in COMMANDS else []
        for sentence in said:
            first = sentence.split()[0].title()
            assert not NOT_VERBS.fullmatch(first), f"sherd {name}: {sentence}"
            assert sentence.split("\n\n")[0].rstrip().endswith((".", ":")), f"sherd {name}"
        for option in command.params:
            text = getattr(option, "help", None)
            if not text or option.name == "help":
                continue
            seen += 1
            first = re.sub(r"^With [^:]*: ", "", text).split()[0].title()
            assert not NOT_VERBS.fullmatch(first), f"sherd {name} --{option.name}: {text}"
    assert seen > 100


def test_help_of_parameters_begins_with_a_verb() -> None:
    """They become options, and advice where one is missing: both say what to do."""
    from sherd.release.method import find, names

    for name in names():
        for parameter in find(name).parameters:
            text = re.sub(r"^(if [^,]*, |then )", "", parameter.help)
            first = text.split()[0].title()
            assert not NOT_VERBS.fullmatch(first), f"{name} {parameter.name}: {parameter.help}"
            assert not text.endswith("."), f"{name} {parameter.name}: the option adds the full stop"


def test_every_option_has_a_help_text() -> None:
    """An option without one leaves the reader to guess."""
    for name, command in commands(cli):
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.help, f"sherd {name}: {option.opts}"
