"""What the pages share: words, palette, figures, tables and the panel that starts a run."""
