"""k-loose associations over any number of fragments.

Implements Theorem 4.7 of De Capitani di Vimercati et al., "Loose associations to increase
utility in data publishing": a (k_1, …, k_n)-grouping with group, association and deep
heterogeneity induces a k-loose association for k = min k_i·k_j. Departures from the paper:

- Property 4.6 is restricted to the fragments that hold attributes of the constraint; as
  printed, a fragment outside the constraint satisfies it for nothing.
- The heuristic of Figures 8 and 9 is mended (see ``placement``) and takes a window.
- The default strategy ``cells`` is ours: homes come from cells of tuples that are alike in
  what is asked about, in whichever fragment it lies (see ``cells``), the fragments that matter
  most are chosen first, frequent values are placed first, a group is refused at once where it
  already reaches the tuple's values in another fragment, and probes widen step by step.
- Under-quota groups are filled from over-quota ones before they are dissolved, and tuples
  taken out are tried once more.
- Where too many tuples find no group in two fragments, closed blocks are tried (see
  ``closed_blocks``).
- What comes out is checked by enumeration before it is returned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sherd.errors import InternalError
from sherd.methods.fragmenting.feasibility import relevant
from sherd.methods.fragmenting.preferred_groups import Homes, Ordered, PreferredCells
from sherd.methods.fragmenting.tuple_codes import combined

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from sherd.methods.fragmenting.constraints import Constraints
    from sherd.randomness import Randomness
    from sherd.tables.schema import Schema

    Progress = Callable[[str, int, int], None]
    Aspect = tuple[int, tuple[str, ...]]

Strategy = Literal["cells", "nearest"]
STRATEGIES: tuple[Strategy, ...] = ("cells", "nearest")
_EVERY = 1 << 40
_MEAN_TRIES, _LEAST_TRIES = 50, 2_000_000
_HOPELESS = 0.25
_TRIES = ((50, 400), (200, 24), (2000, 6), (_EVERY, 1))


@dataclass(frozen=True, kw_only=True)
class Search:
    """How groups are looked for: the quality/speed window and what follows it.

    ``window`` nearest groups are tried, then ``probes`` random ones; ``budget`` limits the
    tries for one tuple over all fragments.
    """

    strategy: Strategy = "cells"
    window: int | None = None
    probes: int = 160
    budget: int = 2048

    @property
    def nearest(self) -> int:
        """How many nearest groups are tried: all of them in the published search."""
        if self.window is not None:
            return self.window
        return 8 if self.strategy == "cells" else _EVERY


@dataclass(frozen=True, kw_only=True)
class Association:
    """The group of every tuple in every fragment, -1 where it is left out."""

    place: npt.NDArray[np.int32]
    groups: tuple[int, ...]
    unplaced: int
    dissolved: int

    @property
    def kept(self) -> npt.NDArray[np.int64]:
        """The tuples that have groups in every fragment."""
        return np.flatnonzero((self.place >= 0).all(axis=0))

    @property
    def suppressed(self) -> int:
        """How many tuples are left out, of one fragment at least."""
        return int((self.place < 0).any(axis=0).sum())


def associate(
    table: pa.Table,
    schema: Schema,
    constraints: Constraints,
    fragments: Sequence[Sequence[str]],
    sizes: Sequence[int],
    *,
    similar: Sequence[str] = (),
    search: Search | None = None,
    block: int | None = None,
    allowed: float = 1.0,
    randomness: Randomness,
    progress: Progress = lambda _step, _done, _total: None,
) -> Association:
    """Group the tuples of every fragment so that the association is loose.

    Tuples that cannot be placed are left out. Small tables, where chance decides, are
    tried several times. Where far more than the share ``allowed`` find no group, the search ends
    early with none placed. With ``block`` the tuples are associated in random blocks of about
    that size, each for itself.
    """
    search = search or Search()
    turn = list(range(len(fragments)))
    if search.strategy == "cells":
        # what matters least for utility is chosen last, when least can be chosen
        turn.sort(key=lambda f: -sum(w.weight for w in constraints.wishes(similar, fragments[f])))
    fragments, sizes = [fragments[f] for f in turn], [sizes[f] for f in turn]

    def homes_of(part: pa.Table) -> tuple[Any, Homes]:
        shape = problem_shape(part, constraints, fragments, sizes)
        if search.strategy == "cells":
            return shape, PreferredCells(part, schema, shape, fragments, constraints, similar)
        return shape, Ordered(part, schema, shape, fragments, constraints.asked_about(similar))

    if block is None or block >= table.num_rows:
        made = _best(*homes_of(table), search, randomness, allowed, progress)
    else:
        blocks = table.num_rows // block
        cut = np.array_split(randomness.permutation(table.num_rows), blocks)
        parts = []
        for at, rows in enumerate(cut):
            progress("placing tuples", at, blocks)
            parts.append(_best(*homes_of(table.take(rows)), search, randomness, allowed))
        made = _joined(cut, parts, table.num_rows)
    back = np.argsort(turn)
    return replace(made, place=made.place[back], groups=tuple(made.groups[f] for f in back))


def _best(
    shape: Any,
    homes: Homes,
    search: Search,
    randomness: Randomness,
    allowed: float,
    progress: Progress = lambda _step, _done, _total: None,
) -> Association:
    """The best of several attempts: the fewer tuples there are, the more are made."""
    rows = shape.codes.shape[0]
    tries = next(tries for most, tries in _TRIES if rows <= most)
    best: Association | None = None
    for attempt in range(tries):
        progress("placing tuples", attempt, tries)
        made = _place(shape, *homes.draw(randomness), search, randomness, allowed)
        if best is None or made.suppressed < best.suppressed:
            best = made
        if best.suppressed == 0:
            break
    progress("placing tuples", tries, tries)
    assert best is not None, "at least one attempt is made"
    if best.suppressed > allowed * rows and len(shape.groups) == 2 and shape.codes.size:
        made = _in_blocks(shape, randomness)
        best = made if made.suppressed < best.suppressed else best
    return best


def _in_blocks(shape: Any, randomness: Randomness) -> Association:
    """Closed blocks, where the search found no groups for too many."""
    from sherd.methods.fragmenting.closed_blocks import closed_blocks

    state = empty_state(shape)
    state.place[:] = closed_blocks(shape, randomness)
    _check_sound(shape, state)
    left_out = int((state.place[:, 0] < 0).sum())
    return Association(
        place=np.ascontiguousarray(state.place.T),
        groups=tuple(int(g) for g in shape.groups),
        unplaced=left_out,
        dissolved=0,
    )


def _joined(
    cut: Sequence[npt.NDArray[np.int64]], associations: Sequence[Association], rows: int
) -> Association:
    place = np.full((len(associations[0].groups), rows), -1, np.int32)
    before = np.zeros(len(associations[0].groups), np.int32)
    for members, part in zip(cut, associations, strict=True):
        place[:, members] = np.where(part.place >= 0, part.place + before[:, None], -1)
        before += np.asarray(part.groups, np.int32)
    return Association(
        place=place,
        groups=tuple(int(g) for g in before),
        unplaced=sum(part.unplaced for part in associations),
        dissolved=sum(part.dissolved for part in associations),
    )


def beside_each_other(parts: Mapping[tuple[int, ...], Association]) -> Association:
    """Associations over disjoint sets of fragments, numbered from 1, as one (Observation 3)."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    rows = {f: part.place[at] for chosen, part in parts.items() for at, f in enumerate(chosen)}
    groups = {f: part.groups[at] for chosen, part in parts.items() for at, f in enumerate(chosen)}
    return Association(
        place=np.stack([rows[f] for f in sorted(rows)]),
        groups=tuple(groups[f] for f in sorted(groups)),
        unplaced=sum(part.unplaced for part in parts.values()),
        dissolved=sum(part.dissolved for part in parts.values()),
    )


