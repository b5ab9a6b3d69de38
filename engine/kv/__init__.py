"""KV cache: which request owns which block, and the tensors behind the blocks."""
