"""What an audit found, as one value that can be saved in any form."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sherd.auditing.verdict.measure import Side, plain
from sherd.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from sherd.auditing.verdict.measure import Measure, Skipped
    from sherd.auditing.verdict.verdict import Verdict
    from sherd.verifying.check import Check


class Writer(Protocol):
    """What turns a result into a report: the package above hands itself down."""

    def write(self, result: Any, path: Path) -> Path:
        """Write a result in the form that the path's suffix names."""

    def html(self, result: Any) -> str:
        """The page of a result."""


@dataclass(frozen=True, kw_only=True)
class Reportable:
    """A result that can be saved as a report; ``writer`` is given by ``sherd.audit``."""

    writer: Writer | None = field(default=None, repr=False, compare=False)

    def save(self, *paths: str | Path) -> tuple[Path, ...]:
        """Write the result, each path in the form its suffix names: .html, .json, .md or .pdf."""
        return tuple(self._writer().write(self, Path(path)) for path in paths)

    def _repr_html_(self) -> str:
        """The report in a notebook, in a frame of its own."""
        from html import escape

        page = escape(self._writer().html(self), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:40em;border:0"></iframe>'

    def _writer(self) -> Writer:
        if self.writer is None:
            raise UsageError(
                "this result was made without a report", do="use `sherd.audit` or `sherd.compare`"
            )
        return self.writer


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """One attribute's distribution before and after, as shares of classes.

    ``ends`` are where the first class begins and the last one ends.
    """

    name: str
    classes: tuple[str, ...]
    ends: tuple[str, str]
    before: tuple[float, ...]
    after: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Place:
    """A point on the risk-utility map: both from 0 to 1."""

    name: str
    utility: float
    risk: float
    this: bool = False

    def as_data(self) -> dict[str, Any]:
        """The point as plain data."""
        return {**asdict(self), "utility": plain(self.utility), "risk": plain(self.risk)}


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """What the report draws; all of it internal."""

    distributions: tuple[Distribution, ...] = ()
    names: tuple[str, ...] = ()
    associations: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    places: tuple[Place, ...] = ()
    places_note: str = ""


@dataclass(frozen=True, kw_only=True)
class Audit(Reportable):
    """Everything an audit found; ``audit["linkage"]`` is one measure.

    ``checks`` are those of ``sherd.verify``, ``artefact`` those of the released values against
    the plan, with the original at hand. ``participants`` says, for a joint release, who learns
    what by taking part. ``release_hash`` is the sha256 of the release's manifest, which holds the
    hashes of everything else.
    """

    title: str
    plan: Mapping[str, Any]
    guarantee: Mapping[str, Any]
    stamps: tuple[str, ...]
    rows: int
    released_rows: int
    attributes: tuple[str, ...]
    measures: tuple[Measure, ...]
    skipped: tuple[Skipped, ...]
    checks: tuple[Check, ...]
    verdict: Verdict
    artefact: tuple[Check, ...] = ()
    pictures: Pictures = field(default_factory=Pictures, repr=False)
    participants: tuple[tuple[str, tuple[str, ...]], ...] = ()
    created: str = ""
    version: str = ""
    table: str = ""
    population: str = ""
    release_hash: str = ""

    @property
    def subject(self) -> str:
        """What was audited: the table's name, its population, and which release of it."""
        named = [
            f"table {self.table}" if self.table else "a table in memory",
            f"population {self.population}" if self.population else "",
            f"release {self.release_hash[:16]}" if self.release_hash else "a release not saved",
        ]
        return ", ".join(filter(None, named))

    def __getitem__(self, code: str) -> Measure:
        for measure in self.measures:
            if measure.code == code:
                return measure
        raise KeyError(code)

    def __contains__(self, code: object) -> bool:
        return any(measure.code == code for measure in self.measures)

    def on(self, side: Side) -> tuple[Measure, ...]:
        """The measures of one side."""
        return tuple(m for m in self.measures if m.spec.side is side)

    @property
    def by_code(self) -> dict[str, Measure]:
        """Every measure by its code."""
        return {measure.code: measure for measure in self.measures}

    def as_data(self) -> dict[str, Any]:
        """The whole audit as plain data: the same numbers as in the report."""
        pictures = self.pictures
        return {
            "format": 1,
            "kind": "sherd-audit",
            "created": self.created,
            "sherd": self.version,
            "label": "internal: not for publication",
            "title": self.title,
            "table": self.table,
            "population": self.population,
            "release_hash": self.release_hash,
            "plan": dict(self.plan),
            "guarantee": dict(self.guarantee),
            "stamps": list(self.stamps),
            "rows": self.rows,
            "released_rows": self.released_rows,
            "attributes": list(self.attributes),
            "verdict": self.verdict.as_data(),
            "participants": {who: list(lines) for who, lines in self.participants},
            "checks": [asdict(check) for check in self.checks],
            "artefact": [asdict(check) for check in self.artefact],
            "measures": [measure.as_data() for measure in self.measures],
            "left_out": [skipped.as_data() for skipped in self.skipped],
            "map": [place.as_data() for place in pictures.places],
            "distributions": [
                {
                    "attribute": d.name,
                    "classes": list(d.classes),
                    "ends": list(d.ends),
                    "before": list(d.before),
                    "after": list(d.after),
                }
                for d in pictures.distributions
            ],
            "associations": None
            if pictures.associations is None
            else {
                "attributes": list(pictures.names),
                "before": pictures.associations[0].round(6).tolist(),
                "after": pictures.associations[1].round(6).tolist(),
            },
        }
