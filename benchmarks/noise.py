"""What a draw of discrete Laplace noise costs, beside OpenDP's and numpy's floating point.

    python benchmarks/noise.py

Prints nanoseconds a draw (the best of several runs) and, since machines differ, the ratio
to numpy's ``Generator.laplace``, which is neither exact nor safe, in the same run.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sherd.randomness import Randomness

if TYPE_CHECKING:
    from collections.abc import Callable

OPENDP_DRAWS = 10_000  # more would only take longer: it draws one by one


def cost(call: Callable[[], object], draws: int, repeats: int) -> float:
    """Nanoseconds a draw, the best of several runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best / draws * 1e9


def main() -> None:
    """Print the table."""
    system = Randomness.from_system()
    generator = np.random.default_rng(1)
    system.discrete_laplace(1, 1, 10, engine="opendp")  # imports it
    system.discrete_laplace(1, 1, 10, engine="vector")  # builds the table
    print(f"{'draws':>10}  {'sampler':<34}{'ns a draw':>10}{'ratio':>8}")
    for draws in (10**3, 10**5, 10**7):
        repeats = 20 if draws < 10**6 else 2
        varied = generator.integers(1, 2**30, draws)
        base = cost(partial(generator.laplace, size=draws), draws, repeats)
        laplace = system.discrete_laplace
        rows = [("vector, a scale for each", partial(laplace, varied, 7), draws)]
        for name, t, s in [("10^6/7", 10**6, 7), ("1", 1, 1), ("1/10", 1, 10), ("2^50", 2**50, 1)]:
            call = partial(laplace, t, s, draws, engine="vector")
            rows.append((f"vector, scale {name}", call, draws))
        some = min(draws, OPENDP_DRAWS)
        call = partial(laplace, 10**6, 7, some, engine="opendp")
        rows.append((f"OpenDP, scale 10^6/7 ({some} draws)", call, some))
        print(f"{draws:>10}  {'numpy Generator.laplace':<34}{base:>10.1f}{1:>8.1f}")
        for name, call, n in rows:
            spent = cost(call, n, 3 if name.startswith("OpenDP") else repeats)
            print(f"{draws:>10}  {name:<34}{spent:>10.1f}{spent / base:>8.1f}")


if __name__ == "__main__":
    main()
