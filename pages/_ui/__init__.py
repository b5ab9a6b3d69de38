"""What the pages share: words, palette, the timeline, charts, tables and the panel that starts a run."""
