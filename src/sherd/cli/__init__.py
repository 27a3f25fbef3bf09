"""The command line: a thin front over the same functions that Python users call.

Commands are imported when they are called, so that ``sherd --help`` answers at once.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from typing import Any

import click

from sherd import __version__, interrupts
from sherd.errors import (
    InternalError,
    SherdError,
    StorageError,
    UsageError,
    did_you_mean,
    kind_and_place,
)

COMMANDS: dict[str, tuple[str, str]] = {
    "schema": ("sherd.cli.schema:schema", "Draft a schema to edit: types, roles and values."),
    "methods": (
        "sherd.cli.methods:methods",
        "List the methods and what each does and does not promise.",
    ),
    "protect": ("sherd.cli.protect:protect", "Protect a table and write a release."),
    "slice": ("sherd.cli.protect:slice_table", "Slice a table into columns and buckets."),
    "fragment": ("sherd.cli.protect:fragment", "Split a table by confidentiality constraints."),
    "query": ("sherd.cli.query:query", "Query released fragments or measurements in SQL."),
    "verify": ("sherd.cli.verify:verify", "Check a release using only what was released."),
    "key": ("sherd.cli.verify:key", "Make a key for signing releases."),
    "sign": ("sherd.cli.verify:sign", "Sign a release with your key."),
    "audit": ("sherd.cli.audit:audit", "Measure what a release is worth and what it gives away."),
    "compare": ("sherd.cli.compare:compare", "Compare several releases of one table on one map."),
    "tune": ("sherd.cli.tune:tune", "Map information loss over epsilon and k, for the owner."),
    "studio": (
        "sherd.cli.studio:studio",
        "Protect, audit and approve in a browser on this machine.",
    ),
    "aggregator": (
        "sherd.cli.aggregator:aggregator",
        "Coordinate joint releases by several owners.",
    ),
    "owner": ("sherd.cli.owner:owner", "Take part in joint releases as an owner."),
    "login": ("sherd.cli.remote:login", "Log in to an aggregator."),
    "fetch": ("sherd.cli.remote:fetch", "Fetch and verify a joint release, as an analyst."),
    "party": ("sherd.cli.party:party", "Take part in a joint release without an aggregator."),
    "ledger": ("sherd.cli.ledger:ledger", "Show how much budget each population has spent."),
    "reproduce": (
        "sherd.cli.reproduce:reproduce",
        "Rerun the papers' experiments and judge their claims.",
    ),
    "demo": ("sherd.cli.demo:demo", "Run a joint release by several owners on this machine."),
}
"""Every command, where it lives, and its line of help."""


class ReaderGoneError(Exception):
    """The reader of our output is gone; click would exit with 1, the code of our own bugs."""


class LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke as click does, but tell a closed pipe apart."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGoneError from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command's name, in the order of a usual day."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does, with a hint for a mistyped name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise UsageError(
                "there is no such command",
                must="one of " + ", ".join(COMMANDS),
                got=repr(args[0]),
                do=did_you_mean(args[0], COMMANDS) or "run `sherd --help`",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sherd")
def cli() -> None:
    """Make one protected table from data held in fragments.

    Exit codes: 0 done, 1 our bug, 2 wrong usage or input, 3 refused by policy or budget,
    4 verification failed, 5 disk, network or peer, 130 interrupted. A missing optional part also
    exits with 3, and the message says what to install.
    """


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit with the right code."""
    given = sys.argv[1:] if args is None else args
    try:
        interrupts.watch()
        code = run(given)
        interrupts.finish()
    except KeyboardInterrupt:  # a second one, while the first was being told
        code = 130
    if code == 130:
        # What was to be undone is undone; threads that still wait must not hold up the end,
        # nor turn it into a death by signal.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(args: list[str]) -> int:
    """Run the command line; the exit code."""
    as_json = "--json" in args
    try:
        result = cli.main(args=args, prog_name="sherd", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except SherdError as error:
        return _report(error, as_json)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        return _report_usage(error, as_json)
    except (click.exceptions.Abort, KeyboardInterrupt) as stop:
        # click raises an error of its own from Ctrl-C.
        return _report_stop(stop.__cause__ or stop)
    except ReaderGoneError:
        # `sherd methods | head`: nobody is left to tell, and that is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except ImportError as error:
        from sherd.extras import missing_part

        part = None if interrupts.asked() else missing_part(error)
        return _report_bug(error, as_json) if part is None else _report(part, as_json)
    except OSError as error:
        wrapped = StorageError(
            "the operating system reported an error", got=error.strerror or "no reason"
        )
        return _report(wrapped, as_json)
    except MemoryError:
        return _report(StorageError("this table does not fit into memory"), as_json)
    except Exception as error:
        return _report_bug(error, as_json)


def _report_stop(error: BaseException) -> int:
    notes = getattr(error, "__notes__", None) or ["nothing was written"]
    click.echo(f"interrupted: {'; '.join(notes)}", err=True)
    return 130


def _report_bug(error: Exception, as_json: bool) -> int:
    if interrupts.asked():
        # An extension that is interrupted while it is imported fails with an error of its own.
        return _report_stop(error)
    if os.environ.get("SHERD_DEBUG"):
        raise error
    bug = InternalError(
        "this is a bug in sherd",
        got=kind_and_place(error),
        do="please report it with the command; SHERD_DEBUG=1 shows the whole traceback",
    )
    return _report(bug, as_json)


def _report(error: SherdError, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps({"error": error.as_data()}, ensure_ascii=False))
    lines = [f"error: {error.what}"]
    for label, text in (("must be", error.must), ("got", error.got), ("do", error.do)):
        if text:
            lines.append(f"  {label}: {text}")
    lines += [f"  note: {note}" for note in getattr(error, "__notes__", ())]
    click.echo("\n".join(lines), err=True)
    return error.exit_code


def _report_usage(error: click.ClickException, as_json: bool) -> int:
    if as_json:
        data = UsageError(error.format_message()).as_data()
        click.echo(json.dumps({"error": data}, ensure_ascii=False))
    context = getattr(error, "ctx", None)
    click.echo(f"error: {error.format_message()}", err=True)
    if context is not None:
        click.echo(f"  do: run `{context.command_path} --help`", err=True)
    return 2
