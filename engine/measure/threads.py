"""How OpenMP's threads wait for each other, the same for workers and benchmark. Set before torch is imported.

By default a thread without work spins for a long while: two busy processes then slow each other tenfold. Sleeping at
once is safe, but waking up costs a two-thread decode a fifth of its time. A short spin (about 10 us) has neither.
"""

OPENMP_SETTINGS = {"GOMP_SPINCOUNT": "1000"}
