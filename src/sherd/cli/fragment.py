"""``sherd fragment``: a table split by confidentiality constraints, with a loose association."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.fragment_record import (
    check_record,
    follow_old,
    old_record,
    old_schema,
    write_record,
)
from sherd.cli.options import emit_json, open_source, progress, settings
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
from sherd.errors import PlanError

if TYPE_CHECKING:
    from sherd.release.bundle import Release
    from sherd.release.plan import Plan


@click.command()
@click.argument("table")
@schema_option
@click.option(
    "--constraints", "constraints_file", metavar="FILE", help="Confidentiality constraints (YAML)."
)
@click.option("--looseness", type=int, metavar="K", help="Hide each association among K.")
@click.option(
    "--fragments", "fragments_file", metavar="FILE", help="A fragmentation to use (YAML lists)."
)
@click.option("--similar", metavar="A,B", help="Attributes to keep alike within groups.")
@click.option("--sizes", metavar="N,N", help="Least group size of each fragment.")
@click.option(
    "--objective",
    type=click.Choice(["fewest", "affinity", "workload"]),
    help="What the fragmentation is chosen for.",
)
@click.option("--suppress", type=float, metavar="SHARE", help="Tuples that may be left out.")
@click.option("--strategy", type=click.Choice(["cells", "nearest"]), help="How tuples are placed.")
@click.option("--window", type=int, metavar="N", help="Nearest groups tried for a tuple.")
@click.option("--key", metavar="ATTRIBUTE", help="What names a tuple over time, for --record.")
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the private record from which a next release is made.",
)
@click.option(
    "--after",
    type=click.Path(path_type=Path),
    metavar="OLD",
    help="The release this one follows: TABLE is what became of its table.",
)
@click.option(
    "--old-record",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The private record of that release.",
)
@click.option(
    "--withdraw",
    type=click.Choice(["closed", "groups"]),
    help="What goes with a deleted tuple: all its groups are associated with (default), or "
    "its groups only.",
)
@click.option(
    "--set", "extra", multiple=True, metavar="NAME=VALUE", help="Any other parameter of the method."
)
@source_options
@seed_option
@output_options
def fragment(**given: Any) -> None:
    """Split TABLE into fragments that keep true values, and associate them loosely.

    Constraints say which attributes may not be seen together. The fewest fragments that
    respect them are found, or a given fragmentation is checked; then tuples are grouped so
    that every sensitive association is hidden among K.

    \b
    sherd fragment patients.csv --schema patients.yaml \\
        --constraints constraints.yaml --looseness 12 --similar Education,Salary -o out/

    After the table changed, a next release is made from the private record of the first:
    add --key and --record to the above, then

    \b
    sherd fragment changed.csv --after out/ --old-record first.json \\
        --record second.json -o out2/
    """
    from sherd.release.protect import Settings, protect_to

    past = old_record(given)
    schema = schema_of(given) if past is None else old_schema(given)
    chosen = _chosen(given)
    plan = _plan(chosen) if past is None else follow_old(given, past, schema, chosen)
    if given["explain"]:
        _explain(plan, schema, given["as_json"])
        return
    output = checked_output(given)
    check_record(given, output)
    with progress("fragment") as bar, contextlib.ExitStack() as undo:
        release = protect_to(
            output,
            open_source(given["table"], schema, given["query"]),
            schema,
            plan,
            settings=Settings(
                seed=given["seed"],
                progress=bar,
                key=given["key"] if past is None else past.key,
                past=past,
            ),
            format=given["form"],
            force=given["force"],
            spreadsheet_safe=given["spreadsheet_safe"],
            before_publishing=lambda made: write_record(made, given["record"], undo),
        )
    _print(release, output, given)


def _plan(chosen: dict[str, Any]) -> Plan:
    from sherd.release.plan import Plan

    if "constraints" not in chosen:
        raise click.UsageError("Missing option '--constraints'.")
    return Plan(method="fragment", **chosen)


def _chosen(given: dict[str, Any]) -> dict[str, Any]:
    """The parameters that were given: what the files say, and what options say over them."""
    from sherd.methods.fragmenting.constraints import PLAN_KEYS, Constraints
    from sherd.tables.files import read_yaml

    chosen: dict[str, Any] = {}
    if given["constraints_file"] is not None:
        data = read_yaml(Path(given["constraints_file"]))
        chosen["constraints"] = Constraints.from_data(data).as_data()
        chosen |= {key: data[key] for key in PLAN_KEYS if data.get(key) is not None}
    if given["fragments_file"] is not None:
        fragments = read_yaml(Path(given["fragments_file"]))
        if isinstance(fragments, dict):
            fragments = fragments.get("fragments")
        chosen["fragments"] = fragments
    if given["similar"] is not None:
        chosen["similar"] = [name.strip() for name in given["similar"].split(",")]
    if given["sizes"] is not None:
        try:
            chosen["sizes"] = [int(size) for size in given["sizes"].split(",")]
        except ValueError:
            raise PlanError(
                "--sizes cannot be read", must="whole numbers such as 4,3", got=given["sizes"]
            ) from None
    for name in ("looseness", "objective", "suppress", "strategy", "window", "withdraw"):
        if given[name] is not None:
            chosen[name] = given[name]
    return chosen | settings(given["extra"])


def _explain(plan: Plan, schema: Any, as_json: bool) -> None:
    from sherd.methods.fragmenting.fragment import layout

    guarantee = plan.guarantee(schema)
    found = layout(plan, schema)
    if as_json:
        emit_json(
            {
                "plan": plan.as_data(),
                "fragments": [list(f) for f in found.fragments],
                "withheld": list(found.withheld),
                "proved_best": found.proved,
                "minimal": found.minimal,
                "guarantee": guarantee.as_data(),
            }
        )
        return
    for at, names in enumerate(found.fragments, 1):
        click.echo(f"Fragment {at}: {', '.join(names)}")
    if found.withheld:
        click.echo(f"Withheld: {', '.join(found.withheld)}")
    if not found.minimal:
        click.echo("Two of these fragments could be merged without breaking a constraint.")
    elif not found.proved and plan["fragments"] is None:
        click.echo("The time limit ended the search: a better fragmentation may exist.")
    click.echo(guarantee.words())


def _print(release: Release, folder: Path, given: dict[str, Any]) -> None:
    manifest = release.manifest
    if given["as_json"]:
        emit_release(release, folder)
        return
    facts = manifest["facts"]
    for at, names in enumerate(facts["fragments"], 1):
        click.echo(f"Fragment {at} (groups of {facts['sizes'][at - 1]}): {', '.join(names)}")
    if facts["withheld"]:
        click.echo(f"Withheld: {', '.join(facts['withheld'])}")
    if "suppressed" in facts:
        rows = release.tables["fragment-1"].num_rows
        click.echo(f"released {rows} tuples to {folder}, {facts['suppressed']} left out")
    else:
        rows = max(table.num_rows for table in release.tables.values())
        click.echo(f"released {rows} tuples to {folder}, which follows {given['after']}")
    print_promise(release)
    beside = "" if given["after"] is None else f" --beside {given['after']}"
    click.echo(f"next: sherd verify {folder}{beside}, then ask it with sherd query")
    if given["record"] is not None:
        click.echo(
            f"keep {given['record']} secret: it links what the release keeps apart, and the next "
            "release is made from it",
            err=True,
        )
    print_findings(release.findings)
