"""``sherd ledger``: what has been spent, whether the ledger is whole, and its limits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sherd.cli.options import PATH, CommandGroup, emit, emit_json, json_option
from sherd.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sherd.budget import Account, Amount, Entry, Ledger, Pending, Reservation


def _options(command: Callable[..., None]) -> Callable[..., None]:
    command = json_option(command)
    return click.option(
        "--ledger",
        "file",
        metavar="FILE",
        type=PATH,
        help="Use this ledger file. Default: $SHERD_LEDGER, else ~/.local/share/sherd/ledger.db.",
    )(command)


@click.group(cls=CommandGroup)
def ledger() -> None:
    """Show, check and limit each population's privacy budget."""


@ledger.command()
@click.argument("population", required=False)
@_options
def show(population: str | None, file: Path | None, as_json: bool) -> None:
    """Show all accounts, or the account of POPULATION with all its entries.

    Frees the reservations of runs that have died first.
    """
    book = _existing(file)
    accounts = _chosen(book.accounts(), population)
    entries = book.entries(population) if population is not None else []
    held = [r for r in book.reservations() if population in (None, r.population)]
    pending = book.pending()
    if as_json:
        count, head = book.head()
        shown: dict[str, Any] = {
            "ledger": str(book.path),
            "rows": count,
            "head": head,
            "accounts": [account.as_data() for account in accounts],
            "reservations": [reservation.as_data() for reservation in held],
            "pending": [artefact.as_data() for artefact in pending],
        }
        if population is not None:
            shown["entries"] = [entry.as_data() for entry in entries]
        emit_json(shown)
        return
    _print_accounts(accounts)
    _print_entries(entries)
    _print_unfinished(held, pending)


@ledger.command()
@_options
def verify(file: Path | None, as_json: bool) -> None:
    """Recompute the ledger's chain of hashes and its sums.

    Names every row that was changed, added, removed or cut off, and then exits with 4.
    """
    book = _existing(file)
    count = book.verify()
    _, head = book.head()
    emit(
        {"ledger": str(book.path), "rows": count, "head": head, "verified": True},
        f"{count} rows, all as they were written; head {head}",
        as_json=as_json,
    )


@ledger.command("set-limit")
@click.argument("population")
@click.argument("amount")
@click.option(
    "--of",
    type=click.Choice(["epsilon", "dp", "idp", "cost", "rho", "none", "looks"]),
    default="epsilon",
    show_default=True,
    help="Choose what to limit: the epsilon of differential and of individual differential privacy "
    "(each separately), only one of the two, the actual cost, rho, the number of releases without "
    "an epsilon, or the number of runs that read data and refused.",
)
@_options
def set_limit(population: str, amount: str, of: str, file: Path | None, as_json: bool) -> None:
    """Set the most that POPULATION may ever spend; the AMOUNT "none" removes the limit.

    A limit below what has already been spent is allowed and stops all further spending. Setting a
    limit opens an account if the population has none.
    """
    from sherd.budget import Amount, Ledger, default_path

    limit = None if amount.strip().lower() == "none" else Amount(amount)
    book = Ledger(file or default_path())
    book.set_limit(population, limit, of=of)
    account = book.account(population)
    if of not in ("epsilon", "dp", "idp"):
        _print_limit(account, of, as_json)
        return
    over = limit is not None and account.spent > limit
    if as_json:
        emit_json({**account.as_data(), "overspent": over})
    elif limit is None:
        click.echo(f"'{population}' has no limit; {account.spent} spent")
    else:
        click.echo(f"the limit of '{population}' is {limit}; {account.left} left")
    if over and not as_json:
        click.echo(
            f"{account.spent} is spent already, more than the limit: nothing more can be spent",
            err=True,
        )


def _print_limit(account: Account, of: str, as_json: bool) -> None:
    """What is left of a limit that is not on epsilon."""
    from sherd.budget.accounts import shown
    from sherd.budget.entries import COLUMN_WORDS

    column = account.columns[of]
    if as_json:
        emit_json({**account.as_data(), "overspent": column.left == 0})
    elif column.left is None or column.limit is None:
        click.echo(f"'{account.population}' has no limit on {COLUMN_WORDS[of]}")
    else:
        click.echo(
            f"the limit of '{account.population}' on {COLUMN_WORDS[of]} is {shown(column.limit)}; "
            f"{shown(column.left)} left"
        )


@ledger.command()
@click.argument("reservation")
@_options
def free(reservation: str, file: Path | None, as_json: bool) -> None:
    """Free the RESERVATION of a run that cannot be seen from here, by its ID.

    Reservations of runs that died on this machine are freed automatically; use this for a run in
    another container. If that run is still alive, it can no longer charge.
    """
    book = _existing(file)
    held = {one.id: one for one in book.reservations()}
    if reservation not in held:
        raise UsageError(
            "no such reservation is held", got=repr(reservation), do="run `sherd ledger show`"
        )
    book.free(held[reservation])
    freed = held[reservation]
    emit(
        {"freed": reservation, "amount": float(freed.amount)},
        f"freed {freed.amount} of '{freed.population}'",
        as_json=as_json,
    )


