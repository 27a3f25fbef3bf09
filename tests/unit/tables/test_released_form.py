"""Texts as they are released: the same as Arrow's, with nothing where a cell is missing."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from sherd.tables import released_form as form
from sherd.tables.coding import arrow_array
from sherd.tables.released_form import emptied, spelled

LABELS = pa.array(["", "no", "Größe", None, "x" * 40])


def coded(n: int, missing: float = 0.1) -> pa.DictionaryArray:
    """Random labels; some cells are missing, and some have a label that is."""
    rng = np.random.default_rng(n)
    codes = rng.integers(0, len(LABELS), n).astype(np.int8)
    return pa.DictionaryArray.from_arrays(arrow_array(codes, rng.random(n) < missing), LABELS)


@pytest.mark.parametrize("n", [0, 1, 7, 1000, form.AT_ONCE + 1])
@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
def test_labels_are_written_out_as_arrow_does(n: int, missing: float) -> None:
    """Also over the border of what is written at once."""
    (found,) = spelled(coded(n, missing))
    found.validate(full=True)
    assert found.equals(coded(n, missing).cast(pa.string()))


def test_a_slice_is_written_out_by_itself() -> None:
    """Rows before and after it do not come along."""
    (found,) = spelled(coded(100)[10:20])
    assert found.equals(coded(100).cast(pa.string())[10:20])
    assert found.buffers()[2].size == sum(len((t or "").encode()) for t in found.to_pylist())


def test_more_than_one_array_can_hold_comes_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of which is larger."""
    monkeypatch.setattr(form, "MOST_BYTES", 200)
    found = spelled(coded(100))
    assert len(found) > 1
    assert all(part.buffers()[2].size <= 200 for part in found)
    assert pa.concat_arrays(found).equals(coded(100).cast(pa.string()))


def test_what_stands_behind_a_missing_text_is_not_released() -> None:
    """Neither a hidden text nor the rest of a larger column."""
    letters = pa.py_buffer(b"openSECRETopen")
    offsets = pa.py_buffer(np.array([0, 4, 10, 14], np.int32))
    hidden = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), offsets, letters])
    assert hidden.to_pylist() == ["open", None, "open"]
    for bare in (emptied(hidden), emptied(hidden[1:])):
        assert b"SECRET" not in bare.buffers()[2].to_pybytes()
    assert emptied(hidden).equals(hidden)
    assert emptied(hidden[1:]).to_pylist() == [None, "open"]


def test_bare_texts_are_not_copied() -> None:
    """A release that is brought into its form again takes no memory again."""
    (bare,) = spelled(coded(50_000))
    tracemalloc.start()
    try:
        again = emptied(bare)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert again.buffers()[2].address == bare.buffers()[2].address
    assert peak < 8 * len(bare)
