"""Tests follow the tree: whoever looks for the tests of a module finds them by its name."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests" / "unit"
OTHER_TREES = {"examples": "examples/sherd_examples"}
"""Folders of unit tests that belong to another tree than the package's."""

SCRIPTS = "benchmarks"
"""Tests of scripts that lie in folders named after papers."""

ACROSS = {
    "auditing/epsilon/test_exact_account": "protect, the audit and the definition give one number",
    "auditing/test_every_release": "every method's release is audited",
    "auditing/test_honest_verdict": "lights over all measures",
    "auditing/test_kinds": "one release of each kind",
    "auditing/test_wine": "the audit of one public table, as its page tells it",
    "budget/test_columns": "sums of all kinds over ledger, entries and schema of the file",
    "budget/test_once": "an occasion over several ledgers and processes",
    "budget/test_processes": "processes that race and are killed",
    "cli/test_commands": "all commands, by what they print",
    "cli/test_federation_commands": "two commands that talk to each other",
    "cli/test_fragment": "the command `fragment`, which is `protect`",
    "cli/test_interrupted_start": "Ctrl-C while modules are imported",
    "cli/test_mistaken_options": "options and sources of all commands that were meant otherwise",
    "cli/test_slice": "the command `slice`, which is `protect`",
    "cli/test_verify_tampered": "the command `verify`, over every change to a manifest",
    "engines/test_spark": "a cluster, over every module that knows of it",
    "federation/protocol/test_many_points": "points of the linkage, many at once",
    "federation/protocol/test_paper_protocols": "the paper's protocols, over both machines",
    "federation/protocol/test_values_and_states": "all values of the protocol",
    "federation/test_damaged_chunks": "damage on the way, at owner and aggregator",
    "federation/test_deploy": "the files in deploy/",
    "federation/test_setting_up": "folders of owner and aggregator",
    "methods/fragmenting/test_independent_associations": "an observation of the paper, end to end",
    "methods/fragmenting/test_property_4_6": "a property of the paper, over every grouping",
    "methods/fragmenting/test_random_queries": "queries at random, over all that answers them",
    "methods/fragmenting/test_waiting_tuples": "what waiting tells, by plan, record and promise",
    "methods/graphical/test_one_door": "every byte of a release, from any table",
    "methods/ranking/test_tied_values": "what equal values tell, over every method of the family",
    "methods/slicing/test_adult": "slicing of one public table from end to end",
    "methods/slicing/test_baselines": "the two baselines beside each other",
    "methods/slicing/test_set_values": "cells that are sets, over all methods of the family",
    "methods/slicing/test_waiting_records": "what waiting tells, by buckets, record and promise",
    "release/test_missing_extras": "methods whose parts are not installed",
    "release/test_published_schema": "what manifests tell of schemas",
    "release/test_second_release": "two releases of one population",
    "report/test_any_table": "reports of any table",
    "report/test_browser": "the page in a browser",
    "tables/test_blocks": "tables block by block, and the engine that their size leads to",
    "tables/test_memory": "how much memory reading takes",
    "verifying/test_tamperings": "every tampering, over all checks",
}
"""Unit tests of no single module, and what they are about."""


def unmatched() -> set[str]:
    """Unit tests that are named after no module and no folder of the tree beside them."""
    strays = set()
    for path in UNIT.rglob("test_*.py"):
        place = path.relative_to(UNIT)
        first, name = place.parts[0], place.stem.removeprefix("test_")
        if first == SCRIPTS:
            continue
        room = ROOT / OTHER_TREES.get(first, f"src/sherd/{place.parent}")
        known = (room / f"{name}.py").exists() or name == room.name
        if not known:
            strays.add(str(place.with_suffix("")))
    return strays


def test_unit_tests_are_named_after_what_they_test() -> None:
    """A module, a room as a whole, or on the list with what it is about; the list is exact."""
    assert unmatched() == set(ACROSS)
    assert all(len(reason) > 10 for reason in ACROSS.values())


def test_rooms_of_tests_are_rooms_of_the_package() -> None:
    """A folder that moved takes its tests along."""
    for folder in UNIT.rglob("*"):
        place = folder.relative_to(UNIT)
        if (
            folder.is_dir()
            and any(folder.glob("test_*.py"))
            and place.parts[0] not in {SCRIPTS, *OTHER_TREES}
        ):
            assert (ROOT / "src" / "sherd" / place).is_dir(), place
