"""``sherd protect``: one table in, one release out."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import emit_json, open_source, pairs, progress, settings
from sherd.cli.private import check_private, write_private
from sherd.cli.releasing import (
    checked_output,
    emit_release,
    output_options,
    print_findings,
    print_promise,
    schema_of,
    schema_option,
    seed_option,
    source_options,
)
from sherd.errors import PlanError, UsageError

if TYPE_CHECKING:
    from sherd.budget.ledger import Ledger
    from sherd.engines import Choice
    from sherd.release.bundle import Release
    from sherd.release.plan import Plan


@click.command()
@click.argument("table")
@schema_option
@click.option("-m", "--method", metavar="NAME", help="One of `sherd methods`.")
@click.option("-e", "--epsilon", type=float, help="The privacy budget of the release.")
@click.option("-k", "--k", type=int, help="Least number of records in a cluster.")
@click.option("--k-of", multiple=True, metavar="ATTRIBUTE=K", help="Another k for an attribute.")
@click.option(
    "--weight", multiple=True, metavar="ATTRIBUTE=NUMBER", help="An attribute's share of epsilon."
)
@click.option(
    "--guarantee",
    metavar="paper|centroids|strict",
    help="Which promise to make; see `sherd methods`.",
)
@click.option("--min-scale", type=float, help="Least noise, as a share of an attribute's range.")
@click.option(
    "--category-order", metavar="declared|frequency", help="How categories are put in order."
)
@click.option(
    "--domain-from-data", type=float, metavar="FACTOR", help="Take undeclared domains from data."
)
@click.option(
    "--set", "extra", multiple=True, metavar="NAME=VALUE", help="Any other parameter of the method."
)
@click.option("--plan", "plan_file", metavar="FILE", help="Take method and parameters from a file.")
@source_options
@click.option("--population", metavar="NAME", help="Whose budget is charged.")
@click.option("--ledger", "ledger_file", metavar="FILE", help="The ledger ('none': keep none).")
@click.option("--row-map", type=click.Path(path_type=Path), help="Write the private permutation.")
@click.option("--keep-order", is_flag=True, help="Keep the rows' order: not for publication.")
@seed_option
@click.option("--threads", type=click.IntRange(min=1), help="How many cores to use.")
@click.option(
    "--engine",
    metavar="auto|memory|columns|duckdb",
    default="auto",
    show_default=True,
    help="Where the work runs; auto chooses by the table's size.",
)
@click.option("--memory", metavar="SIZE", help="Use at most this much memory, such as 2.5GB.")
@output_options
def protect(**given: Any) -> None:
    """Protect TABLE and write a release: data, manifest, data package.

    TABLE is a CSV, Parquet or Feather file, a database address (with --query), or one of
    the tables that come with sherd (:adult, :wine, :nursery; their schemas are used unless
    --schema is given).

    \b
    sherd protect adult.csv --schema adult.yaml -m dp-um -e 1 -k 100 -o out/
    """
    from sherd.release.protect import Settings, protect_to

    schema = schema_of(given)
    plan = _plan(given)
    guarantee = plan.guarantee(schema)
    if given["explain"]:
        if given["as_json"]:
            emit_json({"plan": plan.as_data(), "guarantee": guarantee.as_data()})
        else:
            click.echo(plan.explain(schema))
        return
    output = checked_output(given)
    check_private(
        given["row_map"],
        (output,),
        what="the row map",
        why="it undoes the shuffling and is the owner's alone",
        force=given["force"],
    )
    ledger = _ledger(given["ledger_file"])
    choice = _engine(given, plan)
    engine = choice.make(output.resolve().parent)
    with progress("protect") as bar, contextlib.ExitStack() as undo, contextlib.closing(engine):
        release = protect_to(
            output,
            open_source(given["table"], schema, given["query"], blocks=engine.name != "memory"),
            schema,
            plan,
            ledger=ledger,
            population=given["population"],
            settings=Settings(
                seed=given["seed"],
                keep_order=given["keep_order"],
                threads=given["threads"],
                progress=bar,
                engine=engine,
            ),
            format=given["form"],
            force=given["force"],
            spreadsheet_safe=given["spreadsheet_safe"],
            before_publishing=lambda made: _write_row_map(made, given["row_map"], undo),
        )
    _print(release, output, ledger, given["as_json"])


def _plan(given: dict[str, Any]) -> Plan:
    from sherd.release.plan import Plan

    chosen: dict[str, Any] = {}
    if given["plan_file"] is not None:
        chosen = Plan.load(given["plan_file"]).as_data()
    named = ("method", "epsilon", "k", "guarantee", "min_scale", "category_order")
    own = {name: given[name] for name in (*named, "domain_from_data")}
    own |= {"weights": pairs(given["weight"], "--weight"), "k_of": pairs(given["k_of"], "--k-of")}
    own = {name: value for name, value in own.items() if value is not None}
    extra = settings(given["extra"])
    if twice := sorted(set(own) & set(extra)):
        raise UsageError(
            f"the parameter '{twice[0]}' is given twice, by an option of its own and by --set",
            must="given once",
            do="leave out one of the two",
        )
    chosen |= own | extra
    if "method" not in chosen:
        raise click.UsageError("Missing option '-m' / '--method'. See `sherd methods`.")
    return Plan(**chosen)


def _engine(given: dict[str, Any], plan: Plan) -> Choice:
    """The engine to run on; what was chosen is told where it is not the plain one."""
    from sherd.engines import choose, parse_size
    from sherd.tables.blocks import extent

    memory = None if given["memory"] is None else parse_size(given["memory"])
    name = given["engine"]
    if name == "auto" and plan.spec.traits.engines == ("memory",):
        name = "memory"
    size = extent(given["table"])
    choice = choose(name, memory=memory, rows=size.rows, column_bytes=size.column_bytes)
    if choice.name != "memory" or given["engine"] != "auto":
        click.echo(f"note: running on the engine {choice.name}: {choice.why}", err=True)
    return choice


def _ledger(path: str | None) -> Ledger | None:
    """The ledger to charge; what a dead run paid for and did not publish is published now."""
    from sherd.budget.ledger import Ledger
    from sherd.budget.place import chosen_path
    from sherd.release.bundle import MANIFEST, digest

    place = chosen_path(path)
    if place is None:
        return None
    ledger = Ledger(place)
    for found in ledger.recover(lambda folder: digest(folder / MANIFEST)):
        click.echo(f"note: published {found}, which an interrupted run had paid for", err=True)
    return ledger


def _write_row_map(release: Release, path: Path | None, undo: contextlib.ExitStack) -> None:
    """The private permutation: which input row stands behind each released row, from 0.

    Where the release is not made after all, nothing is left of it.
    """
    if path is None:
        return
    if release.order is None:
        raise PlanError(
            "a row map was asked for, but this release has no rows that come from records",
            do="leave out --row-map",
        )
    lines = "".join(f"{place},{row}\n" for place, row in enumerate(release.order.tolist()))
    write_private(path, ("released_row,input_row\n" + lines).encode(), undo)


def _print(release: Release, folder: Path, ledger: Ledger | None, as_json: bool) -> None:
    manifest = release.manifest
    account = None
    if ledger is not None and manifest["budget"]["recorded"]:
        account = ledger.account(manifest["budget"]["population"])
    if as_json:
        emit_release(release, folder, account=None if account is None else account.as_data())
        return
    rows = sum(table.num_rows for table in release.tables.values())
    click.echo(f"released {rows} rows to {folder}")
    print_promise(release)
    if account is not None:
        limit = "no limit is set" if account.limit is None else f"limit {account.limit}"
        click.echo(f"Budget: {account.spent} spent of '{account.population}' so far, {limit}.")
    print_findings([finding for finding in release.findings if finding.attribute is None])
