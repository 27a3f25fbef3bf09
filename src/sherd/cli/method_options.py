"""A command whose options are the parameters of the chosen method, and advice on choosing one.

Methods declare their parameters (``sherd.release.parameter``); none is repeated here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sherd.release.method import Method
    from sherd.release.parameter import Parameter
    from sherd.release.traits import Suggestion
    from sherd.tables.schema import Schema

MARK = "parameter_"
"""How the value of a method's parameter is told apart from the command's own options."""


PROMISING = ("method", "plan_file", "population", "ledger_file", "seed")
"""The command's own options that decide what is promised, and to whom it is charged."""


class MethodCommand(click.Command):
    """A command that takes the parameters of its method, or of the one named by ``--method``."""

    method: str | None = None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find out which method is meant before options are read."""
        chosen = ctx.meta["sherd.method"] = self.method or _named(args)
        try:
            self._check_repeats(ctx, list(args))
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if chosen is None:
                raise
            raise UsageError(
                f"the method '{chosen}' has no option '{error.option_name}'",
                must="one of " + ", ".join(_flags(chosen)),
                do=did_you_mean(error.option_name, _flags(chosen))
                or f"run `sherd methods {chosen}`",
            ) from None

    def _check_repeats(self, ctx: click.Context, args: list[str]) -> None:
        """Refuse what decides on the promise given twice; the last would win in silence."""
        seen = set()
        for parameter in self.make_parser(ctx).parse_args(args)[2]:
            name = str(parameter.name)
            decides = name.startswith(MARK) or name in PROMISING
            once = isinstance(parameter, click.Option) and not (
                parameter.multiple or parameter.is_flag
            )
            if decides and once and parameter in seen:
                raise UsageError(
                    f"the option {parameter.opts[-1]} is given twice",
                    must="given once",
                    do="leave out one of the two",
                )
            seen.add(parameter)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own options, and those of the method."""
        own = super().get_params(ctx)
        taken = {flag for option in own for flag in (*option.opts, *option.secondary_opts)}
        chosen = ctx.meta.get("sherd.method", self.method)
        return [*own[:-1], *_options(chosen, taken), own[-1]]  # --help stays last

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options first, then the parameters of methods."""
        listed = [
            (one, one.get_help_record(ctx))
            for one in self.get_params(ctx)
            if isinstance(one, click.Option)
        ]
        kinds = (("Options", False), ("Method parameters", True))
        for title, of_method in kinds:
            rows = [
                record
                for one, record in listed
                if record is not None and str(one.name).startswith(MARK) is of_method
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _named(args: list[str]) -> str | None:
    """The method that the words of a command name, by itself or in the file of a plan."""
    plan = None
    for at, word in enumerate(args):
        value = args[at + 1] if at + 1 < len(args) else None
        if word in ("-m", "--method"):
            return value
        if word.startswith("--method="):
            return word.partition("=")[2]
        if word.startswith("-m") and not word.startswith("--"):
            return word[2:]
        if word == "--plan":
            plan = value
        elif word.startswith("--plan="):
            plan = word.partition("=")[2]
    if plan is None or not Path(plan).is_file():
        return None
    from sherd.release.plan import Plan

    return Plan.load(plan).method


def _options(chosen: str | None, taken: set[str]) -> Iterator[click.Option]:
    """The options of the chosen method, or of every method where none is chosen yet."""
    from sherd.release.method import DIRECTORY, find

    seen = set(taken)
    for name in DIRECTORY if chosen is None else (chosen,):
        for parameter in find(name).parameters:
            flag = parameter.flag
            if flag is None or flag in seen:
                continue
            short = None if parameter.short in seen else parameter.short
            seen |= {flag, *([short] if short else [])}
            yield _option(parameter, flag, short)


def _flags(method: str) -> list[str]:
    from sherd.release.method import find

    return [parameter.flag for parameter in find(method).parameters if parameter.flag]


def _option(parameter: Parameter, flag: str, short: str | None) -> click.Option:
    names = [MARK + parameter.name, *([short] if short else []), flag]
    text = parameter.help[:1].upper() + parameter.help[1:] + "."
    if parameter.kind is bool:
        return click.Option(names, is_flag=True, help=text)
    if parameter.default is not None:
        text = f"{text[:-1]} (default: {parameter.default})."
    metavar = parameter.metavar or ("|".join(parameter.choices) if parameter.choices else None)
    number = {int: "N", float: "NUMBER"}.get(parameter.kind)
    return click.Option(
        names,
        multiple=parameter.repeat or (parameter.kind is dict and not parameter.in_file),
        metavar=metavar or number or "TEXT",
        help=text,
    )


def chosen_parameters(given: dict[str, Any], method: Method) -> dict[str, Any]:
    """The parameters that options say, in their own types; files are read first."""
    own = {p.name: p for p in method.parameters}
    chosen: dict[str, Any] = {}
    given_values: dict[str, Any] = {}
    for key, value in given.items():
        name = key.removeprefix(MARK)
        if not key.startswith(MARK) or value in (None, (), False):
            continue
        parameter = own[name]
        if parameter.in_file:
            chosen |= _in_file(method, name, Path(value))
        elif parameter.kind is bool:
            given_values[name] = True
        else:
            given_values[name] = parameter.read([value] if isinstance(value, str) else value)
    return chosen | given_values


def _in_file(method: Method, name: str, path: Path) -> dict[str, Any]:
    from sherd.release.method import ReadsFiles
    from sherd.tables.files import read_yaml

    data = read_yaml(path)
    if isinstance(method, ReadsFiles):
        return dict(method.read_parameter(name, data))
    return {name: data}


def with_set(chosen: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """The parameters of options and of ``--set`` together; none may be given by both."""
    if twice := sorted(set(chosen) & set(extra)):
        raise UsageError(
            f"the parameter '{twice[0]}' is given twice, by its own option and by --set",
            must="given once",
            do="leave out one of the two",
        )
    return chosen | extra


def check_required(chosen: dict[str, Any], method: Method) -> None:
    """Name the option of a parameter that the method needs and was not given."""
    for parameter in method.parameters:
        if parameter.required and parameter.name not in chosen:
            named = [*([parameter.short] if parameter.short else []), parameter.flag or "--set"]
            options = " / ".join(f"'{one}'" for one in named)
            raise click.UsageError(
                f"Missing option {options}, which the method '{method.name}' needs: "
                f"{parameter.help}."
            )


def choice_for(table: str, schema: Schema | None) -> str:
    """What to choose for a table; a release that follows another has its method already."""
    from sherd import datasets
    from sherd.tables.read import extent

    if schema is None:
        return "Name the method of the release that is followed."
    if table.startswith(":"):
        return explain_choice(schema, datasets.load(table[1:]).num_rows)
    return explain_choice(schema, extent(table, columns=len(schema.attributes)).rows)


def explain_choice(schema: Schema, rows: int | None) -> str:
    """Say in three lines what fits best, what else there is, and where the rest is explained.

    ``rows`` is the most that the table may have, None where it is not known.
    """
    from sherd.release.plan import suggested

    size = "a table of this size" if rows is None else f"at most {rows:,} records"
    suggestions = [f"{_typed(*pair)}: {pair[1].gives}" for pair in suggested(schema, rows)]
    suggestions.append("`sherd methods` lists what else there is")
    return (
        f"For {len(schema.protected)} attributes and {size}, begin with {suggestions[0]}.\n"
        f"Otherwise {suggestions[1]}.\n"
        "All methods, and what was measured of them: `sherd methods`, and the how-to page "
        "'Choose a method and its parameters'."
    )


def _typed(method: Method, one: Suggestion) -> str:
    """A suggestion as it is typed."""
    options = {p.name: p.short or p.flag for p in method.parameters}
    typed = []
    for name, value in one.settings.items():
        text = f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)
        typed.append(f"{options[name]} {text}")
    return " ".join([f"-m {method.name}", *(typed or ["--help"])])
