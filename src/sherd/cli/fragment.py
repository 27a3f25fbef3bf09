"""``sherd fragment``: a table split by confidentiality constraints, with a loose association."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
    from sherd.plan import Plan
    from sherd.release import Release


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
    """
    from sherd.protection import Settings, protect_to

    schema = schema_of(given)
    plan = _plan(given)
    if given["explain"]:
        _explain(plan, schema, given["as_json"])
        return
    output = checked_output(given)
    with progress("fragment") as bar:
        release = protect_to(
            output,
            open_source(given["table"], schema, given["query"]),
            schema,
            plan,
            settings=Settings(seed=given["seed"], progress=bar),
            format=given["form"],
            force=given["force"],
            spreadsheet_safe=given["spreadsheet_safe"],
        )
    _print(release, output, given["as_json"])


def _plan(given: dict[str, Any]) -> Plan:
    """The plan: what the files say, and what options say over them."""
    from sherd.fragments.constraints import PLAN_KEYS, Constraints
    from sherd.plan import Plan
    from sherd.tables.files import read_yaml

    if given["constraints_file"] is None:
        raise click.UsageError("Missing option '--constraints'.")
    data = read_yaml(Path(given["constraints_file"]))
    chosen: dict[str, Any] = {"constraints": Constraints.from_data(data).as_data()}
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
    for name in ("looseness", "objective", "suppress", "strategy", "window"):
        if given[name] is not None:
            chosen[name] = given[name]
    return Plan(method="fragment", **(chosen | settings(given["extra"])))


def _explain(plan: Plan, schema: Any, as_json: bool) -> None:
    from sherd.fragments.method import layout

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


def _print(release: Release, folder: Path, as_json: bool) -> None:
    manifest = release.manifest
    if as_json:
        emit_release(release, folder)
        return
    facts = manifest["facts"]
    for at, names in enumerate(facts["fragments"], 1):
        click.echo(f"Fragment {at} (groups of {facts['sizes'][at - 1]}): {', '.join(names)}")
    if facts["withheld"]:
        click.echo(f"Withheld: {', '.join(facts['withheld'])}")
    rows = release.tables["fragment-1"].num_rows
    click.echo(f"released {rows} tuples to {folder}, {facts['suppressed']} left out")
    print_promise(release)
    click.echo(f"next: sherd verify {folder}, then ask it with sherd query")
    print_findings(release.findings)
