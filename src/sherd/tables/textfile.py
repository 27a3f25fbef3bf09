"""Text files as streams: decompressed, without NUL bytes, the last line ended."""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from sherd.errors import FormatError, StorageError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
"""The compressions a file's last suffix can name."""


class Checked(io.RawIOBase):
    """A stream that refuses NUL bytes, which no text file contains.

    A last line that does not end is ended: Arrow takes a lone header without it for no
    header.
    """

    def __init__(self, inner: pa.NativeFile, shown: str) -> None:
        self._inner = inner
        self._shown = shown
        self._offset = 0
        self._ended = True
        self.tail = b""

    def readable(self) -> bool:
        """Whether the stream can be read: it can."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes, fewer than asked for only at the end."""
        data = bytes(self._inner.read(None if size < 0 else size))
        while 0 < len(data) < size and (more := self._inner.read(size - len(data))):
            data += bytes(more)
        if (place := data.find(0)) >= 0:
            raise FormatError(
                "the file contains a NUL byte",
                must="UTF-8 text",
                got=f"{self._shown}, byte {self._offset + place}",
                do="it may be UTF-16 or no text at all: save it as UTF-8 CSV",
            )
        self._offset += len(data)
        if data:
            self._ended = data.endswith((b"\n", b"\r"))
            self.tail = (self.tail + data[-64:])[-64:]
        if not self._ended and (size < 0 or len(data) < size):
            self._ended = True
            return data + b"\n"
        return data

    def close(self) -> None:
        """Close the stream below as well."""
        self._inner.close()
        super().close()


def compression(path: Path) -> str | None:
    """The compression a file's name promises.

    >>> from pathlib import Path
    >>> compression(Path("a.csv.gz")), compression(Path("a.csv"))
    ('gzip', None)
    """
    return COMPRESSIONS.get(path.suffix.lower())


def open_text(path: Path) -> tuple[Checked, IO[bytes]]:
    """The decompressed stream of a file, and the file below it (for progress)."""
    try:
        raw = path.open("rb")
    except FileNotFoundError:
        raise UsageError("the file does not exist", got=str(path), do="check the path") from None
    except OSError as error:
        raise StorageError("the file cannot be read", got=f"{path}: {error.strerror}") from None
    method = compression(path)
    inner = pa.PythonFile(raw, "r") if method is None else pa.CompressedInputStream(raw, method)
    return Checked(inner, str(path)), raw


def damaged(path: Path) -> FormatError:
    """The error for a file whose compression is cut short or broken."""
    return FormatError(
        "the compressed file is damaged or cut short",
        must=f"a whole {compression(path) or 'CSV'} file",
        got=str(path),
        do="copy or make it again",
    )


def not_utf8(path: Path, offset: int) -> FormatError:
    """The error for a file in another encoding."""
    return FormatError(
        "the file is not UTF-8 text",
        must="UTF-8",
        got=f"{path}, byte {offset}",
        do="convert it, for example with: iconv -f LATIN1 -t UTF-8",
    )
