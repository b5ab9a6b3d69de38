"""What the two source texts claim, recomputed from the profiles at call time. No torch.

The texts are chapter 12.5 on long-context serving (A) and "two bottlenecks" (B). A claim is one function that returns a
`Claim`; its words stand in pages/claims/. To add one, write the function, name it in its file's CLAIMS, and write the words.
"""

from __future__ import annotations

from engine.claims import memory, pools, prefill, ring, roofline, rope, schedules, streaming, transfer
from engine.claims.claim import LESSONS, TEXTS, VERDICTS, Claim, Input, Line, Measurement, Reading, Source

__all__ = ["LESSONS", "TEXTS", "VERDICTS", "Claim", "Input", "Line", "Measurement", "Reading", "Source", "claims"]

_MAKERS = (*memory.CLAIMS, *pools.CLAIMS, *prefill.CLAIMS, *ring.CLAIMS, *roofline.CLAIMS, *rope.CLAIMS, *schedules.CLAIMS, *streaming.CLAIMS, *transfer.CLAIMS)


def claims() -> dict[str, Claim]:
    """All claims by id, in the order of the texts. Raises LabError("profile-unknown" or "profile-broken")."""
    made = sorted((make() for make in _MAKERS), key=lambda claim: (claim.text, int(claim.id[1:])))
    return {claim.id: claim for claim in made}
