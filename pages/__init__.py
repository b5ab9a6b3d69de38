"""The web pages. Nothing here imports torch: what is measured runs in the engine's own processes."""
