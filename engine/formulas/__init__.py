"""Formulas shared by pages, quizzes and the engine: plain Python, no torch, nothing of the engine."""
