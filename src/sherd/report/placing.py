"""Where the names of points go on a map, so that each can be read and told whose it is.

All lengths are in points. A name stands beside its point where there is room, otherwise at the
end of a leader line. It is laid over no other name, point, caption or leader, and its own leader
runs through none of them. Names are put down one after the other, each at the nearest free
place; where none is free, at the one with the fewest collisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LETTER, HEIGHT, MARKER, GAP = 6.4, 13.0, 6.0, 10.0
"""Width of a letter and height of a line of the map's type, half a marker, room beside it."""

_BEYOND = range(7, 120, 7)


@dataclass(frozen=True, kw_only=True)
class Box:
    """A rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: Box) -> bool:
        """Whether two rectangles overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )

    def crossed(self, start: tuple[float, float], end: tuple[float, float]) -> bool:
        """Whether a straight line runs through the rectangle.

        >>> Box(left=0, bottom=0, right=2, top=2).crossed((-1, -1), (3, 3))
        True
        """
        enter, leave = 0.0, 1.0
        for at, to, low, high in (
            (start[0], end[0], self.left, self.right),
            (start[1], end[1], self.bottom, self.top),
        ):
            step = to - at
            if not step:
                if not low < at < high:
                    return False
                continue
            first, last = sorted(((low - at) / step, (high - at) / step))
            enter, leave = max(enter, first), min(leave, last)
        return enter < leave


@dataclass(frozen=True, kw_only=True)
class Spot:
    """Where a name goes: how far from its point, to which side, and the room it takes."""

    dx: float
    dy: float
    box: Box
    point: tuple[float, float]

    @property
    def leader(self) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """The line from the point to the name; none where the name stands beside the point."""
        if not self.dy:
            return None
        return self.point, (self.point[0] + self.dx, self.point[1] + self.dy)


def place_names(
    points: Sequence[tuple[float, float]],
    names: Sequence[str],
    *,
    frame: Box,
    captions: Sequence[Box] = (),
) -> list[Spot]:
    """A spot for the name of every point, the lowest points first."""
    markers = [_around(point) for point in points]
    found: dict[int, Spot] = {}
    for i in sorted(range(len(points)), key=lambda i: (points[i][1], points[i][0])):
        others = [box for j, box in enumerate(markers) if points[j] != points[i]]
        taken = [*captions, *others, *(spot.box for spot in found.values())]
        leaders = [spot.leader for spot in found.values() if spot.leader is not None]
        best, least = None, float("inf")
        for spot in _spots(points[i], len(names[i]), frame):
            hits = sum(spot.box.meets(box) for box in taken)
            hits += sum(spot.box.crossed(*line) for line in leaders)
            if spot.leader is not None:
                hits += sum(box.crossed(*spot.leader) for box in taken)
            if hits < least:
                best, least = spot, hits
            if not hits:
                break
        assert best is not None
        found[i] = best
    return [found[i] for i in range(len(points))]


def _around(point: tuple[float, float]) -> Box:
    x, y = point
    return Box(left=x - MARKER, bottom=y - MARKER, right=x + MARKER, top=y + MARKER)


def _spots(point: tuple[float, float], letters: int, frame: Box) -> Iterator[Spot]:
    """Spots for a name, the nearest first: beside the point, then farther up and down.

    The side with more room comes first; a spot that leaves the frame is none, but for the
    first, which is there in any case.
    """
    middle = (frame.left + frame.right) / 2
    sides = (-1, 1) if point[0] > middle else (1, -1)
    for place, dy in enumerate((0.0, *(s * float(d) for d in _BEYOND for s in (1, -1)))):
        for side in sides:
            spot = _spot(point, letters, side, dy)
            box = spot.box
            inside = box.left >= frame.left and box.right <= frame.right
            inside = inside and box.bottom >= frame.bottom and box.top <= frame.top
            if inside or (place == 0 and side == sides[0]):
                yield spot


def _spot(point: tuple[float, float], letters: int, side: int, dy: float) -> Spot:
    dx = side * (GAP + 6 if dy else GAP)
    x, y = point[0] + dx, point[1] + dy
    far = x + side * letters * LETTER
    box = Box(left=min(x, far), right=max(x, far), bottom=y - HEIGHT / 2, top=y + HEIGHT / 2)
    return Spot(dx=dx, dy=dy, box=box, point=point)
