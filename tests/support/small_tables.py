"""A few rows and attributes of a bundled table as files, for tests that need little of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.csv as pacsv
import yaml

from sherd import datasets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def write_part(name: str, columns: Sequence[str], rows: int, folder: Path) -> None:
    """Write some of a table as ``NAME.csv``, and what its schema says of it as ``NAME.yaml``."""
    own = datasets.path(name).with_suffix(".yaml")
    schema = yaml.safe_load(own.read_text())
    kept = {each: schema["attributes"][each] for each in columns}
    for attribute in kept.values():
        if "taxonomy" in attribute:
            attribute["taxonomy"] = str(own.parent / attribute["taxonomy"])
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({**schema, "attributes": kept}))
    table = datasets.load(name).select(list(columns))
    chosen = np.random.default_rng(0).permutation(table.num_rows)[:rows]
    pacsv.write_csv(table.take(chosen), folder / f"{name}.csv")
