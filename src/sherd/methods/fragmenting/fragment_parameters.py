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
        help="read which attributes may not be seen together, dependencies and a workload",
    ),
    Parameter(
        name="looseness",
        kind=int,
        required=True,
        least=1,
        help="hide each sensitive association among this many",
    ),
    Parameter(
        name="sizes",
        kind=list,
        items=int,
        metavar="N,N",
        help="set the least group size of each fragment",
    ),
    Parameter(
        name="fragments",
        kind=list,
        in_file=True,
        metavar="FILE",
        help="use this fragmentation, given as lists of attributes",
    ),
    Parameter(
        name="similar",
        kind=list,
        metavar="A,B",
        help="group tuples with similar values of these attributes",
    ),
    Parameter(
        name="objective",
        kind=str,
        default="fewest",
        choices=OBJECTIVES,
        help="choose the fragmentation for the fewest fragments, for attributes kept together, or "
        "for a workload",
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
        help="associate each of these sets of fragments separately, as lists of numbers",
    ),
    Parameter(
        name="suppress",
        kind=float,
        default=0.05,
        least=0,
        help="leave out at most this share of the tuples",
    ),
    Parameter(
        name="strategy",
        kind=str,
        default="cells",
        choices=STRATEGIES,
        help="place tuples by cells, or by the published search for the nearest group",
    ),
    Parameter(name="window", kind=int, least=0, help="try this many nearest groups for a tuple"),
    Parameter(
        name="probes", kind=int, default=160, least=0, help="then try this many random groups"
    ),
    Parameter(
        name="budget",
        kind=int,
        default=2048,
        least=1,
        help="try at most this many groups for one tuple",
    ),
    Parameter(
        name="block",
        kind=int,
        least=2,
        help="associate tuples in blocks of this size, so that a later deletion withdraws only one "
        "block",
    ),
    Parameter(
        name="withheld",
        kind=str,
        default="left-out",
        choices=("left-out", "ciphertext"),
        help="leave out attributes that no fragment may hold, or release them as ciphertext that "
        "only your key opens",
    ),
    Parameter(
        name="cell_bytes",
        kind=int,
        default=64,
        least=16,
        help="pad every cell of ciphertext to this size",
    ),
    Parameter(
        name="time_limit",
        kind=float,
        default=10.0,
        above=0,
        help="improve the fragmentation for at most this many seconds",
    ),
    Parameter(name="after", kind=dict, option=None, help="follow this release"),
    Parameter(
        name="withdraw",
        kind=str,
        choices=WITHDRAWALS,
        help="withdraw with a deleted tuple all that its groups are associated with, or only its "
        "groups",
    ),
    Parameter(
        name="most_withdrawn",
        kind=float,
        least=0,
        help="withdraw at most this share of the released parts with deleted tuples (0.05 if not "
        "given)",
    ),
)
