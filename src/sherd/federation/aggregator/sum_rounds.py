"""The aggregator's work in a round of sums: add answers up, ask the next question, release.

It holds masked numbers and their sums. The next question, and in the end the release, follow
from the sums alone, so that everything may be begun again after a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.errors import SherdError, VerificationError
from sherd.federation.aggregator.delivery_check import check_part
from sherd.federation.protocol.joint_release import pooled_plan, pooled_schema
from sherd.federation.protocol.messages import CHUNK
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.round_machine import RoundTask
from sherd.federation.protocol.summing import among, method_of, read_question, total
from sherd.federation.wire.chunks import describe
from sherd.federation.wire.failpoints import reach
from sherd.values import canonical

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.protocol.knowledge import RoundData
    from sherd.federation.protocol.messages import Attachment
    from sherd.release.method import Outcome

    Bulk = Callable[[Attachment], bytes]
    Answered = list[tuple[dict[str, Any], NDArray[np.int64]]]


def answered(data: RoundData, bulk: Bulk) -> Answered:
    """The questions of a round with the sums of their answers, as far as there are any."""
    import numpy as np

    pairs = zip(data.asked or (), data.sums or (), strict=False)
    return [
        (read_question(bulk(question)), np.frombuffer(bulk(sums), "<i8").astype(np.int64))
        for question, sums in pairs
    ]


def add_up(aggregator: Aggregator, round_id: str, data: RoundData, bulk: Bulk) -> None:
    """Sum the answers to the last question, and ask the next one or end the asking."""
    joint = data.agreed
    method, schema, plan = method_of(joint), pooled_schema(joint), pooled_plan(joint)
    so_far, sums = answered(data, bulk), b""
    try:
        for owner, one in (data.masked or {}).items():
            check_part(data, owner, one)
        if data.asked:
            handed_in = [bulk(one.attachment) for one in (data.masked or {}).values()]
            whole = total(handed_in)
            sums = whole.astype("<i8").tobytes()
            so_far.append((read_question(bulk(data.asked[-1])), whole))
        question = method.next_question(plan, schema, among(data.agreed), so_far)
        length = 0 if question is None else method.length(plan, schema, question)
    except SherdError as error:
        aggregator.abort(round_id, Reason.VERIFICATION, error.what)
        return
    raw = b"" if question is None else canonical(question)
    with aggregator.store.working(round_id) as work:
        assert work is not None
        machine = aggregator.machine(work.data)
        if machine.task is not RoundTask.SUM or len(work.data.asked or ()) != len(data.asked or ()):
            return
        machine.data.heads = work.heads(machine.data.keys)
        machine.data.tries = None
        for made in (sums, raw):
            pieces = (made[start : start + CHUNK] for start in range(0, len(made), CHUNK))
            work.add_bulk(dict(zip(describe(made).chunks, pieces, strict=True)))
        if data.asked:
            machine.summed(describe(sums))
        messages = machine.complete() if question is None else machine.ask(describe(raw), length)
        letters = aggregator.keep(work, machine, messages)
        reach("aggregator.linking")
    reach("aggregator.linked")
    aggregator.listener(letters)


def outcome(data: RoundData, bulk: Bulk) -> Outcome:
    """What is released: it follows from the sums."""
    from sherd.randomness import Randomness
    from sherd.release.method import Run

    try:
        return method_of(data.agreed).release_rows(
            pooled_plan(data.agreed),
            pooled_schema(data.agreed),
            among(data.agreed),
            answered(data, bulk),
            Run(randomness=Randomness.from_system(), threads=1),
        )
    except SherdError as error:
        raise VerificationError(error.what) from None
