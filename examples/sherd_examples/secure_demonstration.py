"""The demonstration of a joint release without an aggregator: Adult, cell by cell.

Two thirds of Adult's records are dealt out cell by cell at random, once between two parties and
once between three. The parties run as processes of their own, behind TLS with pinned keys, by
``sherd party run``. Then the release is weighed: how well a classifier trained on it predicts the
other third, beside one owner's ``diffgen`` on the pooled records, and beside what each party
could release alone from the cells it holds.

The accuracies use raw records that were not released, so they are for the demonstration only.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import sherd
from sherd.errors import ConnectionFailedError, MissingPartError, OutputExistsError
from sherd_examples.parties_demonstration import free_ports

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.methods.specialising.partition import Partition
    from sherd.tables.schema import Schema

Tell = Callable[[str], None]
Progress = Callable[[str, int, int], None]

MARK = "demo-joint.json"
NAMES = ("clinic", "insurer", "registry")
TARGET = "income"
ID = "record"


def interpreter() -> str:
    """A Python that has SPU: the one SHERD_JOINT_PYTHON names, this one, or `make joint`'s."""
    given = os.environ.get("SHERD_JOINT_PYTHON")
    if given:
        return given
    if importlib.util.find_spec("spu") is not None:
        return sys.executable
    made = Path(".venv-joint/bin/python")
    if made.exists():
        return str(made.absolute())
    raise MissingPartError(
        "secure computation is not installed",
        must="an environment with the package spu, on Python 3.11",
        do="run `make joint`, or let SHERD_JOINT_PYTHON name a Python that has sherd[joint]",
    )


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The records that are released, those a classifier is tested on, and the plan."""

    train: pa.Table
    test: pa.Table
    schema: Schema
    epsilon: str
    h: int

    def plan(self, method: str) -> Any:
        """The plan of a release."""
        from sherd.release.plan import Plan

        return Plan(method=method, epsilon=float(self.epsilon), h=self.h, class_attribute=TARGET)


def scene(epsilon: str, h: int, records: int | None, seed: int | None = None) -> Scene:
    """Adult without missing cells, divided 2:1 at random."""
    from sherd import datasets
    from sherd.tables.coding import arrow_array
    from sherd.tables.schema import Missing

    table = datasets.load("adult", complete=True)
    order = np.random.default_rng(seed).permutation(table.num_rows)[:records]
    cut = len(order) * 2 // 3
    schema = replace(datasets.schema("adult"), missing=Missing.REFUSE)
    return Scene(
        train=table.take(arrow_array(order[:cut])),
        test=table.take(arrow_array(order[cut:])),
        schema=schema,
        epsilon=epsilon,
        h=h,
    )


def demonstrate(
    folder: Path,
    given: Scene,
    *,
    parties: tuple[int, ...] = (2, 3),
    tell: Tell = lambda _line: None,
    progress: Progress = lambda _step, _done, _total: None,
) -> dict[str, Any]:
    """Run everything, and say what came out."""
    python = interpreter()
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise OutputExistsError(
            "the folder already exists and is not a demonstration's",
            got=str(folder),
            do="choose another with -o",
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).write_text("{}\n")
    result: dict[str, Any] = {
        "records": given.train.num_rows,
        "tested": given.test.num_rows,
        "epsilon": given.epsilon,
        "h": given.h,
        "pooled": pooled_accuracy(given),
        "runs": [],
    }
    for count in parties:
        tell(f"{count} parties: dealing out {given.train.num_rows} records cell by cell")
        holder = np.random.default_rng().integers(
            0, count, (given.train.num_rows, len(_features(given)))
        )
        homes = prepare(folder / f"{count}-parties", given, holder, count)
        seconds = run_parties(python, homes, given, progress)
        result["runs"].append(_weigh(given, homes, holder, seconds))
    (folder / MARK).write_text(json.dumps(result, indent=1) + "\n")
    return result


def _features(given: Scene) -> list[str]:
    return [name for name in given.schema.protected if name != TARGET]


def prepare(folder: Path, given: Scene, holder: NDArray[np.int64], count: int) -> list[Path]:
    """Keys, fragments, schema and settings of every party."""
    import pyarrow as pa
    import yaml
    from pyarrow import csv

    from sherd.secure.engine.link import make_key
    from sherd.tables.schema import Attribute, Role, Type

    names = NAMES[:count]
    homes = [folder / name for name in names]
    key = Attribute(name=ID, type=Type.TEXT, role=Role.IDENTIFIER)
    schema: Schema = replace(given.schema, attributes={ID: key, **given.schema.attributes})
    for name, home in zip(names, homes, strict=True):
        home.mkdir(parents=True)
        make_key(home, name)
    ports = free_ports(count)
    peers = [
        {"name": name, "address": f"127.0.0.1:{port}", "certificate": f"{name}.pem"}
        for name, port in zip(names, ports, strict=True)
    ]
    ids = pa.array([f"r{i}" for i in range(given.train.num_rows)])
    for place, home in enumerate(homes):
        for other in homes:
            if other != home:
                shutil.copy(other / f"{other.name}.pem", home)
        cells = {
            name: _masked(given.train.column(name), holder[:, a] != place)
            for a, name in enumerate(_features(given))
        }
        table = pa.table({ID: ids, **cells, TARGET: given.train.column(TARGET)})
        csv.write_csv(table, home / "fragment.csv")
        (home / "schema.yaml").write_text(
            yaml.safe_dump(schema.as_data(), allow_unicode=True, sort_keys=False)
        )
        settings = {
            "name": home.name, "parties": peers, "key": f"{home.name}.key",
            "table": "fragment.csv", "schema": "schema.yaml", "id": ID, "output": "release",
            "plan": {"epsilon": float(given.epsilon), "h": given.h, "class_attribute": TARGET},
            "timeout": 600,
        }  # fmt: skip
        (home / "party.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    return homes


def _masked(column: pa.ChunkedArray, away: NDArray[np.bool_]) -> pa.Array:
    """A column whose cells are empty where another party holds them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from sherd.tables.coding import arrow_array

    whole = column.combine_chunks()
    if pa.types.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    return pc.if_else(arrow_array(away), pa.scalar(None, whole.type), whole)


