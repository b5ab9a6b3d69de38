"""The trace of one schedule's run: raw worker records in, one plain JSON-ready dict out.

All times are seconds from the start, rounded to microseconds.

    requests   one each: the seven stamps (arrival; prefill, transfer and decode begin and end; None where it never
               happened), the time of every output token, and how it ended. Prefill is the one that made the first
               token, transfer the one after which the request first decoded, decode from then to the last token
    steps      one forward each: worker, begin, end, prefill and decode tokens, slices [request, position, length]
    transfers  KV that moved between pools: bytes, the copies it was made of, and the seconds of each kind of work on them
    kv         KV token slots in owned blocks of each worker at each change
    events     admitted, preempted, lease_expired, no_room (offered KV waits until the decode worker has blocks), returned, refused,
               failed (its KV did not arrive as it was sent)
    under_way  steps that had begun and not ended when the records end: as steps, without an end. Not in a whole trace
"""

from collections.abc import Iterable

Record = dict
_WORK = ("quantise_s", "move_s", "dequantise_s", "checksum_s")


def build_trace(schedule: str, requests: list[Record], records: Iterable[Record], *, block_tokens: int) -> Record:
    """Assemble a trace.

    requests: {"id", "kind", "prompt_tokens", "output_tokens"} in index order.
    records: what the cluster noted, in order: start, arrive, step, fetch, kv, and messages, with clock nanoseconds.
    """
    return _Builder(schedule, requests, block_tokens).build(list(records))


def output_tokens(records: Iterable[Record]) -> dict[int, list[tuple[int, float]]]:
    """Per request index, its output tokens and the gap between the two largest logits at each."""
    tokens: dict[int, list[tuple[int, float]]] = {}
    for record in records:
        if record["type"] == "step":
            for index, token, gap in record["tokens"]:
                tokens.setdefault(index, []).append((token, gap))
    return tokens


