"""Reference pages made from the code.

A line ``<!-- from the code: NAME -->`` in a page is replaced, while Sphinx reads the page, by
the Markdown that the function NAME of this module makes. What the reference says of a command,
a method or an error is therefore what the code says of itself, and cannot fall behind it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

PLACE = re.compile(r"^<!-- from the code: ([a-z-]+) -->$", re.MULTILINE)
_WIDTH = 88
_PAGES = Path(__file__).parents[1] / "methods"


def commands() -> str:
    """Every command with its whole help, as the terminal shows it."""
    from sherd.cli import cli

    with click.Context(cli, info_name="sherd", **cli.context_settings) as context:
        return "\n".join(_command(cli, context, 2))


def _command(command: click.Command, context: click.Context, level: int) -> Iterable[str]:
    path = context.command_path
    yield f"(command-{path.replace(' ', '-')})=\n{'#' * level} {path}\n"
    formatter = click.HelpFormatter(width=_WIDTH)
    command.format_help(context, formatter)
    yield f"```text\n{formatter.getvalue().strip()}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is None:
                raise LookupError(f"the command '{path} {name}' is listed but cannot be found")
            with click.Context(below, parent=context, info_name=name) as inner:
                yield from _command(below, inner, min(level + 1, 4))


def methods() -> str:
    """Every method: its promises and its parameters."""
    from sherd.methods import describe
    from sherd.release.method import names

    return "\n".join(_method(describe(name)) for name in names())


def _method(method: dict[str, Any]) -> str:
    name = method["name"]
    lines = [
        f"(method-{name})=\n## {name}\n",
        f"**{_text(method['title'])}.** {_text(method['summary'])}",
    ]
    if (_PAGES / f"{name}.md").is_file():
        lines[-1] += f" The argument, and what is not protected: [](../methods/{name}.md)."
    lines.append("")
    for promise in method["promises"]:
        named = promise["name"] is not None
        lines.append(f"`guarantee: {promise['name']}`" if named else "The promise")
        lines.append(f": {_text(promise['promise'])}.")
        lines.append(f"\n  - *Covers:* {_text(promise['covers'])}.")
        lines += [f"  - *Does not cover:* {_text(text)}." for text in promise["not_covered"]]
        lines.append(f"  - *Source:* {_text(promise['source'])}.\n")
    rows = [
        (
            f"`{p['name']}`",
            _text(p["must"]),
            "needed" if p["required"] else _default(p["default"]),
            _text(p["help"]),
        )
        for p in method["parameters"]
    ]
    lines.append(_table(("parameter", "must be", "default", "meaning"), rows))
    return "\n".join(lines)


def _default(value: object) -> str:
    return "not given" if value is None else f"`{value}`"


def errors() -> str:
    """Every error with its code, the exit code of the command line and what it means."""
    from sherd.errors import catalogue

    rows = [
        (
            f"`{code}`",
            str(error.exit_code),
            f"`{error.__name__}`",
            ", ".join(f"`{base.__name__}`" for base in error.__bases__),
            _text((error.__doc__ or "").strip().splitlines()[0]),
        )
        for code, error in catalogue().items()
    ]
    return _table(("code", "exit code", "class", "is also", "meaning"), rows)


def assumptions() -> str:
    """Every assumption, those that must be true apart from those that leak."""
    from sherd.guarantees import Assumption

    must = [(f"`{a.value}`", _text(a.words)) for a in Assumption if not a.leaks]
    leak = [(f"`{a.value}`", _text(a.words)) for a in Assumption if a.leaks]
    return (
        "## Conditions that must be true\n\n"
        "Printed as “Only if”. The method cannot check them.\n\n"
        + _table(("code", "what is taken for granted"), must)
        + "\n## Facts that the release shows all the same\n\n"
        "Printed as “Not covered”.\n\n" + _table(("code", "what is not covered"), leak)
    )


def units() -> str:
    """Every unit a guarantee can protect."""
    from sherd.guarantees import Unit

    return _table(("code", "meaning"), [(f"`{u.value}`", _text(u.words)) for u in Unit])


def adversaries() -> str:
    """Every adversary a guarantee can hold against."""
    from sherd.guarantees import Adversary

    return _table(("code", "meaning"), [(f"`{a.value}`", _text(a.words)) for a in Adversary])


def notions() -> str:
    """Every notion of privacy, and whether it is differential privacy."""
    from sherd.guarantees import Notion

    rows = []
    waiting = list(Notion.__subclasses__())
    while waiting:
        notion = waiting.pop(0)
        if under := notion.__subclasses__():
            waiting = [*under, *waiting]  # what several notions share is none itself
            continue
        meaning = _text((notion.__doc__ or "").strip().splitlines()[0])
        rows.append(
            (f"`{notion.code}`", meaning, "yes" if notion.is_differential_privacy else "no")
        )
    return _table(("code", "meaning", "differential privacy"), rows)


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _text(text: str) -> str:
    """Plain text as Markdown that shows the same signs."""
    return re.sub(r"([\\|*_<>\[\]`{}$])", r"\\\1", " ".join(str(text).split()))


PARTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "methods": methods,
    "errors": errors,
    "assumptions": assumptions,
    "units": units,
    "adversaries": adversaries,
    "notions": notions,
}


def fill(text: str) -> str:
    """The page with every place filled."""
    return PLACE.sub(lambda found: PARTS[found.group(1)](), text)


def setup(app: Any) -> dict[str, Any]:
    """Tell Sphinx to fill pages when it reads them."""

    def read(_app: Any, _name: str, source: list[str]) -> None:
        source[0] = fill(source[0])

    app.connect("source-read", read)
    # What a page says depends on code that Sphinx does not watch: read all pages every time.
    app.connect("env-get-outdated", lambda _app, env, *_: sorted(env.found_docs))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
