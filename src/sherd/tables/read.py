"""Tables in: one function for files and databases, by suffix or by address."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.errors import FormatError, StorageError, UsageError
from sherd.tables.address import Address, is_address, redact
from sherd.tables.csvfile import Progress, read_csv
from sherd.tables.textfile import COMPRESSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from sherd.tables.schema import Schema

__all__ = ["read", "redact"]

_TEXT = (".csv", ".tsv", ".tab", ".txt")
_PARQUET = (".parquet", ".pq")
_ARROW = (".feather", ".arrow", ".ipc", ".arrows")


def read(
    source: str | Path,
    *,
    schema: Schema | None = None,
    query: str | None = None,
    progress: Progress | None = None,
    lenient: bool = False,
) -> pa.Table:
    """Read the table in a file or a database, as ``sherd.datasets.sources.read`` describes it."""
    from sherd.tables.conform import check_names, conform

    if not isinstance(source, (str, os.PathLike)):
        raise UsageError(
            "the source has the wrong type",
            must="a path or an address",
            got=f"a {type(source).__name__}",
        )
    if isinstance(source, str) and is_address(source):
        from sherd.tables.sql import read_sql

        address = Address.parse(source, query=query)
        declared = schema is not None
        table, shown = read_sql(address, lenient=lenient, declared=declared), address.shown
    else:
        path, shown = Path(source), redact(str(source))
        if query is not None:
            raise UsageError(
                "a query needs a database",
                must="an address such as sqlite:///people.db",
                got=shown,
            )
        kind = _kind(path, shown)
        if path.is_dir():
            raise UsageError("the source is a folder", must="a file", got=shown)
        if kind in _TEXT:
            return read_csv(path, schema, progress, lenient=lenient)
        table = _typed_file(path, kind, shown)
    if schema is None:
        check_names(table.column_names, shown=shown)
        return table
    return conform(table, schema, shown=shown, lenient=lenient)


def _kind(path: Path, shown: str) -> str:
    """The suffix that says what a file is, looking past a compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
        kind = suffixes[-1] if suffixes else ""
        known: tuple[str, ...] = _TEXT
    else:
        kind = suffixes[-1] if suffixes else ""
        known = (*_TEXT, *_PARQUET, *_ARROW)
    if kind not in known:
        raise UsageError(
            "the file's format is unknown",
            must="a name that ends in .csv, .tsv (also .gz, .zst, .bz2, .lz4), .parquet, "
            ".feather or .arrow",
            got=shown,
            do="save a sheet as CSV in UTF-8 and give that, or rename a file that is one of these",
        )
    return kind


def is_parquet(path: Path) -> bool:
    """Whether a file's name says that it is Parquet."""
    return path.suffix.lower() in _PARQUET


def is_arrow_file(path: Path) -> bool:
    """Whether a file is an Arrow file (Feather), whose blocks can be read one by one."""
    if path.suffix.lower() not in _ARROW or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(6) == b"ARROW1"


def is_text_file(path: Path) -> bool:
    """Whether a file's name says that it is CSV, compressed or not."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in _TEXT


@contextlib.contextmanager
def reading_errors(shown: str, name: str) -> Iterator[None]:
    """Say in our words what is wrong with a file of Arrow's formats."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise UsageError("the file does not exist", got=shown, do="check the path") from None
    except MemoryError:  # Arrow's own is one of its exceptions too
        raise
    except (pa.ArrowException, OSError) as error:
        # Arrow raises a plain OSError without a number for bytes that make no sense.
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(
                "the file cannot be read", got=f"{shown}: {error.strerror}"
            ) from None
        raise FormatError(
            f"the file is damaged or is not {name}",
            must=f"a whole {name} file",
            got=shown,
            do="copy or make it again",
        ) from None


def _typed_file(path: Path, kind: str, shown: str) -> pa.Table:
    import pyarrow as pa

    name = "Parquet" if kind in _PARQUET else "Arrow"
    with reading_errors(shown, name), path.open("rb") as file:
        if kind in _PARQUET:
            import pyarrow.parquet as pq

            return pq.ParquetFile(file).read()
        if file.read(6) == b"ARROW1":
            return pa.ipc.open_file(file).read_all()
        file.seek(0)
        return pa.ipc.open_stream(file).read_all()
