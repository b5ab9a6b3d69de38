"""The course's path, written once: the home page, the course, quizzes and links to the next lesson follow it. No streamlit here.

It begins with the two bottlenecks and the memory that one of them fills, asks who waits when many share a machine, then how a
text becomes longer than one cache, one training and one device, and ends with what nobody has solved.
"""

STAGES = {
    "bottlenecks": ("roofline", "memory"),
    "waiting": ("schedules", "transfer", "pools"),
    "longer": ("sinks", "rope", "ring"),
    "unsolved": ("open",),
}
LESSONS = tuple(lesson for lessons in STAGES.values() for lesson in lessons)

# The experiments of each lesson: a run of one of them is the reader's own measurement there.
KINDS = {
    "roofline": ("roofline",),
    "memory": ("wall",),
    "schedules": ("schedules", "chunk-sweep", "backlog"),
    "transfer": ("transfer",),
    "pools": ("pools",),
    "sinks": ("attention", "streaming", "needle"),
    "rope": ("lengths", "retrieval"),
    "ring": ("ring",),
    "open": ("recurrent",),
}


def after(lesson: str) -> str | None:
    """The lesson that follows; None after the last one and for what is no lesson."""
    following = LESSONS[LESSONS.index(lesson) + 1 :] if lesson in LESSONS else ()
    return next(iter(following), None)


def lesson_of(kind: str) -> str | None:
    """The lesson that an experiment belongs to."""
    return next((lesson for lesson, kinds in KINDS.items() if kind in kinds), None)
