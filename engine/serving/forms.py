"""What a worker on another host may say: every record has one form. Pure.

A host that joined has the code and the same engine, and still its network, memory or program may be broken: what it sends is
looked at once, where it comes in, and everything behind that relies on it. What the records mean is told in
`engine.serving.remote` and `engine.serving.messages`.
"""

import base64
import binascii
import math
from collections.abc import Callable

Form = Callable[[object], bool]
_LONGEST_TEXT = 100_000
# No sentence could have them as facts: LabError(code, **facts).
_NO_FACTS = {"self", "code"}


def whole(limit: int) -> Form:
    """From 0 to below the limit."""
    return lambda value: type(value) is int and 0 <= value < limit


def moment(value: object) -> bool:
    """Nanoseconds of a clock that counts from anywhere."""
    return type(value) is int and abs(value) < 1 << 62


def _number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < 1e18 and math.isfinite(value)


def _seconds(value: object) -> bool:
    return _number(value) and value >= 0


def _text(value: object) -> bool:
    return type(value) is str and len(value) <= _LONGEST_TEXT


def _base64(value: object) -> bool:
    try:
        return type(value) is str and bool(base64.b64decode(value, validate=True)) or value == ""
    except (binascii.Error, ValueError):
        return False


def _truth(value: object) -> bool:
    return type(value) is bool


def _or_none(form: Form) -> Form:
    return lambda value: value is None or form(value)


def _row(*forms: Form) -> Form:
    return lambda value: type(value) is list and len(value) == len(forms) and all(f(v) for f, v in zip(forms, value, strict=True))


def _list(form: Form) -> Form:
    return lambda value: type(value) is list and all(map(form, value))


def _error(value: object) -> bool:
    """A LabError as `as_dict` writes it."""
    if type(value) is not dict or value.keys() != {"code", "facts", "message"} or type(value["facts"]) is not dict:
        return False
    facts = value["facts"]
    plain = all(fact is None or _truth(fact) or _number(fact) or _text(fact) for fact in facts.values())
    return _text(value["code"]) and _text(value["message"]) and plain and not _NO_FACTS & facts.keys()


_COUNT, _TOKEN, _CRC = whole(1 << 40), whole(1 << 31), whole(1 << 32)
_SPAN, _SLICES = _row(moment, moment), _list(_row(_COUNT, _COUNT, _COUNT))
_KINDS = ("admitted", "preempted", "lease_expired", "no_room")
_ATTEMPT = {"index": _COUNT, "attempt": _COUNT}
_STEP = {"slices": _SLICES, "prefill_tokens": _COUNT, "decode_tokens": _COUNT}
_OFFER = {"prompt_tokens": _COUNT, "tokens": _list(_TOKEN), "output_tokens": _COUNT, "seed": _number, "source": _text, "blocks": _list(_COUNT)}
_LAYERS = {"first_layer": _COUNT, "published_ns": _SPAN}
_COPIED = {"begin_ns": moment, "end_ns": moment, "pulled_ns": _SPAN, "layers": _COUNT, "bytes": _COUNT, "last": _truth}
_SENT = {"token": _or_none(_TOKEN), "lease_expires_ns": _or_none(moment), "size": _COUNT, "crc32": _or_none(_CRC)}

FORMS: dict[str, dict[str, Form]] = {
    "meshed": {},
    "store": {"key": _text, "value": _base64},
    "died": {"exit": _text, "last_words": _text},
    "failed": {"error": _error},
    "loaded": {"pid": _COUNT, "load_s": _seconds, "threads": _COUNT, "torch": _text, "device_name": _or_none(_text)},
    "pong": {"now_ns": moment},
    "opened": {},
    "closed": {},
    "begun": {"at_ns": moment, **_STEP},
    "step": {"begin_ns": moment, "end_ns": moment, **_STEP, "tokens": _list(_row(_COUNT, _TOKEN, _number))},
    "kv": {"at_ns": moment, "blocks": _COUNT},
    "fetch": {**_ATTEMPT, **_LAYERS, **_COPIED, "source": _text}
    | dict.fromkeys(("quantise_s", "move_s", "checksum_s", "dequantise_s"), _seconds),
    "Offer": {**_ATTEMPT, **_OFFER},
    "Part": {**_ATTEMPT, **_LAYERS, **_SENT, "end_layer": _COUNT, "quantise_s": _seconds, "checksum_s": _seconds},
    "Ack": _ATTEMPT,
    "Return": {"index": _COUNT, "tokens": _list(_TOKEN), "reason": _text},
    "Finished": {"index": _COUNT},
    "Refused": {"index": _COUNT, "error": _error},
    "Failed": {"index": _COUNT, "error": _error},
    "Noted": {"kind": lambda value: value in _KINDS, "index": _COUNT, "at_ns": moment},
}


def fault(record: dict) -> str:
    """What is wrong with a record, in a few words; "" if nothing is. It has a "type"."""
    kind = record["type"]
    form = FORMS.get(kind) if isinstance(kind, str) else None
    if form is None:
        return ascii(kind)[:60]
    wrong = [name for name in form if name not in record or not form[name](record[name])]
    return ", ".join(f"{kind}: {name}" for name in (wrong or sorted(record.keys() - form.keys() - {"type"}))[:3])[:200]


def requests_in(record: dict) -> set[int]:
    """The requests (their indexes) that a record of this form is about."""
    found = {record["index"]} if "index" in record else set()
    if record["type"] in ("begun", "step"):
        found |= {row[0] for row in record["slices"] + record.get("tokens", [])}
    return found