def problem_shape(
    table: pa.Table,
    constraints: Constraints,
    fragments: Sequence[Sequence[str]],
    sizes: Sequence[int],
    groups: Sequence[int] | None = None,
) -> Any:
    """Aspects, reaches, wide constraints and pairs, as the kernels want them."""
    from sherd.methods.fragmenting.heterogeneity_kernels import Problem

    aspects, spans = _aspects(constraints, fragments)
    reaches, wide, covered = _reaches(aspects, spans)
    count = len(fragments)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count) if (i, j) not in covered]
    rows = table.num_rows
    k = np.asarray(sizes, np.int32)
    number = np.asarray(
        groups if groups is not None else [max(1, rows // size) for size in sizes], np.int32
    )
    owner = np.asarray([f for f, _ in aspects], np.int32)
    source = np.asarray([z for z, _ in reaches], np.int32)
    codes = np.empty((rows, len(aspects)), np.int32)  # a tuple's codes side by side in memory
    for at, (_, part) in enumerate(aspects):
        codes[:, at] = combined(table, part)
    return Problem(
        codes=codes,
        aspect_fragment=owner,
        aspects_from=np.searchsorted(owner, np.arange(count + 1)).astype(np.int32),
        reach_source=source,
        reach_aspect=np.asarray([a for _, a in reaches], np.int32),
        wide_from=np.cumsum([0, *map(len, wide)], dtype=np.int32),
        wide_aspects=np.asarray([a for ids in wide for a in ids], np.int32),
        pair_left=np.asarray([i for i, _ in pairs], np.int32),
        pair_right=np.asarray([j for _, j in pairs], np.int32),
        sizes=k,
        capacity=(2 * k).astype(np.int32),
        groups=number,
        group_from=_starts(number),
        member_from=_starts(number.astype(np.int64) * 2 * k),
        aspect_filter_from=_starts(number)[owner],
        aspect_filter=np.asarray(_numbered(owner.tolist()), np.int32),
        reach_filter_from=_starts(number)[source],
        reach_filter=np.asarray(
            _numbered([*owner.tolist(), *source.tolist()])[len(owner) :], np.int32
        ),
    )


def _aspects(
    constraints: Constraints, fragments: Sequence[Sequence[str]]
) -> tuple[list[Aspect], list[list[Aspect]]]:
    """What constraints have in each fragment, all of it and by constraint."""
    aspects: list[Aspect] = []
    spans: list[list[Aspect]] = []
    for constraint in relevant(constraints, fragments):
        span = [
            (f, tuple(name for name in names if name in constraint))
            for f, names in enumerate(fragments)
            if constraint.intersection(names)
        ]
        spans.append(span)
        aspects += [aspect for aspect in span if aspect not in aspects]
    return sorted(aspects, key=lambda aspect: aspect[0]), spans


def _reaches(
    aspects: Sequence[Aspect], spans: Sequence[Sequence[Aspect]]
) -> tuple[list[tuple[int, int]], list[list[int]], set[tuple[int, int]]]:
    """What groups of one fragment may not reach in another, and constraints over more than two.

    The third are the pairs of fragments that constraints over two of them cover.
    """
    reaches: list[tuple[int, int]] = []
    wide: list[list[int]] = []
    covered: set[tuple[int, int]] = set()
    for span in spans:
        ids = [aspects.index(aspect) for aspect in span]
        if len(span) > 2:
            wide.append(ids)
            continue
        covered.add((span[0][0], span[1][0]))
        both = (span[0][0], ids[1]), (span[1][0], ids[0])
        reaches += [reach for reach in both if reach not in reaches]
    return reaches, wide, covered


def _numbered(fragments: Sequence[int]) -> list[int]:
    """How often each entry occurred before.

    >>> _numbered([0, 0, 1, 0])
    [0, 1, 0, 2]
    """
    return [list(fragments[:at]).count(f) for at, f in enumerate(fragments)]


def _starts(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)[:-1]]).astype(np.int64)[
        : len(lengths)
    ]


