"""Figures 8 and 9 of the paper in plain Python, with their slips mended.

What is mended: the search reaches the farthest group (line 6); a failed recursion leaves
the partial assignment alone (line 16); ``allocated`` is asked afresh for every candidate;
the left candidate is tried after a failed recursion to the right; a group that grows is
checked against the rows already associated with it; lines 41 to 45 run only where a
reassignment failed; tries are budgeted. Full groups are jumped over by pointers.

It keeps a set of values for every group and for everything a group reaches, so it is not
slow on purpose. Constraints over more than two fragments are not handled.
"""

from __future__ import annotations

import random
from typing import Any

Aspect = tuple[int, list[Any]]  # fragment, one hashable value for each tuple


class Plain:
    """One run over tuples 0 … n - 1."""

    def __init__(
        self,
        sizes: list[int],
        homes: list[list[int]],
        aspects: list[Aspect],
        reaches: list[tuple[int, int]],
        *,
        budget: int = 512,
        seed: int = 0,
    ) -> None:
        self.k, self.homes, self.aspects, self.budget = sizes, homes, aspects, budget
        self.rows = len(homes[0])
        self.fragments = range(len(sizes))
        self.groups = [-(-self.rows // k) for k in sizes]
        self.members: list[list[set[int]]] = [[set() for _ in range(g)] for g in self.groups]
        self.place: list[list[int] | None] = [None] * self.rows
        self.values = [[set() for _ in range(self.groups[f])] for f, _ in aspects]
        self.into = [[r for r, (_, a) in enumerate(reaches) if aspects[a][0] == f]
                     for f in self.fragments]  # fmt: skip
        self.out_of = [[r for r, (z, _) in enumerate(reaches) if z == f] for f in self.fragments]
        self.own = [[a for a, (e, _) in enumerate(aspects) if e == f] for f in self.fragments]
        self.reaches = reaches
        self.reached = [[set() for _ in range(self.groups[z])] for z, _ in reaches]
        self.random = random.Random(seed)  # noqa: S311 - a benchmark

    def run(self) -> int:
        """Steps 2 to 4; the number of tuples left out."""
        order = list(range(self.rows))
        self.random.shuffle(order)
        for factor in (1, 2):
            self.most = [factor * k for k in self.k]
            self.right = [list(range(g + 1)) for g in self.groups]
            self.left = [list(range(g + 1)) for g in self.groups]  # shifted by one
            for f in self.fragments:
                for g in range(self.groups[f]):
                    self.close(f, g)
            for t in order:
                if self.place[t] is None:
                    self.tries = 0
                    self.find_assignment(t, [], 0)
        self.reassign()
        return sum(place is None for place in self.place)

    def close(self, f: int, g: int) -> None:
        """Jump over a full group from now on."""
        if len(self.members[f][g]) >= self.most[f]:
            self.right[f][g] = g + 1
            self.left[f][g + 1] = g

    @staticmethod
    def follow(pointers: list[int], at: int) -> int:
        """Where pointers lead, shortened on the way."""
        while pointers[at] != at:
            pointers[at] = pointers[pointers[at]]
            at = pointers[at]
        return at

    def candidates(self, f: int, home: int) -> Any:
        """Open groups by distance, the right one first, around the end of the order."""
        count = self.groups[f]
        right, left = 0, 1
        while True:
            where = home + right
            ahead = behind = count
            if where < count:
                found = self.follow(self.right[f], where)
                ahead = found - home if found < count else count
                where = count
            if ahead == count:
                found = self.follow(self.right[f], max(0, home + right - count))
                if found < home:
                    ahead = found + count - home
            where = home - left
            if where >= 0:
                found = self.follow(self.left[f], where + 1) - 1
                behind = home - found if found >= 0 else count
                where = -1
            if behind == count:
                found = self.follow(self.left[f], min(home - left, -1) + count + 1) - 1
                if found > home:
                    behind = home + count - found
            if min(ahead, behind) > count // 2:
                return
            if ahead <= behind:
                right = ahead + 1
                yield (home + ahead) % count
            else:
                left = behind + 1
                yield (home - behind) % count

    def find_assignment(self, t: int, chosen: list[int], f: int) -> bool:
        """Figure 9, lines 1 to 20."""
        for g in self.candidates(f, self.homes[f][t]):
            self.tries += 1
            if self.tries > self.budget:
                return False
            if not self.try_assignment(t, f, g, dict(enumerate(chosen))):
                continue
            if f + 1 == len(self.k):
                self.join(t, [*chosen, g])
                return True
            if self.find_assignment(t, [*chosen, g], f + 1):
                return True
        return False

    def try_assignment(self, t: int, f: int, g: int, chosen: dict[int, int]) -> bool:
        """Figure 9, lines 21 to 27: whether all three properties hold."""
        for a in self.own[f]:
            if self.aspects[a][1][t] in self.values[a][g]:
                return False
        for r in self.into[f]:
            z, a = self.reaches[r]
            value = self.aspects[a][1][t]
            for u in self.members[f][g]:
                place = self.place[u]
                if u != t and place is not None and value in self.reached[r][place[z]]:
                    return False
            if z in chosen:
                seen = self.reached[r][chosen[z]]
                if value in seen or not seen.isdisjoint(self.values[a][g]):
                    return False
        for r in self.out_of[f]:
            a = self.reaches[r][1]
            e = self.aspects[a][0]
            if e in chosen:
                seen = self.reached[r][g]
                if self.aspects[a][1][t] in seen or not seen.isdisjoint(self.values[a][chosen[e]]):
                    return False
        return True

    def join(self, t: int, chosen: list[int]) -> None:
        """Put t into its groups and tell everybody associated."""
        self.place[t] = chosen
        for f, g in enumerate(chosen):
            self.members[f][g].add(t)
            for a in self.own[f]:
                self.values[a][g].add(self.aspects[a][1][t])
            self.close(f, g)
        for r, (z, a) in enumerate(self.reaches):
            f = self.aspects[a][0]
            self.reached[r][chosen[z]] |= self.values[a][chosen[f]]
            for u in self.members[f][chosen[f]]:
                place = self.place[u]
                if place is not None:
                    self.reached[r][place[z]].add(self.aspects[a][1][t])

    def leave(self, t: int) -> list[int]:
        """Take t out of its groups; what they and others reach is counted anew."""
        chosen = self.place[t]
        assert chosen is not None
        self.place[t] = None
        touched: list[set[int]] = [set() for _ in self.k]
        for f, g in enumerate(chosen):
            self.members[f][g].discard(t)
            for a in self.own[f]:
                self.values[a][g] = {self.aspects[a][1][u] for u in self.members[f][g]}
            for u in self.members[f][g]:
                place = self.place[u]
                if place is not None:
                    for e, h in enumerate(place):
                        touched[e].add(h)
            touched[f].add(g)
        for r, (z, a) in enumerate(self.reaches):
            f = self.aspects[a][0]
            for h in touched[z]:
                seen: set[Any] = set()
                for u in self.members[z][h]:
                    place = self.place[u]
                    if place is not None:
                        seen |= self.values[a][place[f]]
                self.reached[r][h] = seen
        return chosen

    def reassign(self) -> None:
        """Figure 9, lines 28 to 46."""
        waiting = [
            (f, g)
            for f in self.fragments
            for g in range(self.groups[f])
            if 0 < len(self.members[f][g]) < self.k[f]
        ]
        while waiting:
            f, g = waiting.pop()
            if not 0 < len(self.members[f][g]) < self.k[f]:
                continue
            for t in list(self.members[f][g]):
                if self.place[t] is None:
                    continue
                chosen = self.leave(t)
                others = {e: h for e, h in enumerate(chosen) if e != f}
                for _ in range(self.budget):
                    h = self.random.randrange(self.groups[f])
                    size = len(self.members[f][h])
                    if (
                        h != g
                        and self.k[f] <= size < 2 * self.k[f]
                        and self.try_assignment(t, f, h, others)
                    ):
                        chosen[f] = h
                        self.join(t, chosen)
                        break
                else:
                    waiting += [
                        (e, h) for e, h in others.items() if 0 < len(self.members[e][h]) < self.k[e]
                    ]
