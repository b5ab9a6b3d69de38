"""What goes to the app goes in order, however slowly the app reads."""

import json
import threading
import time

from engine.service.outbox import Outbox


class Pipe:
    """A file that takes nothing until it is opened."""

    def __init__(self):
        self.open, self.lines = threading.Event(), []

    def write(self, line):
        self.open.wait(10)
        self.lines.append(json.loads(line))

    def flush(self):
        pass


def test_records_come_after_the_plan_they_belong_to_and_under_their_own_job():
    """Whoever hears of a record without a plan, or of another job's, cannot draw it."""
    pipe = Pipe()
    outbox = Outbox(pipe)
    outbox.write({"id": "a", "state": "running"})  # the app does not read: all that follows piles up
    time.sleep(0.3)
    outbox.write({"id": "a", "live": {"plan": 1}})
    outbox.record("a", "unified", 0, {"type": "start"})
    outbox.write({"id": "b", "live": {"plan": 2}})
    outbox.record("b", "unified", 0, {"type": "start"})
    pipe.open.set()
    outbox.close()
    said = [(line["id"], *line.get("live", {"state": 0})) for line in pipe.lines]
    assert said == [("a", "state"), ("a", "plan"), ("b", "plan"), ("a", "records"), ("b", "records")]
    assert pipe.lines[-1]["live"]["records"] == [["unified", 0, {"type": "start"}]]
