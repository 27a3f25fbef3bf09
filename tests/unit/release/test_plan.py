"""Plans: checked when made, frozen, written and read back."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from sherd.errors import FormatError, PlanError, SchemaError, UsageError
from sherd.release.plan import Plan
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = Schema.from_data(
    {"attributes": {"x": {"type": "boolean"}, "id": {"role": "identifier"}}, "missing": "refuse"}
)


def test_defaults_are_filled_in() -> None:
    """What is not given has the method's default, or is None."""
    plan = Plan(method="dp-um", epsilon=1, k=5)
    assert plan.method == "dp-um"
    assert plan["guarantee"] == "paper"
    assert plan["weights"] is None
    assert plan.parameters["category_order"] == "declared"
    assert plan.spec.name == "dp-um"


def test_a_plan_is_frozen() -> None:
    """Neither its parameters nor the mappings in them can be changed."""
    plan = Plan(method="dp", epsilon=1, weights={"x": 2})
    with pytest.raises(TypeError):
        plan.parameters["epsilon"] = 2  # type: ignore[index]
    with pytest.raises(TypeError):
        plan["weights"]["x"] = 3


def test_a_guarantee_is_worked_out_once_for_each_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """It follows from plan and schema alone, and a run asks for it several times."""
    plan, other = (
        Plan(method="dp", epsilon=1),
        Schema.from_data({"attributes": {"y": {"type": "boolean"}}}),
    )
    asked: list[Schema] = []
    promise = type(plan.spec).guarantee

    def counted(spec: Any, plan: Plan, schema: Schema) -> Any:
        asked.append(schema)
        return promise(spec, plan, schema)

    monkeypatch.setattr(type(plan.spec), "guarantee", counted)
    first = plan.guarantee(SCHEMA)
    assert plan.guarantee(SCHEMA) is first
    assert plan.guarantee(other) is not first
    assert asked == [SCHEMA, other]
    refused = Schema.from_data({"attributes": {"id": {"role": "identifier"}}})
    for _again in range(2):
        with pytest.raises(SchemaError):
            plan.guarantee(refused)


def test_equal_plans_are_equal() -> None:
    """By what they say, defaults included; another number is another plan."""
    one = Plan(method="dp", epsilon=1)
    two = Plan(method="dp", epsilon=1.0, guarantee="paper")
    assert one == two
    assert hash(one) == hash(two)
    assert one.hash == two.hash
    assert one != Plan(method="dp", epsilon=2)
    assert one != "dp"
    assert repr(one).startswith("Plan(method='dp', epsilon=1.0")


def test_epsilon_is_the_fraction_that_was_written() -> None:
    """Not the float that is nearest to it."""
    assert Plan(method="dp", epsilon=0.1).exact("epsilon") == Fraction(1, 10)
    assert Plan(method="dp", epsilon=1e-05).exact("epsilon") == Fraction(1, 100_000)


@pytest.mark.parametrize("name", ["plan.json", "plan.yaml"])
def test_a_plan_survives_a_file(tmp_path: Path, name: str) -> None:
    """Mappings and lists included."""
    plan = Plan(method="dp-um", epsilon=0.5, k=7, weights={"x": 2}, k_of={"x": 9})
    plan.save(tmp_path / name)
    assert Plan.load(tmp_path / name) == plan
    lists = Plan(method="anatomy", l=2, sensitive=["x"])
    lists.save(tmp_path / name)
    assert Plan.load(tmp_path / name) == lists
    assert lists["sensitive"] == ("x",)


@pytest.mark.parametrize("data", [None, [], {}, {"method": 3}, {"epsilon": 1}])
def test_what_is_no_plan_is_refused(data: Any) -> None:
    """A mapping with a method is the least."""
    with pytest.raises(FormatError, match="this is not a plan"):
        Plan.from_data(data)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(UsageError, match="does not exist"):
        Plan.load(tmp_path / "none.yaml")


def test_unknown_and_missing_parameters() -> None:
    """Each with a hint; a key called ``self`` is only an unknown one."""
    with pytest.raises(PlanError, match="did you mean 'epsilon'"):
        Plan(method="dp", epsilonn=1)
    with pytest.raises(PlanError, match="has no parameter 'self'"):
        Plan.from_data({"method": "dp", "epsilon": 1, "self": 2})
    with pytest.raises(PlanError, match="needs the parameter 'epsilon'"):
        Plan(method="dp")
    with pytest.raises(PlanError, match="has no parameter 'k'") as caught:
        Plan(method="dp", epsilon=1, k=3)
    assert caught.value.exit_code == 2


def test_a_plan_explains_itself_without_data() -> None:
    """What is done, what is left out, and the promise."""
    text = Plan(method="dp", epsilon=1).explain(SCHEMA)
    assert "Masks: x." in text
    assert "Leaves out: id." in text
    assert "Promise: ε-differential privacy with ε = 1" in text


def test_a_guarantee_is_given_only_for_a_plan_that_fits() -> None:
    """The schema is checked first."""
    with pytest.raises(SchemaError, match="has no domain"):
        Plan(method="dp", epsilon=1).guarantee(
            Schema.from_data({"attributes": {"x": {"type": "number"}}})
        )
