"""Protecting a Spark DataFrame: the same order of events, on a cluster.

The ledger reserves; rows are read and the noise is committed; the ledger is charged with the
fingerprint of what was committed; only then is the release made. A run that dies after the
charge has spent its budget and released nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from sherd.engines.spark_stages import SparkStages, is_spark_frame
from sherd.errors import PlanError
from sherd.release.bundle import Release, Staged
from sherd.release.charging import chosen_ledger, cost_of, looking, reserved
from sherd.release.manifest import manifest_of
from sherd.release.method import Distributed, Finding

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from sherd.budget.ledger import Ledger
    from sherd.guarantees import Guarantee
    from sherd.release.plan import Plan
    from sherd.release.protect import Settings
    from sherd.tables.prepare import Treated
    from sherd.tables.schema import Schema


__all__ = ["DistributedRelease", "is_spark_frame", "protect_distributed"]


@dataclass(frozen=True, kw_only=True, repr=False)
class DistributedRelease(Release):
    """What protecting a Spark DataFrame gives back.

    ``table`` is a DataFrame over the committed Parquet parts in the folder ``parts``, which stay
    there until you remove them. Nothing of them is on this machine until you ask for
    ``collected``, or save the release as a bundle.
    """

    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    frame: Any = None
    parts: str
    count: int
    stages: SparkStages

    @property
    def table(self) -> Any:
        """The released rows as a Spark DataFrame."""
        return self.frame

    @property
    def rows(self) -> int:
        """How many rows were released."""
        return self.count

    @cached_property
    def collected(self) -> Release:
        """The same release on this machine, which must have room for it."""
        import pyarrow as pa

        table = (
            self.frame.toArrow()
            if hasattr(self.frame, "toArrow")
            else pa.Table.from_pandas(self.frame.toPandas(), preserve_index=False)
        )
        return Release(tables={"data": table}, manifest=self.manifest, findings=self.findings)

    def remove_parts(self) -> None:
        """Remove the committed parts; what was collected or saved stays."""
        self.stages.remove()

    def stage(self, folder: str | Path, **options: Any) -> Staged:
        """Write and sync the release as a bundle, which ``sherd verify`` takes."""
        return self.collected.stage(folder, **options)


def protect_distributed(
    frame: Any,
    schema: Schema,
    plan: Plan,
    promised: Guarantee,
    settings: Settings,
    *,
    ledger: Ledger | Literal["default"] | None = "default",
    population: str | None = None,
    staging: str | None = None,
) -> DistributedRelease:
    """Protect a Spark DataFrame where it is."""
    from sherd.tables.conform import check_columns

    method = plan.spec
    if not isinstance(method, Distributed):
        raise PlanError(
            f"the method '{plan.method}' does not run on the engine 'spark'",
            must="one of the five ranking methods, or one that needs nothing but counts",
            do="take a sample that fits into memory: frame.toPandas()",
        )
    book = chosen_ledger(ledger, population)
    run = settings.run(None)
    stages = SparkStages(frame.sparkSession, staging, progress=run.progress)
    try:
        with reserved(book, plan, schema, population) as reservation:
            with looking(book, reservation):
                check_columns(frame.columns, schema, shown="the DataFrame")
                made = method.commit_on_cluster(frame, schema, plan, run, stages)
            manifest = manifest_of(schema, plan, promised, settings, reservation)
            manifest |= {"facts": {"rows": made.rows}}
            findings = (*treatments(made.treated), *made.findings)
            if book is not None and reservation is not None:
                told = Release(tables={}, manifest=manifest, findings=findings)
                cost = cost_of(told, schema, reservation)
                book.charge(reservation, artefact_sha256=made.artefact, cost=cost)
        table = made.release()
    except BaseException:
        stages.remove()
        raise
    stages.remove(but="release")
    return DistributedRelease(
        frame=table,
        parts=f"{stages.folder}/release",
        count=made.rows,
        stages=stages,
        manifest=manifest,
        findings=findings,
    )


def treatments(treated: tuple[Treated, ...]) -> list[Finding]:
    """What was done to cells, the worst first."""
    return [
        Finding(
            name=f"share {one.how}",
            attribute=one.attribute,
            value=one.share,
            meaning=one.meaning(),
        )
        for one in sorted(treated, key=lambda one: -one.share)
    ]