def run_parties(python: str, homes: list[Path], given: Scene, progress: Progress) -> float:
    """All parties at once, each a process; how many seconds they took.

    Their journals tell how far they are: a line for each result that was opened.
    """
    from sherd.methods.specialising.diffgen import settings

    plan = given.plan("arbdistdp")
    choices = settings(plan, given.schema).budget(plan, given.train.num_rows).choices
    source = str(Path(sherd.__file__).parents[1])
    begin = time.monotonic()
    running = []
    for home in homes:
        with (home / "log").open("wb") as log:
            running.append(
                subprocess.Popen(  # noqa: S603 - our own command line
                    [python, "-m", "sherd", "party", "run", str(home / "party.yaml"),
                     "--ledger", str(home / "ledger.db"), "--costs", str(home / "costs.json")],
                    stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": source},
                )
            )  # fmt: skip
    step = f"{len(homes)} parties: results opened"
    try:
        while any(one.poll() is None for one in running):
            # After a failure the others end by themselves, with a message.
            progress(step, min(_opened(homes[0] / "journal.jsonl"), choices + 1), choices + 2)
            time.sleep(0.2)
    finally:
        for one in running:
            one.terminate()
    failed = [home for home, one in zip(homes, running, strict=True) if one.returncode]
    if failed:
        raise ConnectionFailedError(
            f"the party '{failed[0].name}' failed",
            got=f"exit code {running[homes.index(failed[0])].returncode}",
            do=f"see {failed[0] / 'log'}",
        )
    progress(step, choices + 2, choices + 2)
    return time.monotonic() - begin


def _opened(journal: Path) -> int:
    try:
        return journal.read_bytes().count(b"\n") - 1
    except FileNotFoundError:
        return 0