@ledger.command()
@_options
def recover(file: Path | None, as_json: bool) -> None:
    """Publish releases whose run paid for them but died before publishing.

    Nothing is charged again. A staged release is published only if every file is the one that was
    paid for, and never overwrites anything else.
    """
    published = [str(path) for path in _existing(file).recover(_artefact)]
    lines = [f"published {path}" for path in published] or ["nothing was left unpublished"]
    emit({"published": published}, *lines, as_json=as_json)


def _artefact(folder: Path) -> str:
    """The hash a release was charged with, empty where a file is not what its manifest says."""
    from sherd.release.bundle import MANIFEST, digest, read_manifest

    files = read_manifest(folder)["files"]
    whole = all(
        Path(name).name == name and digest(folder / name) == facts["sha256"]
        for name, facts in files.items()
    )
    return digest(folder / MANIFEST) if whole else ""


def _existing(file: Path | None) -> Ledger:
    """The ledger, which must be there: looking at one should not make one."""
    from sherd.budget import Ledger, default_path

    path = file or default_path()
    if not path.exists():
        raise UsageError(
            "there is no ledger yet",
            got=str(path),
            do="make a first release or run `sherd ledger set-limit`, which create it; or name "
            "another with --ledger",
        )
    return Ledger(path)


def _chosen(accounts: list[Account], population: str | None) -> list[Account]:
    if population is None:
        return accounts
    from sherd.budget.population_name import same

    chosen = [account for account in accounts if same(account.population, population)]
    if not chosen:
        raise UsageError(
            "the ledger knows no such population",
            got=repr(population),
            do=did_you_mean(population, [account.population for account in accounts])
            or "run `sherd ledger show`",
        )
    return chosen


def _print_accounts(accounts: list[Account]) -> None:
    if not accounts:
        click.echo("nothing has been spent, reserved or limited")
        return
    _print_table(
        "Accounts (epsilon)",
        ("population", "limit", "spent", "reserved", "left"),
        [
            (
                account.population,
                _or_none(account.limit),
                str(account.spent),
                str(account.reserved),
                _or_none(account.left),
            )
            for account in accounts
        ],
    )
    from sherd.budget.accounts import shown
    from sherd.budget.entries import COLUMN_WORDS

    _print_table(
        "What was spent, never added up",
        ("population", "of", "limit", "spent", "reserved", "left"),
        [
            (
                account.population,
                COLUMN_WORDS[name],
                "none" if column.limit is None else shown(column.limit),
                shown(column.spent),
                shown(column.reserved),
                "none" if column.left is None else shown(column.left),
            )
            for account in accounts
            for name, column in account.columns.items()
            if column.taken or column.limit is not None
        ],
    )
    for account in accounts:
        if account.concentrated is not None:
            epsilon, delta = account.concentrated
            click.echo(
                f"{account.population}: the releases with a ρ come to ({float(epsilon):.6g}, "
                f"{float(delta):g})-differential privacy together, at the sum of their δ"
            )


def _print_entries(entries: list[Entry]) -> None:
    if entries:
        _print_table(
            "Entries",
            ("row", "time", "kind", "amount", "method", "plan", "artefact", "note"),
            [
                (
                    str(entry.index),
                    entry.time,
                    entry.kind,
                    _or_none(entry.amount),
                    entry.method,
                    entry.plan_hash[:12],
                    entry.artefact[:12],
                    entry.note,
                )
                for entry in entries
            ],
        )


def _print_unfinished(held: list[Reservation], pending: list[Pending]) -> None:
    if held:
        _print_table(
            "Reserved by running releases",
            ("reservation", "population", "amount", "since", "process"),
            [(r.id, r.population, str(r.amount), r.time, str(r.process.pid)) for r in held],
        )
    if pending:
        _print_table(
            "Paid for, but not seen in place",
            ("row", "staged", "final"),
            [(str(p.index), str(p.staged), str(p.final)) for p in pending],
        )


def _or_none(amount: Amount | None) -> str:
    return "none" if amount is None else str(amount)


def _print_table(title: str, names: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """A drawn table for a person, tab-separated lines for a program."""
    if not sys.stdout.isatty():
        click.echo(f"# {title}")
        for line in (names, *lines):
            click.echo("\t".join(line))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, overflow="fold")
    for line in lines:
        table.add_row(*(Text(cell) for cell in line))  # Text: a name in brackets is no markup
    Console().print(table)
