"""Every message of the protocols, as frozen values.

A message's small part is signed and kept; bulk (a batch of points, a protected table) is an
attachment: announced by its hashes in the message, and then sent in chunks that are found by
their own hash. Announcing first means that nobody can store what nobody announced, and that
an owner is bound to one artefact before its first byte leaves.

Two things are signed of a joint release: each owner's part when it delivers, and the release
itself. The plan, which every owner signed, names the aggregator's key and says that the release is
signed. So somebody who changes a released manifest and works its hashes out again needs the
aggregator's key, and to change what it says of an owner needs that owner's. An owner that has
looked at the release also signs its manifest; without that the aggregator alone vouches for the
rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sherd.errors import PlanError
from sherd.federation.protocol.joint_plan import HASH, JointPlan, Offer, Terms
from sherd.federation.protocol.reasons import Reason
from sherd.values import LATER, canonical

if TYPE_CHECKING:
    from collections.abc import Mapping


MOST_BYTES = 4 << 20
"""The most bytes of an envelope; bulk is sent as attachments."""

MOST_TEXT = MOST_BYTES - (64 << 10)
"""The most bytes of an offer or a plan, which must fit into an envelope."""

CHUNK = 1 << 20
"""The most bytes of a chunk; every chunk but the last has as many."""

MOST_CHUNKS = 1 << 16
"""The most chunks of an attachment: 64 GiB."""


_FILE = re.compile(r"([a-z][a-z0-9_-]{0,40})(\.coded)?\.arrows", re.ASCII)
"""What a delivered file may be called: a table's name, whether it is coded, and the format."""


def table_name(file_name: str) -> str:
    """The name of the table in a delivered file.

    >>> table_name("data.arrows"), table_name("data.coded.arrows")
    ('data', 'data')
    """
    return file_name.partition(".")[0]


