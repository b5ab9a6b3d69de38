"""Taking turns: over any order of coming, going and being served."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LabError
from engine.service import fair_queue
from engine.service.fair_queue import FairQueue

# A browser's number submits; "serve" takes the next; "drop" and a number cancels one of those that wait.
STEPS = st.lists(st.one_of(st.integers(0, 3), st.just("serve"), st.tuples(st.just("drop"), st.integers(0, 30))), max_size=60)


def play(steps):
    """Yields (queue, what waits by id: (browser, since), served so far: (id, browser, at)) after each step."""
    queue, waiting, served = FairQueue(), {}, []
    for at, step in enumerate(steps):
        if step == "serve":
            job = queue.pop()
            if job is not None:
                served.append((job, *waiting.pop(job), at))
        elif isinstance(step, tuple):
            names = list(waiting)
            name = names[step[1] % len(names)] if names else "nobody"
            assert queue.remove(name) == (name in waiting)
            waiting.pop(name, None)
        else:
            waiting[f"job-{at}"] = (f"browser-{step}", at)
            queue.push(f"job-{at}", f"browser-{step}")
        yield queue, waiting, served


@given(STEPS)
def test_nobody_is_served_twice_while_another_waits(steps):
    """The one who submits ten at once would have the machine to himself, and the class would watch."""
    *_, (_, waiting, served) = [(None, {}, []), *play(steps)]
    since = {}  # of each browser, from when on it has always had a job waiting
    jobs = [(browser, begun, at) for _, browser, begun, at in served] + [(b, begun, 10**6) for b, begun in waiting.values()]
    for first, (_, browser, _, at) in enumerate(served):
        again = next((later for *_, other, _, later in served[first + 1 :] if other == browser), None)
        if again is None:
            continue
        since = {b for b, begun, until in jobs if b != browser and begun < at and until >= again}
        between = {b for _, b, _, t in served if at < t < again}
        assert since <= between, (browser, at, again)


@given(STEPS)
def test_within_a_browser_it_is_first_come_first_served(steps):
    """Two runs of one reader must not overtake each other."""
    *_, (_, _, served) = [(None, {}, []), *play(steps)]
    for browser in {browser for _, browser, _, _ in served}:
        begun = [since for _, other, since, _ in served if other == browser]
        assert begun == sorted(begun)


@given(STEPS)
def test_nothing_is_lost_or_doubled_and_places_are_right(steps):
    """The place that the page shows is the number of jobs that are served first, if nobody else comes."""
    for queue, waiting, _ in play(steps):
        assert len(queue) == len(waiting) and sorted(queue.order()) == sorted(waiting)
    queue, waiting, _ = next(reversed([(FairQueue(), {}, []), *play(steps)]))
    promised = queue.order()
    assert [queue.pop() for _ in promised] == promised and queue.pop() is None and len(queue) == 0


def test_one_who_comes_while_another_is_served_is_next():
    """He would wait for two runs of somebody who had his turn already."""
    queue = FairQueue()
    for job in ("a1", "a2", "a3"):
        queue.push(job, "a")
    assert queue.pop() == "a1"
    queue.push("b1", "b")
    assert queue.order() == ["b1", "a2", "a3"]
    assert [queue.pop() for _ in range(3)] == ["b1", "a2", "a3"]


def test_one_who_was_just_served_comes_after_all_who_wait():
    """By pressing Run again at once he would be before those who come while his first run is measured."""
    queue = FairQueue()
    queue.push("a1", "a")
    assert queue.pop() == "a1"
    queue.push("a2", "a")
    queue.push("b1", "b")
    assert queue.order() == ["b1", "a2"] == [queue.pop(), queue.pop()]


def test_the_queue_is_bounded(monkeypatch):
    """One browser, or a class with a script, must not fill the memory nor the day."""
    queue = FairQueue()
    for number in range(fair_queue.MOST_PER_BROWSER):
        queue.push(f"a{number}", "a")
    with pytest.raises(LabError) as caught:
        queue.push("one more", "a")
    assert caught.value.code == "queue-full" and caught.value.facts == {"waiting": 20, "limit": 20}
    monkeypatch.setattr(fair_queue, "MOST_IN_ALL", 21)
    queue.push("b", "b")
    with pytest.raises(LabError) as caught:
        queue.push("c", "c")
    assert caught.value.facts == {"waiting": 21, "limit": 21} and len(queue) == 21
    assert queue.remove("a3")
    queue.push("c", "c")
