"""Block pool: which request owns which KV block. Pure bookkeeping, no tensors.

The cache is cut into blocks of `block_tokens` token slots, and a request owns a list of them (its block table), as
in PagedAttention (Kwon et al. 2023, section 4). Any free block will do for correctness. For speed this pool *prefers*
neighbouring blocks, since CPU attention wants one run of memory: a request is placed where there is room to grow, and
that room is only a wish, taken by anybody who finds nothing else.
"""

from collections.abc import Hashable

from engine.formulas.admission import blocks_for

# Tokens per block by device class. CUDA's paged kernel wants pages of 256; small blocks waste less at a sequence's end.
BLOCK_TOKENS = {"cpu": 16, "gpu": 256}


class BlockPool:
    """A fixed number of blocks and their owners.

    Invariants (property-tested): a block has at most one owner; free + owned = all; tables hold no block twice.
    """

    def __init__(self, num_blocks: int, block_tokens: int) -> None:
        if num_blocks < 1 or block_tokens < 1:
            raise ValueError(f"a block pool needs blocks and tokens per block, got {num_blocks} and {block_tokens}")
        self.num_blocks = num_blocks
        self.block_tokens = block_tokens
        self._owner: list[Hashable | None] = [None] * num_blocks
        self._wish: list[Hashable | None] = [None] * num_blocks
        self._tables: dict[Hashable, list[int]] = {}
        self._num_free = num_blocks

    @property
    def num_free(self) -> int:
        return self._num_free

    @property
    def num_used(self) -> int:
        return self.num_blocks - self._num_free

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens (rounded up)."""
        return blocks_for(tokens, self.block_tokens)

    def table(self, owner: Hashable) -> tuple[int, ...]:
        """The owner's blocks in token order; empty if it has none."""
        return tuple(self._tables.get(owner, ()))

    def can_allocate(self, num_blocks: int) -> bool:
        return num_blocks <= self._num_free

    def allocate(self, owner: Hashable, tokens: int, *, may_grow_to: int = 0) -> None:
        """Give `owner` the blocks it lacks to hold `tokens` tokens.

        `may_grow_to` (tokens) is the length it is expected to reach: used for placement only, never reserved.
        Raises MemoryError if there are not enough free blocks; nothing is changed then.
        """
        table = self._tables.get(owner, [])
        missing = self.blocks_for(tokens) - len(table)
        if missing <= 0:
            return
        if missing > self._num_free:
            raise MemoryError(f"{missing} blocks wanted, {self._num_free} free")
        chosen = self._extend(table[-1], missing, owner) if table else self._place(missing, self.blocks_for(may_grow_to))
        for block in chosen:
            self._owner[block] = owner
        if not table and may_grow_to:
            self._make_wish(owner, chosen[-1] + 1, self.blocks_for(may_grow_to) - missing)
        self._tables[owner] = table + chosen
        self._num_free -= missing

    def free(self, owner: Hashable) -> int:
        """Take back all blocks of `owner`; returns how many. Harmless for an owner without blocks."""
        table = self._tables.pop(owner, [])
        for block in table:
            self._owner[block] = None
        self._wish = [None if wish == owner else wish for wish in self._wish]
        self._num_free += len(table)
        return len(table)

    def _extend(self, last: int, missing: int, owner: Hashable) -> list[int]:
        """The blocks right after `last` as far as they are free, then any others."""
        chosen = []
        block = last + 1
        while len(chosen) < missing and block < self.num_blocks and self._owner[block] is None:
            chosen.append(block)
            block += 1
        return chosen + self._scattered(missing - len(chosen), set(chosen), owner)

    def _place(self, missing: int, wanted: int) -> list[int]:
        """One run with room to grow if there is one, else the best run, else scattered blocks."""
        for room, unwished_only in ((max(wanted, missing), True), (missing, True), (missing, False)):
            start = self._first_run(room, unwished_only)
            if start is not None:
                return list(range(start, start + missing))
        return self._scattered(missing, set(), None)

    def _first_run(self, length: int, unwished_only: bool) -> int | None:
        run = 0
        for block in range(self.num_blocks):
            free = self._owner[block] is None and not (unwished_only and self._wish[block] is not None)
            run = run + 1 if free else 0
            if run == length:
                return block - length + 1
        return None

    def _scattered(self, count: int, taken: set[int], owner: Hashable | None) -> list[int]:
        """Any free blocks, those that nobody wishes for first."""
        if count <= 0:
            return []
        free = [b for b in range(self.num_blocks) if self._owner[b] is None and b not in taken]
        free.sort(key=lambda b: self._wish[b] not in (None, owner))
        return free[:count]

    def _make_wish(self, owner: Hashable, start: int, count: int) -> None:
        for block in range(start, min(start + count, self.num_blocks)):
            if self._owner[block] is None and self._wish[block] is None:
                self._wish[block] = owner


def slot_runs(table: tuple[int, ...] | list[int], block_tokens: int, tokens: int) -> list[tuple[int, int]]:
    """The first `tokens` slots of a block table as runs of neighbouring slots: [(first slot, length), ...].

    One run means that attention can read the cache in place; several mean a gather.
    """
    runs: list[tuple[int, int]] = []
    left = tokens
    for block in table:
        if left <= 0:
            break
        start, length = block * block_tokens, min(block_tokens, left)
        if runs and runs[-1][0] + runs[-1][1] == start:
            runs[-1] = (runs[-1][0], runs[-1][1] + length)
        else:
            runs.append((start, length))
        left -= length
    if left > 0:
        raise ValueError(f"the table holds {tokens - left} tokens, {tokens} wanted")
    return runs
