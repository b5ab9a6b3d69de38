"""The engine: a small but real serving stack for Llama-style language models.

Rooms, lowest first: ``model`` (weights and the transformer), ``kv`` (the cache
of keys and values), ``serving`` (requests, policies, the loop), ``measure``,
``experiments`` and ``service``. A room imports only from rooms below it, and
no room imports the web pages.
"""

__version__ = "0.1.0"
