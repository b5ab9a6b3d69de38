"""How sure a share is that was counted in a number of trials."""

import math

# Of a normal distribution, so many standard deviations around the middle hold 95 %.
Z_95 = 1.959963984540054


def wilson(right: int, trials: int, z: float = Z_95) -> tuple[float, float]:
    """The interval for a share, from `right` of `trials`: (low, high), within 0 and 1, never empty.

    Wilson's score interval (Wilson 1927, JASA 22, pages 209-212): it holds where all trials or none were right, too. Trials
    are taken as independent. Raises ValueError for no trials, or for more right ones than there were.
    """
    if not 0 <= right <= trials or trials < 1:
        raise ValueError(f"{right} of {trials}")
    share, weight = right / trials, z * z / trials
    middle = share + weight / 2
    half = z * math.sqrt((share * (1 - share) + weight / 4) / trials)
    low, high = (middle - half) / (1 + weight), (middle + half) / (1 + weight)
    return max(0.0, low) if right else 0.0, min(1.0, high) if right < trials else 1.0


def against(guess: float, interval: tuple[float, float]) -> str:
    """"above" or "below" guessing if the whole interval is, else "level"."""
    low, high = interval
    return "above" if low > guess else "below" if high < guess else "level"
