"""`python -m engine.service`: started by the app, not by hand."""

from engine.service.server import main

main()
