"""The training room: samples, network, loop and files."""