def _weigh(
    given: Scene, homes: list[Path], holder: NDArray[np.int64], seconds: float
) -> dict[str, Any]:
    """Accuracy of the joint release and of each party alone, and what every step cost."""
    from sherd.release.bundle import Release

    release = Release.load(homes[0] / "release")
    costs = [json.loads((home / "costs.json").read_text()) for home in homes]
    return {
        "parties": [home.name for home in homes],
        "protocol": release.manifest["facts"]["protocol"],
        "release": str(homes[0] / "release"),
        "leaves": release.manifest["facts"]["leaves"],
        "joint": joint_accuracy(given, release),
        "alone": {
            home.name: alone_accuracy(given, holder == place) for place, home in enumerate(homes)
        },
        "seconds": round(seconds, 1),
        "steps": {
            step: {
                "seconds": max(one[step]["seconds"] for one in costs),
                "bytes": sum(one[step]["sent"] for one in costs),
            }
            for step in costs[0]
        },
    }


def pooled_accuracy(given: Scene) -> float:
    """What one owner of all cells would reach by ``diffgen``."""
    return _accuracy(given, given.train, given.schema)


def alone_accuracy(given: Scene, held: NDArray[np.bool_]) -> float:
    """What a party would reach by ``diffgen`` on its own cells, the others' taken as missing."""
    from sherd.tables.schema import Missing

    table = given.train
    for a, name in enumerate(_features(given)):
        place = table.column_names.index(name)
        table = table.set_column(place, name, _masked(table.column(name), ~held[:, a]))
    keeping = {
        name: replace(one, missing=Missing.KEEP) if name in _features(given) else one
        for name, one in given.schema.attributes.items()
    }
    return _accuracy(given, table, replace(given.schema, attributes=keeping))


def _accuracy(given: Scene, table: pa.Table, schema: Schema) -> float:
    from sherd.methods.specialising.diffgen import partition_of
    from sherd.randomness import Randomness
    from sherd.release.method import Run

    plan = given.plan("diffgen")
    partition = partition_of(table, schema, plan, Run(randomness=Randomness.from_system()))
    return _tested(given, partition, schema)


def joint_accuracy(given: Scene, release: Any) -> float:
    """What a classifier makes of a joint release, read back from its tables.

    Counts are in the order of the released table's columns, whatever our own schema's is.
    """
    from sherd.methods.specialising.diffgen import settings
    from sherd.methods.specialising.partition import Partition
    from sherd.methods.specialising.specialise import Candidate, Specialised

    data, own = release.tables["data"], given.schema.attributes
    ordered = {name: own[name] for name in data.column_names if name in own}
    schema = replace(given.schema, attributes=ordered)
    chosen = settings(given.plan("arbdistdp"), schema)
    names = [one.name for one in chosen.hierarchies]
    steps = tuple(
        Candidate(attribute=names.index(one["attribute"]), edges=tuple(one["edges"]))
        for one in release.manifest["facts"]["specialisations"]
    )
    cuts = [{0, one.size} for one in chosen.hierarchies]
    for step in steps:
        cuts[step.attribute] |= set(step.edges)
    counts = np.asarray(data.column("count"), np.int64)
    partition = Partition(
        hierarchies=chosen.hierarchies,
        specialised=Specialised(
            cuts=tuple(tuple(sorted(cut)) for cut in cuts), steps=steps, choices=0
        ),
        class_name=TARGET,
        class_labels=chosen.class_labels,
        counts=counts.reshape(-1, len(chosen.class_labels)),
    )
    return _tested(given, partition, schema)


def _tested(given: Scene, partition: Partition, schema: Schema) -> float:
    from sherd.methods.specialising.diffgen import encode, settings
    from sherd_examples.leaf_classifiers import accuracy

    codes, classes = encode(given.test, schema, settings(given.plan("diffgen"), schema))
    return round(accuracy(partition, given.train.num_rows, codes, classes), 4)
