"""The course's path, written once: the home page, the course, quizzes and links to the next lesson follow it. No streamlit here.

It begins with the two bottlenecks and where they hurt (one GPU's memory, one queue), takes the two phases apart, then
keeps less, reaches farther and shares out, and ends with what nobody has solved.
"""

LESSONS = ("roofline", "memory", "schedules", "transfer", "pools", "sinks", "rope", "ring", "open")


def after(lesson: str) -> str | None:
    """The lesson that follows; None after the last one and for what is no lesson. (A lesson whose page is not there yet counts.)"""
    following = LESSONS[LESSONS.index(lesson) + 1 :] if lesson in LESSONS else ()
    return next(iter(following), None)
