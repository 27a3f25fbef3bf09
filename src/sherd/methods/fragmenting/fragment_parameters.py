"""What a plan of the method ``fragment`` can say."""

from __future__ import annotations

from sherd.methods.fragmenting.association import STRATEGIES
from sherd.methods.fragmenting.fragmentation import OBJECTIVES
from sherd.methods.fragmenting.next_release import WITHDRAWALS
from sherd.release.parameter import Parameter

PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        name="constraints",
        kind=dict,
        required=True,
        in_file=True,
        metavar="FILE",
        help="attributes that may not be seen together, dependencies and a workload",
    ),
    Parameter(
        name="looseness",
        kind=int,
        required=True,
        least=1,
        help="k: how many associations each sensitive one is hidden among",
    ),
    Parameter(
        name="sizes", kind=list, items=int, metavar="N,N", help="least group size of each fragment"
    ),
    Parameter(
        name="fragments",
        kind=list,
        in_file=True,
        metavar="FILE",
        help="a fragmentation, as lists of attributes",
    ),
    Parameter(
        name="similar",
        kind=list,
        metavar="A,B",
        help="attributes whose values are kept alike in groups",
    ),
    Parameter(
        name="objective",
        kind=str,
        default="fewest",
        choices=OBJECTIVES,
        help="what the fragmentation is chosen for",
    ),
    Parameter(
        name="projections",
        kind=list,
        option=None,
        help="release the association between these fragments only, as lists of numbers",
    ),
    Parameter(
        name="associations",
        kind=list,
        option=None,
        help="associate these sets of fragments, each for itself, as lists of numbers",
    ),
    Parameter(
        name="suppress",
        kind=float,
        default=0.05,
        least=0,
        help="the largest share of tuples that may be left out",
    ),
    Parameter(
        name="strategy",
        kind=str,
        default="cells",
        choices=STRATEGIES,
        help="how tuples are placed: cells, or the published nearest-group search",
    ),
    Parameter(name="window", kind=int, least=0, help="nearest groups tried for a tuple"),
    Parameter(name="probes", kind=int, default=160, least=0, help="random groups tried after that"),
    Parameter(name="budget", kind=int, default=2048, least=1, help="tries for one tuple in all"),
    Parameter(
        name="block",
        kind=int,
        least=2,
        help="associate tuples in blocks of this size, so that later deletions withdraw "
        "one block only",
    ),
    Parameter(
        name="withheld",
        kind=str,
        default="left-out",
        choices=("left-out", "ciphertext"),
        help="what becomes of attributes that no fragment may hold: nothing, or ciphertext that "
        "only your key opens",
    ),
    Parameter(
        name="cell_bytes",
        kind=int,
        default=64,
        least=16,
        help="the size that every cell of ciphertext is filled up to",
    ),
    Parameter(
        name="time_limit",
        kind=float,
        default=10.0,
        above=0,
        help="seconds for improving a fragmentation",
    ),
    Parameter(name="after", kind=dict, option=None, help="the release that this one follows"),
    Parameter(
        name="withdraw",
        kind=str,
        choices=WITHDRAWALS,
        help="what goes with a deleted tuple: all its groups are associated with, or its "
        "groups only",
    ),
    Parameter(
        name="most_withdrawn",
        kind=float,
        least=0,
        help="the largest share of released parts that may be withdrawn with deleted tuples "
        "(0.05 if not given)",
    ),
)