def empty_state(shape: Any) -> Any:
    """A state in which no tuple has a group."""
    from sherd.methods.fragmenting.heterogeneity_kernels import State

    groups, k = shape.groups.astype(np.int64), shape.capacity.astype(np.int64)
    width = 1 + max([*shape.aspect_filter, *shape.reach_filter], default=0)
    return State(
        members=np.empty(int((groups * k).sum()), np.int32),
        size=np.zeros(int(groups.sum()), np.int32),
        place=np.full((shape.codes.shape[0], len(groups)), -1, np.int32),
        filters=np.zeros((int(groups.sum()), width), np.uint64),
    )


def _place(
    shape: Any,
    homes: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    search: Search,
    randomness: Randomness,
    allowed: float,
) -> Association:
    from sherd.methods.fragmenting.placement import place, settle
    from sherd.methods.fragmenting.soundness import group_members

    # tuples are renumbered by their home in the first fragment: near in order, near in memory
    rank = group_members(homes[0], int(shape.groups[0]))[1]
    inverse = np.empty_like(rank)
    inverse[rank] = np.arange(len(rank))
    shape = shape._replace(codes=shape.codes.take(rank, axis=0))
    homes = homes.take(rank, axis=1)
    order = inverse[order]
    state = empty_state(shape)
    own = search.strategy == "cells"
    near = 16 if own else 0
    seed = np.asarray(randomness.words(1), np.uint64)
    steps = (search.nearest, search.probes, near, search.budget)
    total = _MEAN_TRIES * len(order) + _LEAST_TRIES if own and allowed < 1 else _EVERY

    def place_rest(most: npt.NDArray[np.int32], *, live: bool = False) -> int:
        rest = order[state.place[order, 0] < 0]
        return int(place(shape, state, rest, homes, most, live, seed, own, *steps, total))

    unplaced = place_rest(shape.sizes) and place_rest(shape.capacity)
    if unplaced > max(_HOPELESS, 4 * allowed) * len(order):
        return Association(
            place=np.full((len(shape.groups), len(order)), -1, np.int32),
            groups=tuple(int(g) for g in shape.groups),
            unplaced=unplaced,
            dissolved=0,
        )
    dissolved = settle(shape, state, own, not own, 64, search.probes, seed)
    if own and (unplaced or dissolved):
        place_rest(shape.capacity, live=True)
    _check_sound(shape, state)
    return Association(
        place=np.ascontiguousarray(state.place.take(inverse, axis=0).T),
        groups=tuple(int(g) for g in shape.groups),
        unplaced=unplaced,
        dissolved=int(dissolved),
    )


def _check_sound(shape: Any, state: Any) -> None:
    """Raise where the groups that were found break a property."""
    from sherd.methods.fragmenting.soundness import sound

    wrong = sound(shape, state)
    if wrong:
        raise InternalError(
            "an association is not as loose as it must be", got=f"{wrong} groups", do="report it"
        )
