"""A method that another package ships: whole numbers rounded down to multiples of a step.

It stands for everybody's own method in the tests of the contract: nothing in Sherd names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sherd.errors import SchemaError
from sherd.guarantees import Adversary, Guarantee, NoGuarantee, Proposition, Unit
from sherd.release.method import Outcome, Parameter
from sherd.release.traits import Traits
from sherd.tables.schema import Type
from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sherd.release.method import Run
    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema


class Coarse:
    """Rounds whole numbers down."""

    name = "coarse"
    title = "Whole numbers rounded down"
    summary = "Rounds every whole number down to a multiple of a step."
    parameters = (
        Parameter(name="step", kind=int, least=1, required=True, help="the step to round to"),
    )
    traits = Traits(
        family="coarsening",
        rows_are_records=True,
        documents=("steps",),
        verifier="coarse_rows:verify",
        facts="coarse_rows:facts",
        alternative={"step": 10},
    )

    def check(self, plan: Plan, schema: Schema) -> None:
        """Only whole numbers can be rounded."""
        del plan
        for name in schema.protected:
            if schema[name].type is not Type.INTEGER:
                raise SchemaError(f"the attribute '{name}' is not a whole number")

    def guarantee(self, plan: Plan, schema: Schema) -> Guarantee:
        """None: rounding hides little."""
        del plan, schema
        return Guarantee(
            notion=NoGuarantee(reason="rounding proves nothing"),
            unit=Unit.RECORD,
            covers="nothing",
            adversary=Adversary.SEES_RELEASE,
            assumes=(),
            source=Proposition(work="coarse-rows", place="its documentation"),
        )

    def run(self, table: pa.Table, schema: Schema, plan: Plan, run: Run) -> Outcome:
        """Round, and shuffle the rows."""
        order = run.randomness.permutation(table.num_rows)
        step = pa.scalar(plan["step"], pa.int64())
        columns = {}
        for name in table.column_names:
            column = table.column(name)
            if name in schema.protected:
                whole = pc.divide(column.cast(pa.int64()), step)
                column = pc.multiply(whole, step)
            columns[name] = column.take(pa.array(order))
        return Outcome(
            tables={"data": pa.table(columns)},
            facts={"rows": table.num_rows},
            order_of=lambda: order,
            documents={"steps": dict.fromkeys(schema.protected, plan["step"])},
        )


def verify(
    tables: Mapping[str, pa.Table], manifest: Mapping[str, Any], documents: Mapping[str, Any]
) -> list[Check]:
    """Every released number is a multiple of the plan's step, and so says the document."""
    step = manifest["plan"]["step"]
    attributes = manifest["schema"]["attributes"]
    masked = [n for n, a in attributes.items() if a["role"] in ("quasi-identifier", "sensitive")]
    wrong = [
        name for name in masked if any(v % step for v in tables["data"].column(name).to_pylist())
    ]
    wrong += ["steps"] if set(documents.get("steps", {}).values()) != {step} else []
    return [Check(name="multiples", passed=not wrong, detail=", ".join(wrong) or "all are")]


def facts(
    tables: Mapping[str, pa.Table], manifest: Mapping[str, Any]
) -> dict[str, Callable[[Any], bool]]:
    """The number of rows."""
    del manifest
    return {"rows": lambda given: given == tables["data"].num_rows}


METHOD = Coarse()
