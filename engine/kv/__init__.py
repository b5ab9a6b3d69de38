"""KV cache: which request owns which block, the tensors behind the blocks, and which tokens stay (eviction)."""