def check_hash(text: str) -> None:
    """PlanError where a text is no sha256."""
    if not HASH.fullmatch(text):
        raise PlanError("a hash is not valid", must="64 hexadecimal digits")


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """Bulk that belongs to a message: its hash, its size and the hashes of its chunks."""

    sha256: str
    size: int
    chunks: tuple[str, ...]

    def __post_init__(self) -> None:
        for text in (self.sha256, *self.chunks):
            check_hash(text)
        if self.size < 0 or len(self.chunks) != -(-self.size // CHUNK):
            raise PlanError("an attachment's chunks do not fit its size")
        if len(self.chunks) > MOST_CHUNKS:
            raise PlanError("an attachment is too large", must=f"at most {MOST_CHUNKS} chunks")


@dataclass(frozen=True, kw_only=True)
class Invite:
    """Aggregator to owner, step 1: the invitation to take part."""

    terms: Terms
    aggregator_key: str


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Aggregator to owner, step 4: the plan, and the last ledger head seen from this owner."""

    plan: JointPlan
    head: str | None


@dataclass(frozen=True, kw_only=True)
class Signature:
    """Owner to aggregator: the owner's signature of the plan's hash."""

    signature: str


@dataclass(frozen=True, kw_only=True)
class Signed:
    """Aggregator to owner: every owner's signature; the plan may be carried out."""

    signatures: dict[str, str]
    head: str | None


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Owner to aggregator: a batch of blinded points after so many hops."""

    origin: str
    hop: int
    count: int
    attachment: Attachment


@dataclass(frozen=True, kw_only=True)
class Hop:
    """Aggregator to owner: raise this batch, or (last hop) unblind it.

    ``proof`` is the signed envelope in which the hop before sent it.
    """

    origin: str
    hop: int
    count: int
    attachment: Attachment
    proof: str


@dataclass(frozen=True, kw_only=True)
class Pseudonyms:
    """Owner to aggregator: the pseudonyms of its people, sorted."""

    count: int
    attachment: Attachment


@dataclass(frozen=True, kw_only=True)
class Common:
    """Aggregator to owner: linking is done; of its people who are released, the pseudonyms."""

    count: int | None
    attachment: Attachment | None
    head: str | None


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """Owner to aggregator, step 7: the protected tables.

    ``artefact`` is the hash the owner's ledger was charged with, ``head`` the ledger's last
    row after that; ``signature`` is the owner's of its part, as the manifest will state it.
    """

    artefact: str
    files: dict[str, Attachment]
    rows: int
    facts: dict[str, Any] = field(default_factory=dict)
    head: str
    versions: dict[str, str] = field(default_factory=dict)
    signature: str | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        check_hash(self.artefact)
        check_hash(self.head)
        for name in self.files:
            if not _FILE.fullmatch(name):
                raise PlanError("a delivered file's name is not valid")
        if not self.files:
            raise PlanError("a delivery has no files")
        if len({table_name(name) for name in self.files}) < len(self.files):
            raise PlanError("two delivered files are the same table")
        if self.rows < 0:
            raise PlanError("a delivery's number of rows is out of range", must="0 or more")

    @property
    def size(self) -> int:
        """The bytes of all files together."""
        return sum(attachment.size for attachment in self.files.values())


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Aggregator to owner: a question of a round of sums, the same to all owners."""

    exchange: int
    attachment: Attachment
    head: str | None


@dataclass(frozen=True, kw_only=True)
class Masked:
    """Owner to aggregator: its numbers under the masks that it shares with the other owners.

    ``artefact`` is the hash the owner's ledger was charged with (that of the first question),
    ``head`` the ledger's last row; ``signature`` is the owner's of its part.
    """

    exchange: int
    attachment: Attachment
    artefact: str
    head: str
    versions: dict[str, str] = field(default_factory=dict)
    signature: str | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        check_hash(self.artefact)
        check_hash(self.head)


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """Aggregator to owner: the delivery has arrived whole."""

    artefact: str


@dataclass(frozen=True, kw_only=True)
class Released:
    """Aggregator to owner, step 8: the release is out; the hash of its manifest."""

    manifest: str

    def __post_init__(self) -> None:
        check_hash(self.manifest)


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Owner to aggregator: no, and the code why; the detail stays at the owner."""

    reason: Reason


@dataclass(frozen=True, kw_only=True)
class Abort:
    """Aggregator to owner: the round has ended without a release."""

    reason: Reason
    details: tuple[str, ...] = ()


class MessageType(StrEnum):
    """The name of each kind of message."""

    INVITE = "invite"
    OFFER = "offer"
    PROPOSAL = "proposal"
    SIGNATURE = "signature"
    SIGNED = "signed"
    BATCH = "batch"
    HOP = "hop"
    PSEUDONYMS = "pseudonyms"
    COMMON = "common"
    DELIVERY = "delivery"
    ASK = "ask"
    MASKED = "masked"
    RECEIPT = "receipt"
    RELEASED = "released"
    REFUSAL = "refusal"
    ABORT = "abort"


BODIES: dict[MessageType, type[Any]] = {
    MessageType[body.__name__.upper()]: body
    for body in (
        Invite, Offer, Proposal, Signature, Signed, Batch, Hop, Pseudonyms, Common, Delivery, Ask,
        Masked, Receipt, Released, Refusal, Abort,
    )
}  # fmt: skip
"""What each kind of message holds."""

FROM_OWNERS = frozenset(
    {
        MessageType.OFFER,
        MessageType.SIGNATURE,
        MessageType.BATCH,
        MessageType.PSEUDONYMS,
        MessageType.DELIVERY,
        MessageType.MASKED,
        MessageType.REFUSAL,
    }
)
"""What owners send; everything else is the aggregator's."""

_TYPES = {body: kind for kind, body in BODIES.items()}


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message from one peer to another in one round.

    ``plan`` is the hash of the plan the sender goes by, empty before there is one;
    ``sequence`` counts the messages of this sender to this recipient in this round from 1;
    ``raw`` is the signed envelope it came in.
    """

    round: str
    plan: str
    sender: str
    recipient: str
    sequence: int
    body: Any
    raw: str = ""

    @property
    def type(self) -> MessageType:
        """The kind of message."""
        return _TYPES[type(self.body)]


def attachments(body: Any) -> dict[str, Attachment]:
    """The bulk that belongs to a message, by name."""
    if isinstance(body, Delivery):
        return dict(body.files)
    attached = getattr(body, "attachment", None)
    return {} if attached is None else {"attachment": attached}


def part_text(
    *, plan_hash: str, owner: str, artefact: str, head: str, versions: Mapping[str, str]
) -> bytes:
    """What an owner signs when it delivers: its artefact under this plan, and its ledger's head."""
    return b"sherd-part-1\0" + canonical([plan_hash, owner, artefact, head, dict(versions)])


def countersigned_text(*, plan_hash: str, owner: str, manifest: str) -> bytes:
    """What an owner signs when its part is in the release: the hash of the release's manifest."""
    return b"sherd-countersigned-1\0" + canonical([plan_hash, owner, manifest])
