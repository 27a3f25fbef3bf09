"""``sherd reproduce``: the papers' experiments beside ours."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import PATH, emit_json, json_option, named_values, progress
from sherd.errors import MissingPartError, UsageError, did_you_mean

if TYPE_CHECKING:
    from types import ModuleType


@click.command()
@click.argument("paper", required=False)
@click.option("--figure", metavar="N", help="Reproduce only this figure.")
@click.option("--runs", type=click.IntRange(min=2), help="Repeat each experiment this many times.")
@click.option("--quick", is_flag=True, help="Run a short version of every experiment.")
@click.option(
    "--reading",
    "readings",
    multiple=True,
    metavar="SWITCH=VALUE",
    callback=named_values,
    help="Choose another reading of the paper; its page names the switches. Repeatable.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    help="Use another seed, to see whether the verdicts hold.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
    show_default="the cores there are",
    help="Compute this many figures in parallel.",
)
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path("out/reproduce"),
    show_default=True,
    help="Write tables, plots and pages to this folder.",
)
@json_option
def reproduce(
    paper: str | None,
    figure: str | None,
    runs: int | None,
    quick: bool,
    readings: dict[str, str],
    seed: int,
    jobs: int,
    output: Path,
    as_json: bool,
) -> int:
    """Run the experiments of PAPER (by default of all papers) and judge its claims.

    Needs a checkout of the project. Exits with 4 if a verdict differs from the one recorded beside
    the experiment. With --runs, --reading or --seed, differences are printed but not counted as
    failures.
    """
    frame = _framework()
    known = frame.papers()
    if paper is not None and paper not in known:
        raise UsageError(
            "there are no experiments of this paper",
            must="one of " + ", ".join(known),
            got=repr(paper),
            do=did_you_mean(paper, known) or None,
        )
    lines: list[str] = []
    say = lines.append if as_json else click.echo
    watched = sys.stderr.isatty()
    with progress("reproduce") as bar:
        setting = frame.Setting(
            quick=quick,
            runs=runs,
            readings=readings,
            seed=seed,
            progress=bar,
            tell=(lambda _line: None) if watched else _tell,
        )
        surprises = frame.run(output, setting, paper, figure, say, jobs)
    if as_json:
        emit_json({"output": str(output), "surprises": surprises, "log": lines})
    elif surprises:
        click.echo(f"error: {surprises} verdicts differ from their record", err=True)
    return 4 if surprises else 0


def _tell(line: str) -> None:
    """A line for each figure that is done, where no bar can be drawn: full runs take hours."""
    click.echo(line, err=True)


def _framework() -> ModuleType:
    """The folder of experiments, which a checkout has and an installed package has not."""
    own = Path(__file__).parents[3] / "benchmarks"
    places = [os.environ.get("SHERD_BENCHMARKS"), Path.cwd() / "benchmarks", own]
    for place in places:
        if place and (Path(place) / "reproduction.py").is_file():
            sys.path.insert(0, str(Path(place).resolve()))
            framework: Any = importlib.import_module("reproduction")
            return framework  # type: ignore[no-any-return]
    raise MissingPartError(
        "the papers' experiments are not part of the installed package",
        must="run from a checkout of the project",
        do="get the source and run `sherd reproduce` in it, or set SHERD_BENCHMARKS",
    )
