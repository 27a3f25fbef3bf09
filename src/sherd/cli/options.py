"""Options and ways of printing that several commands share."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sherd.errors import OutputExistsError, PlanError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sherd.federation.protocol.audit_chain import AuditLine
    from sherd.tables.schema import Schema

_F = TypeVar("_F", bound="Callable[..., Any]")

PATH = click.Path(path_type=Path)
"""The type of options and arguments that name a file or a folder."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
host_option = click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Listen on this machine only: 127.0.0.1 or ::1.",
)
port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Listen on this port. Default: any free port.",
)
query_option = click.option("--query", help="Run this SQL if TABLE is a database.")
schema_option = click.option(
    "--schema", "schema_file", metavar="FILE", help="Read the table's schema (YAML)."
)
missing_option = click.option(
    "--missing",
    type=click.Choice(["keep", "drop", "recode", "refuse"]),
    help="Override how the schema treats missing cells.",
)
threads_option = click.option("--threads", type=click.IntRange(min=1), help="Use this many cores.")
set_option = click.option(
    "--set",
    "extra",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a parameter of the method by name.",
)
ledger_option = click.option(
    "--ledger", "ledger_file", metavar="FILE", help="Use this ledger file; 'none' keeps no ledger."
)

audit_log_options = (
    click.option(
        "--export", "target", type=PATH, help="Write the lines to this file, to be kept elsewhere."
    ),
    click.option(
        "--check", "source", type=PATH, help="Check this exported file instead of the log."
    ),
    click.option("--head", help="Require a line with this hash, which you kept earlier."),
)
"""Options of the commands that show an audit log."""


def with_options(*options: Callable[[Any], Any]) -> Callable[[_F], _F]:
    """A decorator that adds these options to a command, in this order."""

    def add(command: _F) -> _F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def named_values(
    ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str]:
    """What a repeatable option such as ``NAME=FILE`` was given, by name: a click callback."""
    del ctx
    pairs = [text.partition("=") for text in texts]
    for text, (name, _, value) in zip(texts, pairs, strict=True):
        if not (name and value):
            raise UsageError(
                f"{option.opts[-1]} cannot be read", must=option.metavar, got=repr(text)
            )
    return {name: value for name, _, value in pairs}


class CommandGroup(click.Group):
    """A group whose help tells the whole first sentence of each command."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands as click does, but wrap their help instead of cutting it off."""
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(limit=1000)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def emit_json(data: Any) -> None:
    """Print a command's result as JSON."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def emit(data: Any, *lines: str, as_json: bool) -> None:
    """Print a command's result: its data as JSON, or the same in lines for a person."""
    if as_json:
        emit_json(data)
        return
    for line in lines:
        click.echo(line)


def check_new(path: Path | None, *, force: bool) -> None:
    """Refuse an output file that already exists."""
    if path is not None and path.exists() and not force:
        raise OutputExistsError("the file already exists", got=str(path), do="use --force")


def settings(given: tuple[str, ...]) -> dict[str, Any]:
    """``NAME=VALUE`` options as parameters; values are read as YAML."""
    import yaml

    values: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise PlanError("--set cannot be read", must="NAME=VALUE", got=repr(text))
        try:
            values[name.replace("-", "_")] = _number_or(yaml.safe_load(value))
        except yaml.YAMLError:
            raise PlanError("--set cannot be read", must="NAME=VALUE", got=repr(text)) from None
    return values


def _number_or(value: Any) -> Any:
    """A value, as a number where it is one that YAML takes for text: it wants 1.0e-9 for 1e-9.

    >>> _number_or("1e-9"), _number_or("sex"), _number_or(3)
    (1e-09, 'sex', 3)
    """
    if isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value):
        return float(value)
    return value


def printable(text: str) -> str:
    """A text that somebody else wrote, with nothing in it that a terminal would obey.

    >>> printable("free\\x1b[2Jcake\\n")
    'free\\\\x1b[2Jcake\\\\n'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def in_words(value: Any) -> str:
    """A value of a report as a person reads it.

    >>> in_words({"k": 3, "attributes": ["age", "sex"], "weights": {}})
    'k 3, attributes age, sex, weights -'
    """
    if isinstance(value, dict):
        words = ", ".join(f"{name.replace('_', ' ')} {in_words(v)}" for name, v in value.items())
    elif isinstance(value, (list, tuple)):
        words = ", ".join(in_words(each) for each in value)
    elif isinstance(value, float):
        words = f"{value:.4g}"
    else:
        words = "" if value is None else printable(str(value))
    return words or "-"


def schema_of(given: dict[str, Any]) -> Schema:
    """The schema named by the options, or that of a table that comes with sherd."""
    from sherd.datasets.sources import load_schema

    path = given["schema_file"] or given["table"]
    if given["schema_file"] is None and not path.startswith(":"):
        raise click.UsageError("Missing option '--schema'. Make one with `sherd schema TABLE`.")
    return load_schema(path, missing=given["missing"], outside=given.get("outside"))


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on standard error when a person watches, silence otherwise."""
    if not sys.stderr.isatty():
        yield lambda _step, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def advance(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(f"{title}: {step}", total=total)
            bars.update(tasks[step], completed=done, total=total)

        yield advance


def show_audit_log(
    read: Callable[[], list[AuditLine]], target: Path | None, source: Path | None, head: str | None
) -> None:
    """Check an audit log, or what was exported of one, then print or export it."""
    from sherd.federation.protocol.audit_chain import export, read_export, verify_lines
    from sherd.tables.files import write_whole

    if source is not None:
        lines = list(read_export(source.read_text(encoding="ascii").splitlines()))
    else:
        lines = read()
    count, last = verify_lines(lines, head)
    if target is not None:
        write_whole(target, "".join(f"{line}\n" for line in export(lines)).encode(), mode=0o600)
    elif source is None:
        for line in lines:
            when = datetime.fromtimestamp(line.time, UTC).isoformat()
            entry = f"{when}  {line.actor}  {line.event}  {line.subject}  {line.detail}"
            click.echo(printable(entry.rstrip()))
    click.echo(f"{count} lines, none changed; the last has the hash {last}")
