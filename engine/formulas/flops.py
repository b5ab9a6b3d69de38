"""What a prefill costs to compute, and how long that takes. Two operations per multiply-add.

    matrices    2 x weights x L                      every weight is used once for every token
    attention   4 x L^2 x heads x head_dim x layers  scores and weighted values; half of it under the causal mask, if
                                                     the kernel skips what is masked

The first is the usual 2N (Kaplan et al. 2020, arXiv 2001.08361, section 2.1), the second a forward's part of the count in
PaLM (Chowdhery et al. 2022, arXiv 2204.02311, appendix B: 12 L H Q T for forward and backward); halving for causal
masks as in FlashAttention-2 (Dao 2023, arXiv 2307.08691, section 4.1). Norms, activations, softmax and the one row of
logits that a prefill needs are left out (well under 1 %).
"""


def matrix_parameters(
    layers: int, hidden_size: int, heads: int, kv_heads: int, head_dim: int, ffn_size: int
) -> int:
    """Weights of all matrices but embedding and head, for a Llama-style model: query, key, value, output, three of the
    SwiGLU."""
    attention = hidden_size * head_dim * (2 * heads + 2 * kv_heads)
    return layers * (attention + 3 * hidden_size * ffn_size)


def matrix_flops(parameters: int, tokens: int) -> int:
    """2 x parameters x tokens; parameters without the embeddings, which are looked up, not multiplied."""
    return 2 * parameters * tokens


def attention_flops(layers: int, heads: int, head_dim: int, tokens: int, *, causal: bool = True) -> int:
    """4 x tokens^2 x heads x head_dim x layers, half of it if causal. Query heads: sharing keys saves bytes, not work."""
    return (2 if causal else 4) * tokens**2 * heads * head_dim * layers


def compute_s(flops: float, flops_per_s: float, *, utilisation: float = 1.0, devices: int = 1) -> float:
    """Seconds on devices that share the work evenly, each at this share of its peak. A lower bound at utilisation 1."""
    return flops / (flops_per_s * utilisation * devices)
