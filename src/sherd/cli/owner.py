"""``sherd owner``: take part in joint releases without letting anybody in."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from sherd.cli.home_folder import open_journal, open_owner, owner_option
from sherd.cli.options import (
    PATH,
    CommandGroup,
    audit_log_options,
    emit,
    emit_json,
    host_option,
    in_words,
    json_option,
    port_option,
    printable,
    show_audit_log,
    with_options,
)


@click.group(cls=CommandGroup)
def owner() -> None:
    """Take part in joint releases as an owner.

    The agent only makes outgoing connections and refuses what its policy forbids.

    \b
    sherd owner init --name north --source patients.csv --schema patients.yaml --key ssn
    sherd owner init --enrolment north.enrolment.json --fingerprint 1234-…
    sherd owner run
    sherd owner requests
    sherd owner approve ROUND
    sherd owner page
    """


@owner.command()
@owner_option
@click.option("--name", help="Set the name under which the aggregator knows this owner.")
@click.option("--source", help="Read the table from this file or database address.")
@click.option("--schema", "schema_file", type=PATH, help="Read the table's schema (YAML).")
@click.option("--query", help="Run this SQL if the source is a database.")
@click.option(
    "--key",
    "key_columns",
    multiple=True,
    help="Link people by this column, or by several columns together if repeated.",
)
@click.option(
    "--normalise",
    type=click.Choice(["exact", "letters"]),
    default="exact",
    show_default=True,
    help="Compare keys exactly, or by letters and digits only, ignoring case and accents.",
)
@click.option("--population", help="Charge this population's budget. Default: the owner's name.")
@click.option(
    "--witness", help="Keep a copy of the ledger's head in this file, outside the folder."
)
@click.option(
    "--keeps",
    type=click.Choice(["data", "manifest"]),
    default="data",
    show_default=True,
    help="Fetch joint releases with their data, or only their manifests.",
)
@click.option("--enrolment", type=PATH, help="Read the operator's answer.")
@click.option(
    "--fingerprint",
    "given",
    help="Require this fingerprint, which the aggregator's operator told you.",
)
@json_option
def init(home: Path, as_json: bool, **given: Any) -> None:
    """Set up the folder, or read the operator's answer (--enrolment)."""
    from sherd.extras import OWNER, require

    require(OWNER)
    if given["enrolment"] is not None:
        _join(home, given["enrolment"], given["given"], as_json)
        return
    for name, option in (("name", "name"), ("source", "source"), ("schema_file", "schema")):
        if given[name] is None:
            raise click.UsageError(f"Missing option '--{option}'.")
    from sherd.federation.owner.owner_home import OwnerHome, OwnerSettings
    from sherd.signing_keys import fingerprint
    from sherd.tables.schema import Schema
    from sherd.tables.sql import is_address

    schema = Schema.load(given["schema_file"])
    for column in given["key_columns"]:
        schema[column]  # says which attributes there are
    source: str = given["source"]
    folder = OwnerHome.make(
        home,
        OwnerSettings(
            name=given["name"],
            source=source if is_address(source) else str(Path(source).absolute()),
            schema=str(given["schema_file"].absolute()),
            query=given["query"],
            key_columns=list(given["key_columns"]),
            normalise=given["normalise"],
            population=given["population"] or schema.population or given["name"],
            witness=given["witness"],
            keeps=given["keeps"],
        ),
    )
    shown, request = fingerprint(folder.key.public), home / "request.json"
    emit(
        {"home": str(home), "request": str(request), "fingerprint": shown},
        f"owner '{given['name']}' is set up in {home}",
        f"fingerprint of its key: {shown}",
        f"next: edit {folder.policy_file} (it refuses everything now), send",
        f"  {request} to the operator and tell the fingerprint by telephone",
        as_json=as_json,
    )


def _join(home: Path, answer_file: Path, given: str | None, as_json: bool) -> None:
    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.wire.enrolment import compare, read_answer

    answer = read_answer(answer_file)
    compare(given, answer.key, "aggregator")
    folder = OwnerHome(home)
    folder.join(answer)
    emit(
        {"aggregator": answer.aggregator, "url": answer.url},
        f"enrolled with '{answer.aggregator}' at {answer.url}",
        f"next: name it in {folder.policy_file}, then `sherd owner run`",
        as_json=as_json,
    )


