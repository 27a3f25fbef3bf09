"""Addresses of databases, and how they may be written down.

>>> redact("postgresql://ann:secret@db.example:5432/survey?sslmode=require")
'postgresql://***@db.example:5432/survey?***'
>>> Address.parse("sqlite:///people.db?table=person").query
'SELECT * FROM "person"'
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlencode

from sherd.errors import UsageError, did_you_mean

SCHEMES = ("sqlite", "duckdb", "postgresql", "postgres")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://")
_SECRET = re.compile(r"(?i)(pass(?:word|wd|phrase|file)?|pwd|token|secret|key|user)\s*=\s*\S+")


def is_address(source: str) -> bool:
    """Whether a source is a database's address and not a file's path.

    >>> is_address("sqlite:///a.db"), is_address("people.csv"), is_address("C:/people.csv")
    (True, False, False)
    """
    return _SCHEME.match(source) is not None


def redact(address: str) -> str:
    """The address without anything secret: no user, no password, no settings, no query.

    All before the last ``@`` goes, since a password may contain ``@``, ``/`` or ``?`` that
    its writer forgot to encode; losing a part of the host's name is the lesser evil.
    """
    scheme = _SCHEME.match(address)
    head = scheme.group(0) if scheme else ""
    rest = address[len(head) :]
    if scheme or re.search(r":[^\s]*@", rest):
        before, at, after = rest.rpartition("@")
        rest = ("***@" + after) if at and before else after
    if scheme and "?" in rest:
        rest = rest.partition("?")[0] + "?***"
    return head + _SECRET.sub(lambda found: f"{found.group(1)}=***", rest)


@dataclass(frozen=True, kw_only=True)
class Address:
    """A database and the query to ask it.

    ``target`` is what the driver is given (a path, or an address with its credentials)
    and is kept out of the value's text.
    """

    scheme: str
    target: str = field(repr=False)
    query: str = field(repr=False)
    shown: str

    @classmethod
    def parse(cls, source: str, *, query: str | None = None) -> Address:
        """Take an address apart; ``query`` is used where the address holds none."""
        match = _SCHEME.match(source)
        scheme = match.group(1).lower() if match else ""
        shown = redact(source)
        if scheme not in SCHEMES:
            raise UsageError(
                "the database's kind is unknown",
                must="an address that begins with sqlite:///, duckdb:/// or postgresql://",
                got=shown,
                do=did_you_mean(scheme, SCHEMES) or None,
            )
        place, _, settings = source.partition("?")
        # The query may hold a literal '+' or '%', hence encoded in an address; a driver's own
        # settings (sslmode and the like) are passed on.
        pairs = parse_qsl(settings, keep_blank_values=True)
        ours = {key: value for key, value in pairs if key in ("query", "table")}
        kept = [(key, value) for key, value in pairs if key not in ("query", "table")]
        asked = [text for text in (query, ours.get("query"), ours.get("table")) if text]
        if len(asked) != 1:
            raise UsageError(
                "the database's address needs one query",
                must="given once: as a query, as ?query=… or as ?table=…",
                got=f"{len(asked)} of them",
                do="say which table or query to read, for example ?table=person",
            )
        text = _select(ours["table"]) if ours.get("table") else asked[0]
        if scheme in ("sqlite", "duckdb"):
            path = unquote(place.partition("://")[2])
            if not path.startswith("/") or len(path) < 2:
                raise UsageError(
                    "the database's address has no path",
                    must=f"{scheme}:///relative/path or {scheme}:////absolute/path",
                    got=shown,
                )
            return cls(scheme=scheme, target=path[1:], query=text, shown=shown)
        target = place + ("?" + urlencode(kept) if kept else "")
        return cls(scheme="postgresql", target=target, query=text, shown=shown)


def _select(table: str) -> str:
    """A query for a whole table; a dot parts the namespace from the name."""
    name = ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))
    return f"SELECT * FROM {name}"  # noqa: S608 - the name is quoted above
