"""The service: the process that runs experiments for the app, one after another, and the client that talks to it."""
