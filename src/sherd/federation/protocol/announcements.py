"""Whether what an owner announces fits the round, before any byte of it comes.

A message with an attachment announces bulk: a batch of points, a list of pseudonyms, a
delivery. Its sender, its turn and its size follow from the plan, so they are checked first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sherd.federation.protocol.joint_plan import Linkage
from sherd.federation.protocol.linkage import POINT, chain
from sherd.federation.protocol.messages import Batch, Delivery, Masked, Pseudonyms
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import RoundState
from sherd.federation.protocol.summing import check_masked, sums_rows

if TYPE_CHECKING:
    from sherd.federation.protocol.knowledge import RoundData


def check_announcement(data: RoundData, sender: str, body: Any) -> None:
    """Refuse an announcement that does not fit the state of the round, its turn or its size."""
    if isinstance(body, Masked):
        check_masked(data, sender, body)
        return
    wanted = RoundState.COLLECTING if isinstance(body, Delivery) else RoundState.LINKING
    if data.state is not wanted or (isinstance(body, Delivery) and sums_rows(data.terms)):
        raise Reason.UNEXPECTED.error()
    if isinstance(body, Delivery):
        _check_delivery(data, sender, body)
    elif isinstance(body, Pseudonyms):
        _check_pseudonyms(data, sender, body)
    else:
        assert isinstance(body, Batch)
        _check_batch(data, sender, body)


def _check_delivery(data: RoundData, sender: str, body: Delivery) -> None:
    if sender in data.deliveries or _is_waiting(data, sender, Delivery):
        raise Reason.UNEXPECTED.error()
    if body.size > data.terms.most_bytes:
        raise Reason.TOO_LARGE.error()


def _check_pseudonyms(data: RoundData, sender: str, body: Pseudonyms) -> None:
    by_hops = data.terms.linkage is Linkage.OPRF
    if by_hops and data.hops.get(sender) != len(data.agreed.owners):
        raise Reason.UNEXPECTED.error()
    if sender in data.pseudonyms or _is_waiting(data, sender, Pseudonyms):
        raise Reason.UNEXPECTED.error()
    _check_points(body, data.agreed.share(sender).rows)


def _check_batch(data: RoundData, sender: str, body: Batch) -> None:
    if body.origin not in data.agreed.owners or data.terms.linkage is not Linkage.OPRF:
        raise Reason.UNEXPECTED.error()
    order = chain(data.agreed.owners, body.origin)
    if body.hop != data.hops.get(body.origin, 0) or body.hop >= len(order):
        raise Reason.UNEXPECTED.error()
    if order[body.hop] != sender or _is_waiting(data, sender, Batch, body.origin):
        raise Reason.UNEXPECTED.error()
    if body.count != data.counts.get(body.origin, body.count):
        raise Reason.TOO_LARGE.error()
    _check_points(body, data.agreed.share(body.origin).rows)


def _check_points(body: Batch | Pseudonyms, most: int) -> None:
    if not 0 < body.count <= most:
        raise Reason.TOO_LARGE.error()
    if body.attachment.size != POINT * body.count:
        raise Reason.MALFORMED.error()


def _is_waiting(data: RoundData, sender: str, kind: type, origin: str | None = None) -> bool:
    return any(
        key.split("/")[0] == sender
        and isinstance(each.body, kind)
        and (origin is None or (each.batch is not None and each.batch.origin == origin))
        for key, each in data.waiting.items()
    )
