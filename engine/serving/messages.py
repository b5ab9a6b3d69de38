"""What workers and router tell each other: plain data, one JSON object a line on the wire.

A request's life, as messages (R = router, P = prefill worker, D = decode worker):

    R -> P  Submit                     R -> E  Submit                (E = a unified or chunked engine)
    P -> R -> D  Offer, Part ... Part  E -> R  Finished
    D -> R -> P  Ack                   P may free the blocks
    D -> R  Finished
    D -> R  Return                     preempted or lease lost: R submits it to a P again, with the tokens so far
    D -> R  Failed                     what arrived is not what was sent, or will be too late: it ends here

`attempt` counts how often a request was prefilled before: an answer to an earlier attempt is too late and is ignored.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.kv.eviction import Full, as_dict


@dataclass(frozen=True)
class Submit:
    """A request for a worker; `tokens` is the prompt and what was generated so far (more than the prompt on a return).

    `eviction` is the policy as `eviction.as_dict` writes it.
    """

    index: int
    prompt_tokens: int
    tokens: list[int]
    output_tokens: int
    seed: int
    attempt: int = 0
    eviction: dict[str, Any] = field(default_factory=lambda: as_dict(Full()))


@dataclass(frozen=True)
class Offer:
    """KV that is or will be ready to fetch: which request, and which blocks of whose pool hold its `len(tokens)` tokens."""

    index: int
    prompt_tokens: int
    tokens: list[int]
    output_tokens: int
    seed: int
    attempt: int
    source: str
    blocks: list[int]


@dataclass(frozen=True)
class Part:
    """Layers [first_layer, end_layer) of an offer may be read now. The last part carries token 1 and the lease's end.

    size, crc32: of the bytes that are sent; None if nobody counted. quantise_s, checksum_s: what making them took.
    """

    index: int
    attempt: int
    first_layer: int
    end_layer: int
    published_ns: tuple[int, int]
    token: int | None = None
    lease_expires_ns: int | None = None
    size: int = 0
    crc32: int | None = None
    quantise_s: float = 0.0
    checksum_s: float = 0.0


@dataclass(frozen=True)
class Ack:
    """The decode worker has its own copy: the source's blocks are free to go."""

    index: int
    attempt: int


@dataclass(frozen=True)
class Return:
    """The decode worker lost the KV (preempted, or the lease ended first): prefill these tokens again."""

    index: int
    tokens: list[int]
    reason: str


@dataclass(frozen=True)
class Finished:
    index: int


@dataclass(frozen=True)
class Refused:
    index: int
    error: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    """The request ended unserved, and why; the others go on."""

    index: int
    error: dict[str, Any]


@dataclass(frozen=True)
class Noted:
    """Something for the trace: kind is admitted, preempted, lease_expired or no_room (KV that is offered waits for blocks)."""

    kind: str
    index: int
    at_ns: int


Message = Submit | Offer | Part | Ack | Return | Finished | Refused | Failed | Noted
_BY_NAME = {cls.__name__: cls for cls in (Submit, Offer, Part, Ack, Return, Finished, Refused, Failed, Noted)}


def encode(message: Message) -> str:
    """One line of JSON, without the newline."""
    return json.dumps({"type": type(message).__name__, **asdict(message)}, separators=(",", ":"))


def together(lines: list[str]) -> str:
    """One line of several encoded messages, which are received at once."""
    return lines[0] if len(lines) == 1 else f'{{"type":"together","messages":[{",".join(lines)}]}}'


def decode_all(record: dict[str, Any]) -> list[Message]:
    """The messages in a decoded JSON line, one or several; none in other records."""
    records = record["messages"] if record["type"] == "together" else [record]
    return [message for record in records if (message := decode(record)) is not None]


def decode(record: dict[str, Any]) -> Message | None:
    """The message in a decoded JSON line; None for other records (steps, session control)."""
    cls = _BY_NAME.get(record.get("type", ""))
    if cls is None:
        return None
    return cls(**{name: value for name, value in record.items() if name != "type"})
