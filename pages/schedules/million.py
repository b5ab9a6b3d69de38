def section(*a, **k): pass