@owner.command()
@owner_option
@click.option(
    "--wait",
    default=20.0,
    show_default=True,
    help="Poll for messages for this many seconds at a time.",
)
@click.option("--until-ended", type=int, help="Stop after this many rounds have ended.")
@click.option("--metrics", help="Answer Prometheus at this HOST:PORT. Default: nowhere.")
def run(home: Path, wait: float, until_ended: int | None, metrics: str | None) -> None:
    """Run the agent: connect to the aggregator, check, protect what is approved, deliver."""
    folder = open_owner(home)
    from sherd.federation.owner.agent import Agent
    from sherd.federation.owner.owner_metrics import OwnerMetrics, serve_metrics
    from sherd.federation.protocol.states import OWNER_ENDS
    from sherd.federation.wire.log_lines import send_logs

    enrolled = folder.enrolled
    folder.check_recovered()
    send_logs("sherd.owner", owner=folder.settings.name)
    with folder.locked(), closing(folder.client()) as client:
        agent = Agent(folder, client)
        signal.signal(signal.SIGTERM, lambda *_: agent.stop())

        def enough() -> bool:
            if until_ended is None:
                return False
            ended = [d for d in agent.journal.rounds(all=True) if d.state in OWNER_ENDS]
            # Releases are still to be fetched and countersigned where that failed at first.
            left = agent.journal.unsent() or agent.released
            return len(ended) >= until_ended and not left

        click.echo(f"owner '{folder.settings.name}' calls {enrolled['url']}", err=True)
        told = OwnerMetrics(folder, lambda: time.monotonic() - client.answered_at)
        with closing(agent.journal), serve_metrics(metrics, told):
            agent.run(wait=min(wait, 25.0), until=enough)


@owner.command("check")
@owner_option
@json_option
def check_home(home: Path, as_json: bool) -> int:
    """Check that the folder is complete and that the table fits its schema and the policy."""
    from sherd.cli.folder_checks import owner_checks, show

    return show(owner_checks(open_owner(home)), as_json=as_json)


@owner.command()
@owner_option
@click.option("--preview", is_flag=True, help="Show what each would cost, for your eyes only.")
@json_option
def requests(home: Path, preview: bool, as_json: bool) -> None:
    """List the rounds that await a person's approval."""
    folder, journal = open_journal(home)
    from sherd.federation.aggregator.round_view import owner_report
    from sherd.federation.owner.approvals import waiting

    reports = []
    for data in waiting(journal):
        report = owner_report(data)
        if preview:
            from sherd.federation.owner.approvals import preview as look

            report["preview"] = look(folder, data)
        reports.append(report)
    if as_json:
        emit_json(reports)
        return
    for report in reports:
        purpose = printable(report["purpose"])
        click.echo(f"round '{report['round']}' of {report['aggregator']}: {purpose}")
        for key in ("kind", "method", "own_epsilon", "parameters", "attributes", "deadline"):
            click.echo(f"  {key.replace('_', ' ')}: {in_words(report[key])}")
        for name, distance in report.get("preview", {}).get("distance", {}).items():
            click.echo(f"  internal: {name}: {in_words(distance)}")
        for each in report.get("preview", {}).get("findings", []):
            click.echo(f"  internal: {each['name']}: {each['value']} ({each['meaning']})")
        click.echo(f"  `sherd owner approve {report['round']}` or `refuse`")
    if not reports:
        click.echo("nothing waits for approval")


@owner.command()
@owner_option
@host_option
@port_option
def page(home: Path, host: str, port: int) -> None:
    """Show requests in a browser on this machine, to approve or refuse them there.

    Same as `sherd studio --owner HOME`. Prints an address that holds a secret and works once.
    """
    from sherd.cli.studio import owner_home, serve
    from sherd.extras import STUDIO, require

    require(STUDIO)
    serve(owner_home(home), host=host, port=port, browser=False)


def _decide(home: Path, name: str, decision: str) -> None:
    """Write a person's decision into the journal, where the agent finds it."""
    _, journal = open_journal(home)
    from sherd.federation.owner.approvals import decide

    decide(journal, name, decision)


@owner.command()
@owner_option
@click.argument("name")
def approve(home: Path, name: str) -> None:
    """Approve a round: the agent then signs the plan, protects, charges and delivers."""
    _decide(home, name, "approve")
    click.echo(f"round '{name}' is approved; the agent goes on when it runs")


