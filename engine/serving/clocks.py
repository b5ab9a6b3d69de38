"""Records of another host in this host's time. Pure."""

# What in a record is a moment of its sender's clock. A lease's length (lease_ns) is none.
_MOMENTS = ("at_ns", "begin_ns", "end_ns", "now_ns")
_SPANS = ("published_ns", "pulled_ns")


def shifted(record: dict, by_ns: int, uncertainty_ns: int = 0) -> dict:
    """The record with all its moments `by_ns` later; that of several messages, too.

    uncertainty_ns: how far that may be wrong. A lease ends so much earlier: a promise must not grow on its way.
    """
    changed = {name: record[name] + by_ns for name in _MOMENTS if record.get(name) is not None}
    changed |= {name: [moment + by_ns for moment in record[name]] for name in _SPANS if record.get(name) is not None}
    if record.get("lease_expires_ns") is not None:
        changed["lease_expires_ns"] = record["lease_expires_ns"] + by_ns - uncertainty_ns
    if record.get("type") == "together":
        changed["messages"] = [shifted(message, by_ns, uncertainty_ns) for message in record["messages"]]
    return {**record, **changed}
