"""A link that is slower than this machine's memory, emulated: when would what is sent over it have arrived? Pure."""


class Link:
    """One direction of a link of so many bytes per second. What is sent queues: one thing after the other, none overtakes."""

    def __init__(self, bytes_per_s: float) -> None:
        if not bytes_per_s > 0:
            raise ValueError(f"a link of {bytes_per_s} bytes per second moves nothing")
        self.bytes_per_s = bytes_per_s
        self.free_ns = 0

    def send(self, ready_ns: int, size: int) -> tuple[int, int]:
        """From when to when `size` bytes are on the link that may be sent from `ready_ns` on (nanoseconds of one clock)."""
        begin_ns = max(ready_ns, self.free_ns)
        self.free_ns = begin_ns + round(size * 1e9 / self.bytes_per_s)
        return begin_ns, self.free_ns