@owner.command()
@owner_option
@click.argument("name")
def refuse(home: Path, name: str) -> None:
    """Refuse a round; the aggregator learns that a person refused, but not why."""
    _decide(home, name, "refuse")
    click.echo(f"round '{name}' is refused")


@owner.command()
@owner_option
@click.option("--audit", is_flag=True, help="Also show the audit log.")
@json_option
def status(home: Path, audit: bool, as_json: bool) -> None:
    """Show all rounds and what has been spent."""
    from sherd.budget.ledger import Ledger
    from sherd.federation.aggregator.round_view import owner_report

    folder, journal = open_journal(home)
    reports = [owner_report(data) for data in journal.rounds(all=True)]
    account = Ledger(folder.ledger).account(folder.settings.population)
    if as_json:
        data: dict[str, Any] = {"rounds": reports, "account": account.as_data()}
        if audit:
            data["audit"] = [list(line) for line in journal.audit()]
        emit_json(data)
        return
    for report in reports:
        why = f" ({report['reason']})" if report["reason"] else ""
        click.echo(f"{report['round']}  {report['state']}{why}")
    limit = "no limit" if account.limit is None else f"limit {account.limit}"
    click.echo(f"spent {account.spent} of '{account.population}', {limit}")
    if audit:
        for line in journal.audit():
            click.echo(printable("  ".join(line)))


@owner.command("audit")
@owner_option
@with_options(*audit_log_options)
def audit_log(home: Path, target: Path | None, source: Path | None, head: str | None) -> None:
    """Show the audit log after checking that no line was changed, added or removed.

    Keep the last hash printed, or an export, where the agent cannot write: it reveals whether
    the end of the log was cut off.
    """
    _, journal = open_journal(home)
    with closing(journal):
        show_audit_log(journal.audit_lines, target, source, head)


@owner.command()
@owner_option
@click.option("-o", "--output", type=PATH, required=True, help="Write the backup to this file.")
def backup(home: Path, output: Path) -> None:
    """Back up the folder to one file while the agent runs.

    The file holds the owner's keys and the seed of its noise: protect it like the folder. It does
    not hold the table.
    """
    folder = open_owner(home)
    from sherd.federation.owner.recovery import back_up_owner

    back_up_owner(folder, output)
    click.echo(f"backup is in {output}; it holds the owner's keys and the seed of its noise")


@owner.command()
@click.argument("backup_file", metavar="BACKUP", type=PATH)
@click.option("--home", required=True, type=PATH, help="Restore to this new folder.")
def restore(backup_file: Path, home: Path) -> None:
    """Restore BACKUP to a new folder. Stop the agent of the old folder first.

    The backup's ledger lacks what was spent since: the agent refuses to run until `sherd owner
    recover` has charged it.
    """
    from sherd.extras import OWNER, require

    require(OWNER)
    from sherd.federation.owner.recovery import restore_owner

    name = restore_owner(backup_file, home).settings.name
    click.echo(f"owner '{name}' is restored to {home}")
    click.echo(f"next: `sherd owner recover --home {home}`, then run")


@owner.command()
@owner_option
@json_option
def recover(home: Path, as_json: bool) -> None:
    """Bring a folder restored from a backup back into service.

    Charges every plan that this owner signed but its ledger lacks, since the plan may have been
    carried out. Restore the whole folder first, including its keys and seed.
    """
    folder, journal = open_journal(home)
    from sherd.budget.ledger import Ledger
    from sherd.federation.owner.recovery import recover as recover_folder

    with folder.locked(), closing(folder.client()) as client, closing(journal):
        done = recover_folder(folder, client, Ledger(folder.ledger), journal)
    lines = [
        f"round '{each.round}' {'was' if each.delivered else 'may have been'} delivered: "
        f"{each.epsilon} of epsilon charged"
        for each in done
    ]
    lines.append(f"{len(done)} rounds were charged; the agent can run again")
    emit([vars(each) for each in done], *lines, as_json=as_json)


@owner.command()
@owner_option
def renew(home: Path) -> None:
    """Get a new key and certificate now; the agent does so 30 days before expiry.

    Restart a running agent to use it.
    """
    folder = open_owner(home)
    from sherd.federation.owner.agent_duties import renew as renew_certificate

    with closing(folder.client()) as client:
        days = renew_certificate(folder, client)
    click.echo(f"the certificate is good for {days} days")
