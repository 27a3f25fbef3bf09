"""``sherd protect --engine spark``: the table is read and protected on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sherd.budget.ledger import Ledger
    from sherd.release.bundle import Release
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

_ONLY_HERE = {"row_map": "--row-map", "record": "--record", "key": "--key", "query": "--query"}


def protect_on_cluster(
    given: dict[str, Any],
    schema: Schema,
    plan: Plan,
    output: Path,
    ledger: Ledger | None,
    progress: Callable[[str, int, int], None],
) -> Release:
    """Protect the table where Spark finds it, and write the bundle on this machine."""
    from sherd.engines.spark_stages import spark_session
    from sherd.release.distributed_release import protect_distributed
    from sherd.release.protect import PAID, Settings, protect_to
    from sherd.release.table_source import counted_where_it_is

    for name, option in _ONLY_HERE.items():
        if given[name] is not None:
            raise UsageError(
                f"the engine spark does not take the option {option}",
                do="leave it out, or choose the engine memory, columns or duckdb",
            )
    settings = Settings(seed=given["seed"], keep_order=given["keep_order"], progress=progress)
    promised = plan.guarantee(schema)
    session = spark_session(given["master"])
    frame = _frame(session, given["table"])
    counted = counted_where_it_is(frame, plan)
    if counted is not None:
        return protect_to(
            output,
            lambda: counted,
            schema,
            plan,
            ledger=ledger,
            population=given["population"],
            settings=settings,
            format=given["form"],
            force=given["force"],
            spreadsheet_safe=given["spreadsheet_safe"],
        )
    release = protect_distributed(
        frame,
        schema,
        plan,
        promised,
        settings,
        ledger=ledger,
        population=given["population"],
        staging=given["staging"],
    )
    try:
        release.save(
            output,
            format=given["form"],
            force=given["force"],
            spreadsheet_safe=given["spreadsheet_safe"],
        )
    except BaseException as error:
        error.add_note(f"{PAID.partition(';')[0]}; its parts lie in {release.parts}")
        raise
    release.remove_parts()
    return release.collected


def _frame(session: Any, source: str) -> Any:
    """The table as Spark reads it: CSV by its suffix, Parquet otherwise."""
    name = source.lower()
    if name.endswith((".csv", ".csv.gz", ".tsv")):
        separator = "\t" if name.endswith(".tsv") else ","
        return session.read.option("header", True).option("sep", separator).csv(source)
    return session.read.parquet(source)
