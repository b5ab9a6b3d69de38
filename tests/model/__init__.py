"""The model room held against other implementations and against broken files."""
