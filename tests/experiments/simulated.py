"""A cluster for experiments whose workers are the simulation: real policies and router, a fake clock and model."""

from engine.serving.cluster import Cancelled
from engine.serving.policies import Limits
from tests.serving.simulation import World


class Simulated:
    """A cluster whose workers are the simulation. `change(schedule, records)` may alter what they report.

    delay_ns: how long a message may be under way; with 0, requests that come at once are seen at once.
    """

    def __init__(self, change=lambda schedule, records: records, delay_ns=50):
        self.change = change
        self.delay_ns = delay_ns
        self.served, self.settings, self.groups, self.stopped = [], [], None, False
        self.facts = {name: {"clock_offset_ns": 0} for name in ("engine-0", "prefill-0", "decode-0")}

    def start(self, groups, *, cancelled):
        self.groups = groups

    def stop(self):
        self.stopped = True

    def serve(self, arrivals, settings, *, on_record=lambda record: None, cancelled=lambda: False):
        self.served.append((settings.schedule, len(arrivals)))
        self.settings.append(settings)
        world = World(
            settings.schedule, [(int(a.at_s * 1000), a.request) for a in arrivals], blocks=settings.entry_blocks, block_tokens=settings.block_tokens,
            chunk=settings.chunk_tokens, limits=Limits(settings.max_batch_requests, settings.max_prefill_tokens, settings.reserve_tokens), seed=len(self.served),
            lease_ns=10**9, layerwise=settings.layerwise, delay_ns=self.delay_ns,
        )  # fmt: skip
        records = self.change(settings.schedule, world.run().records)
        for record in records:
            if cancelled():
                raise Cancelled
            on_record(record)
        return records
