"""``sherd protect``, ``sherd slice`` and ``sherd fragment``: one table in, one release out.

The last two are the first with the method chosen.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.method_options import (
    MethodCommand,
    check_required,
    choice_for,
    chosen_parameters,
    with_set,
)
from sherd.cli.options import (
    PATH,
    emit_json,
    ledger_option,
    progress,
    schema_of,
    schema_option,
    set_option,
    settings,
    threads_option,
    with_options,
)
from sherd.cli.releasing import (
    FOLLOWING,
    OUTPUT,
    SOURCE,
    checked_output,
    chosen_engine,
    emit_release,
    print_findings,
    print_promise,
    protect_on_cluster,
    uncounted,
)
from sherd.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sherd.budget.ledger import Ledger
    from sherd.release.bundle import Release
    from sherd.release.method import PrivateRecord
    from sherd.release.plan import Plan
    from sherd.release.private_files import PrivateFiles
    from sherd.tables.schema import Schema

_METHOD = (
    click.option("-m", "--method", metavar="NAME", help="Use this method (see `sherd methods`)."),
)
_PLAN = (
    set_option,
    click.option(
        "--plan",
        "plan_file",
        metavar="FILE",
        help="Take the method and its parameters from this file.",
    ),
)
_OWNER = (
    click.option("--population", metavar="NAME", help="Charge this population's budget."),
    ledger_option,
    click.option(
        "--row-map", type=PATH, help="Write the private map from released rows to original rows."
    ),
    click.option(
        "--keep-order", is_flag=True, help="Keep the original row order (not for publication)."
    ),
    threads_option,
    click.option(
        "--engine",
        metavar="auto|memory|columns|duckdb|database|spark",
        default="auto",
        show_default=True,
        help="Run the work on this engine. auto chooses by table size and never picks spark; "
        "database counts the records inside the database.",
    ),
    click.option("--master", metavar="URL", help="With spark: connect to this cluster's master."),
    click.option(
        "--staging",
        metavar="URL",
        help="With spark: exchange files through this folder, which all executors can reach.",
    ),
    click.option(
        "--memory", metavar="SIZE", help="Use at most this much memory, for example 2.5GB."
    ),
)
_SEED = click.option(
    "--seed",
    type=int,
    help="Draw reproducible random numbers; the release then carries no guarantee.",
)


def _command(
    name: str, *, method: str | None = None
) -> Callable[[Callable[..., None]], click.Command]:
    """A command that makes a release, by any method or by one."""

    def made(function: Callable[..., None]) -> click.Command:
        wrapped: Any = lambda **given: _make({"method": method, **given})  # noqa: E731
        wrapped.__doc__ = function.__doc__
        chosen = () if method else _METHOD
        options = (schema_option, *chosen, *_PLAN, *_OWNER, *FOLLOWING, *OUTPUT, _SEED, *SOURCE)
        wrapped = click.argument("table")(with_options(*options)(wrapped))
        command: MethodCommand = click.command(name, cls=MethodCommand)(wrapped)
        command.method = method
        return command

    return made


@_command("protect")
def protect() -> None:
    """Protect TABLE and write a release: data, manifest, data package.

    TABLE is a CSV, Parquet or Feather file, a database address (with --query), or one of
    the tables that come with sherd (:adult, :wine, :nursery; their schemas are used unless --schema
    is given). The method's parameters are options; `-m NAME --help` lists those of one method.

    \b
    sherd protect adult.csv --schema adult.yaml -m dp-um -e 1 -k 100 -o out/
    """


@_command("slice", method="slice")
def slice_table() -> None:
    """Slice TABLE into columns and buckets and write a release: `protect -m slice`.

    Nobody can assign a sensitive value to a person with probability above 1/l. This is not
    differential privacy.

    \b
    sherd slice adult.csv --schema adult.yaml --sensitive occupation --l 5 -o out/
    """


@_command("fragment", method="fragment")
def fragment() -> None:
    """Split TABLE into loosely associated fragments of true values: `protect -m fragment`.

    Constraints say which attributes may not be seen together. Sherd finds the fewest fragments that
    respect them, or checks the fragmentation you give it, and then groups tuples so that every
    sensitive association is hidden among K.

    \b
    sherd fragment patients.csv --schema patients.yaml \\
        --constraints constraints.yaml --looseness 12 --similar Education,Salary -o out/

    To release the table again after it has changed, keep a private record of the first release: add
    --key and --record to the command above, then run

    \b
    sherd fragment changed.csv --after out/ --old-record first.json \\
        --record second.json -o out2/
    """


def _make(given: dict[str, Any]) -> None:
    from sherd.release.destinations import check_destinations, destinations, send
    from sherd.release.private_files import CellKey, PrivateFiles

    _check_following(given)
    schema, plan, past = _asked(given)
    plan.check(schema)
    if given["explain"]:
        _explain(plan, schema, given["as_json"])
        return
    output = checked_output(given)
    places = destinations(given["to"])
    check_destinations(places, force=given["force"], tables=plan.spec.traits.tables)
    key_file = given["cell_key"]
    private = PrivateFiles(
        row_map=given["row_map"],
        record=given["record"],
        key_file=key_file,
        cell_key=None if key_file is None else CellKey.load_or_generate(key_file),
    )
    folders = [folder for folder in (output, given["after"]) if folder is not None]
    private.check(folders, plan, force=given["force"])
    ledger = _ledger(given["ledger_file"])
    if given["engine"] == "spark":
        with progress(plan.method) as bar:
            release = protect_on_cluster(given, schema, plan, output, ledger, bar)
    else:
        release = _protect_here(given, schema, plan, past, output, ledger, private)
    try:
        send(release.tables, places, force=given["force"])
    except UsageError as error:
        error.add_note(f"the release itself is complete in {output}")
        raise
    _print(release, output, schema, ledger, given)


def _protect_here(
    given: dict[str, Any],
    schema: Schema,
    plan: Plan,
    past: PrivateRecord | None,
    output: Path,
    ledger: Ledger | None,
    private: PrivateFiles,
) -> Release:
    """Protect the table on this machine, on the engine that was asked for or that it needs."""
    import sherd
    from sherd.release.protect import is_strict
    from sherd.release.table_source import open_source

    choice = chosen_engine(given, plan, schema)
    engine = choice.make(output.resolve().parent)
    read = open_source(
        given["table"],
        schema,
        given["query"],
        engine=choice.name,
        lenient=is_strict(plan),
        uncounted=uncounted if given["engine"] == "auto" else None,
    )
    with (
        progress(given["method"] or "protect") as bar,
        private.writing() as write,
        contextlib.closing(engine),
    ):
        return sherd.protect_to(
            output,
            read,
            schema,
            plan,
            ledger=ledger,
            population=given["population"],
            settings=sherd.Settings(
                seed=given["seed"],
                keep_order=given["keep_order"],
                threads=given["threads"],
                progress=bar,
                key=given["key"] if past is None else past.key,
                past=past,
                engine=engine,
                again=given["again"],
                cell_key=private.cell_key,
            ),
            format=given["form"],
            force=given["force"],
            spreadsheet_safe=given["spreadsheet_safe"],
            before_publishing=write,
        )


def _check_following(given: Mapping[str, Any]) -> None:
    """Refuse options of a release that follows another where some of them are missing."""
    if given["after"] is None:
        for name in ("old_record", "parameter_withdraw"):
            if given.get(name) is not None:
                option = name.removeprefix("parameter_").replace("_", "-")
                raise click.UsageError(
                    f"--{option} is only for a release that follows another (--after)."
                )
        if (given["key"] is None) != (given["record"] is None):
            raise click.UsageError("--key and --record must be given together.")
        return
    for name in ("old_record", "record"):
        if given[name] is None:
            option = name.replace("_", "-")
            raise click.UsageError(f"Missing option '--{option}', which --after needs.")
    own_schema = given["schema_file"] is not None or given["table"].startswith(":")
    if not own_schema and (given["missing"] is not None or given["outside"] is not None):
        raise click.UsageError(
            "--missing and --outside need --schema, because the old schema sets its own."
        )


def _asked(given: dict[str, Any]) -> tuple[Schema, Plan, PrivateRecord | None]:
    """The schema, the plan, and the record of the release that is followed, if any."""
    from sherd.release.method import find
    from sherd.release.plan import Plan
    from sherd.release.preceding import follow_release

    first = given["after"] is None
    own_schema = first or given["schema_file"] is not None or given["table"].startswith(":")
    schema = schema_of(given) if own_schema else None
    planned: dict[str, Any] = {}
    if given["plan_file"] is not None:
        planned = Plan.load(given["plan_file"]).as_data()
        _check_method(given["method"], planned)
    name = given["method"] or planned.get("method")
    if name is None:
        choice = choice_for(given["table"], schema)
        raise click.UsageError(f"Missing option '-m' / '--method'.\n{choice}")
    method = find(name)
    chosen = with_set(chosen_parameters(given, method), settings(given["extra"]))
    if not first:
        following = follow_release(
            name,
            given["after"],
            given["old_record"],
            schema=schema,
            key=given["key"],
            chosen={key: value for key, value in planned.items() if key != "method"} | chosen,
        )
        return following.schema, following.plan, following.past
    check_required(planned | chosen, method)
    assert schema is not None, "a first release has its own schema"
    return schema, Plan(**planned | {"method": name} | chosen), None


def _check_method(named: str | None, planned: Mapping[str, Any]) -> None:
    if named not in (None, planned["method"]):
        raise UsageError(
            "the plan and the command name different methods",
            must=repr(named),
            got=repr(planned["method"]),
            do="leave out --method, or choose another plan",
        )


def _explain(plan: Plan, schema: Schema, as_json: bool) -> None:
    from sherd.release.method import Explaining

    if not as_json:
        click.echo(plan.explain(schema))
        return
    spec = plan.spec
    more = spec.explain(plan, schema) if isinstance(spec, Explaining) else {}
    emit_json({"plan": plan.as_data(), **more, "guarantee": plan.guarantee(schema).as_data()})


def _ledger(path: str | None) -> Ledger | None:
    """The ledger to charge; what a dead run paid for and did not publish is published now."""
    from sherd.budget.ledger import Ledger
    from sherd.budget.storage import chosen_path
    from sherd.release.bundle import MANIFEST, digest

    place = chosen_path(path)
    if place is None:
        return None
    ledger = Ledger(place)
    for published in ledger.recover(lambda folder: digest(folder / MANIFEST)):
        click.echo(f"note: published {published}, which an interrupted run had paid for", err=True)
    return ledger


def _print(
    release: Release, folder: Path, schema: Schema, ledger: Ledger | None, given: dict[str, Any]
) -> None:
    from sherd.release.charging import population_of
    from sherd.release.method import Explaining, find

    manifest = release.manifest
    account = None
    if ledger is not None and manifest["budget"]["recorded"]:
        account = ledger.account(population_of(schema, given["population"]))
    if given["as_json"]:
        emit_release(release, folder, account=None if account is None else account.as_data())
        return
    follows = "" if given["after"] is None else f", which follows {given['after']}"
    rows = "1 row" if release.rows == 1 else f"{release.rows} rows"
    click.echo(f"released {rows} to {folder}{follows}")
    method = find(manifest["plan"]["method"])
    for line in method.told(manifest["facts"]) if isinstance(method, Explaining) else ():
        click.echo(line)
    print_promise(release)
    if account is not None:
        limit = "no limit is set" if account.limit is None else f"limit {account.limit}"
        click.echo(f"Budget: {account.spent} spent of '{account.population}' so far, {limit}.")
    beside = "" if given["after"] is None else f" --beside {given['after']}"
    ask = ", then ask it with sherd query" if method.traits.query else ""
    click.echo(f"next: sherd verify {folder}{beside}{ask}")
    if given["record"] is not None:
        click.echo(
            f"keep {given['record']} secret: it links what the release keeps apart, and the next "
            "release is made from it",
            err=True,
        )
    ordered = given["row_map"] is not None or given["keep_order"]
    if method.traits.of_records(manifest["plan"]) and not ordered:
        click.echo(
            "note: an audit that measures how many people are found again needs --row-map, which "
            "only this run can write",
            err=True,
        )
    print_findings(
        [
            finding
            for finding in release.findings
            if finding.attribute is None or finding.meaning.startswith("WARNING")
        ]
    )
