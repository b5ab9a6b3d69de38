"""Serving: requests, scheduling policies (no torch), the loop, pools and the KV transfer between them."""