class _Builder:
    def __init__(self, schedule: str, requests: list[Record], block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.start_ns = 0
        self.copying: dict[int, Record] = {}
        self.under_way: dict[str, Record] = {}
        self.trace: Record = {
            "schedule": schedule,
            "duration_s": 0.0,
            "requests": [_new_request(request) for request in requests],
            "steps": [],
            "transfers": [],
            "kv": [],
            "events": [],
        }

    def build(self, records: list[Record]) -> Record:
        for record in records:
            handler = getattr(self, f"_on_{record['type'].lower()}", None)
            if handler:
                handler(record)
        self.trace["steps"].sort(key=lambda step: step["begin_s"])
        self.trace["kv"].sort(key=lambda point: point["at_s"])
        ends = [step["end_s"] for step in self.trace["steps"]] + [t["end_s"] for t in self.trace["transfers"]]
        self.trace["duration_s"] = max(ends, default=0.0)
        if self.under_way:
            self.trace["under_way"] = list(self.under_way.values())
        return self.trace

    def _seconds(self, ns: int) -> float:
        return round((ns - self.start_ns) / 1e9, 6)

    def _on_start(self, record: Record) -> None:
        self.start_ns = record["at_ns"]

    def _on_arrive(self, record: Record) -> None:
        self.trace["requests"][record["index"]]["arrival_s"] = self._seconds(record["at_ns"])

    def _on_begun(self, record: Record) -> None:
        facts = {name: record[name] for name in ("worker", "prefill_tokens", "decode_tokens", "slices")}
        self.under_way[record["worker"]] = {"begin_s": self._seconds(record["at_ns"]), **facts}

    def _on_step(self, record: Record) -> None:
        self.under_way.pop(record["worker"], None)
        begin, end = self._seconds(record["begin_ns"]), self._seconds(record["end_ns"])
        for place, (index, _, _) in enumerate(record["slices"]):
            # Every plan has its decodes first, a token each. After a preemption tokens can come from a prefill too.
            stamp = "decode_begin_s" if place < record["decode_tokens"] else "prefill_begin_s"
            request = self.trace["requests"][index]
            request[stamp] = begin if request[stamp] is None else request[stamp]
        for index, _, _ in record["tokens"]:
            request = self.trace["requests"][index]
            if not request["token_s"]:
                request["prefill_end_s"] = end
            elif request["decode_begin_s"] is not None:
                request["decode_end_s"] = end
            request["token_s"].append(end)
        self.trace["steps"].append(
            {
                "worker": record["worker"],
                "begin_s": begin,
                "end_s": end,
                "prefill_tokens": record["prefill_tokens"],
                "decode_tokens": record["decode_tokens"],
                "slices": record["slices"],
            }
        )

    def _on_kv(self, record: Record) -> None:
        self.trace["kv"].append(
            {
                "worker": record["worker"],
                "at_s": self._seconds(record["at_ns"]),
                "tokens": record["blocks"] * self.block_tokens,
            }
        )

    def _on_fetch(self, record: Record) -> None:
        begin, end = self._seconds(record["begin_ns"]), self._seconds(record["end_ns"])
        published = self._seconds(record["published_ns"][0])
        transfer = self._open_transfer(record, published)
        transfer["end_s"] = end
        transfer["bytes"] += record["bytes"]
        if "pulled_ns" in record:  # from another host: over the network first, then into the worker's own memory
            transfer["parts"].append([*map(self._seconds, record["pulled_ns"]), record["layers"]])
        transfer["parts"].append([begin, end, record["layers"]])
        for name in _WORK:
            transfer[name] = round(transfer[name] + record.get(name, 0.0), 6)
        if record["last"]:
            transfer["complete"] = True
            del self.copying[record["index"]]
        request = self.trace["requests"][record["index"]]
        request["transfer_begin_s"] = published if request["transfer_begin_s"] is None else request["transfer_begin_s"]
        if record["last"] and request["transfer_end_s"] is None:
            request["transfer_end_s"] = end

    def _open_transfer(self, record: Record, published: float) -> Record:
        """The transfer this copy belongs to: the one the request is in, else a new one."""
        if record["index"] in self.copying:
            return self.copying[record["index"]]
        transfer = self.copying[record["index"]] = {
            "request": record["index"],
            "from": record["source"],
            "to": record["worker"],
            "begin_s": published,
            "end_s": published,
            "bytes": 0,
            "parts": [],
            "complete": False,
            **dict.fromkeys(_WORK, 0.0),
        }
        self.trace["transfers"].append(transfer)
        return transfer

    def _on_noted(self, record: Record) -> None:
        if record["kind"] == "preempted":
            self.trace["requests"][record["index"]]["preemptions"] += 1
        self._event(record, record["kind"])

    def _on_return(self, record: Record) -> None:
        """What was copied so far is void: the next copy begins another transfer."""
        self.copying.pop(record["index"], None)
        request = self.trace["requests"][record["index"]]
        if request["decode_begin_s"] is None:
            request["transfer_begin_s"] = request["transfer_end_s"] = None
        self._event(record, "returned")

    def _on_refused(self, record: Record) -> None:
        self.trace["requests"][record["index"]].update(status="refused", reason=record["error"])
        self._event(record, "refused")

    def _on_failed(self, record: Record) -> None:
        self.copying.pop(record["index"], None)
        for transfer in self.trace["transfers"]:
            if transfer["request"] == record["index"]:
                transfer["complete"] = False
        self.trace["requests"][record["index"]].update(status="failed", reason=record["error"])
        self._event(record, "failed")

    def _on_finished(self, record: Record) -> None:
        self.trace["requests"][record["index"]]["status"] = "finished"

    def _event(self, record: Record, kind: str) -> None:
        self.trace["events"].append(
            {
                "at_s": self._seconds(record["at_ns"]),
                "type": kind,
                "request": record["index"],
                "worker": record.get("worker"),
            }
        )


def _new_request(request: Record) -> Record:
    stamps = ("arrival", "prefill_begin", "prefill_end", "transfer_begin", "transfer_end", "decode_begin", "decode_end")
    return {
        **request,
        "status": "unfinished",
        "reason": None,
        **{f"{stamp}_s": None for stamp in stamps},
        "token_s": [],
        "preemptions": 0,
    }
