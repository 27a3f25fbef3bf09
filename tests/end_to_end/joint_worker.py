"""One party of a small joint release with given randomness: run by the test, not by pytest.

Arguments: a JSON file that says everything, and this party's rank. Prints a JSON result.
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from secure import part

import sherd
from sherd.methods.specialising.arbdistdp import Agreement, cells_of, release
from sherd.methods.specialising.hierarchy import Hierarchy
from sherd.methods.specialising.scores import Budget, sensitivity
from sherd.randomness import Randomness
from sherd.secure.engine.link import Peer, connect
from sherd.secure.engine.spu_engine import SpuEngine


def agreement_of(case: dict[str, Any]) -> Agreement:
    """What the parties agree on."""
    schema = sherd.Schema.from_data({"attributes": case["attributes"]})
    hierarchies = tuple(Hierarchy.of(attribute) for attribute in schema)
    return Agreement(
        hierarchies=hierarchies,
        class_name="c",
        class_labels=tuple(case["classes"]),
        utility=case["utility"],
        budget=Budget(
            epsilon=Fraction(case["epsilon"]),
            specialisations=case["h"],
            numeric=sum(one.numeric for one in hierarchies),
            sensitivity=sensitivity(case["utility"], case["n"]),
        ),
        max_leaves=40,
    )


def data_of(case: dict[str, Any]) -> tuple[list[np.ndarray], np.ndarray, list[np.ndarray]]:
    """The pooled codes, the classes, and who holds what."""
    rng = np.random.default_rng(case["seed"])
    sizes = [one.size for one in agreement_of(case).hierarchies]
    codes = [rng.integers(0, size, case["n"]) for size in sizes]
    classes = rng.integers(0, len(case["classes"]), case["n"])
    holder = rng.integers(0, case["parties"], (case["n"], len(sizes)))
    return codes, classes, [holder == party for party in range(case["parties"])]


def main() -> None:
    """Take part, and print what came out."""
    case, rank = json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2])
    folder = Path(sys.argv[1]).parent
    peers = [
        Peer(name=f"p{i}", address=f"127.0.0.1:{port}", certificate=folder / f"p{i}.pem")
        for i, port in enumerate(case["ports"])
    ]
    link = connect(peers, rank, folder / f"p{rank}.key", timeout=60)
    engine = SpuEngine(link, Randomness.seeded(case["words"][rank]))
    codes, classes, held = data_of(case)
    mine = {rank: cells_of(codes, held)[rank]}
    found = release(engine, mine, classes, agreement_of(case))
    result = {
        "cuts": found.specialised.cuts,
        "counts": found.counts.tolist(),
        "transcript": [[one.what, one.count] for one in engine.transcript],
    }
    Path(sys.argv[3]).write_text(json.dumps(result))
    link.stop_link()
    part(folder, rank, len(peers))


if __name__ == "__main__":
    main()
