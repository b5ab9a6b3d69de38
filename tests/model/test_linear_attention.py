"""Linear attention: three forms of one thing, over random shapes and lengths, and what each rule does to what was written."""

import pytest
import torch

from engine.model.linear_attention import Rule, chunked, parallel, recurrent, step

TOLERANCE = 1e-4  # of the outputs' own deviation
RULES = ("sum", "decay", "delta", "gated-delta")


def drawn(seed: int, rule: str, heads: int, n: int, key_dim: int, value_dim: int, strong: float = 1.0):
    """q, k, v and a rule; keys of the delta rule have length 1, as in its paper."""
    make = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(heads, n, key_dim, generator=make) for _ in range(2))
    v = torch.randn(heads, n, value_dim, generator=make)
    k = k / k.norm(dim=-1, keepdim=True)
    log_decay = -strong * torch.rand(heads, n, generator=make) if rule in ("decay", "gated-delta") else None
    beta = torch.rand(heads, n, generator=make) if "delta" in rule else None
    return q, k, v, Rule(log_decay, beta)


def apart(found, wanted) -> float:
    return float((found - wanted).abs().max() / wanted.std())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n, chunk", [(1, 4), (7, 7), (64, 16), (65, 16), (130, 64), (33, 1)])
def test_three_forms_are_one(rule, n, chunk):
    """Acceptance: recurrent decode equals the parallel form to 1e-4; lengths that no chunk divides, chunks of one token."""
    for seed in range(4):
        inputs = drawn(seed, rule, 1 + seed, n, 3 + 5 * seed, 4 + 3 * seed)
        whole = parallel(*inputs)
        by_chunk, state = chunked(*inputs, chunk=chunk)
        by_token, last = recurrent(*inputs)
        assert apart(by_token, whole) < TOLERANCE and apart(by_chunk, whole) < TOLERANCE
        assert apart(state, last) < TOLERANCE, "a prefill must leave the state that decoding would"


@pytest.mark.parametrize("rule", RULES)
def test_a_decode_goes_on_where_a_prefill_ended(rule):
    """The state handed over is all there is: a token lost or counted twice at the seam would show in every output after it."""
    q, k, v, how = drawn(5, rule, 2, 50, 8, 8)
    whole = parallel(q, k, v, how)
    first, state = chunked(q[:, :30], k[:, :30], v[:, :30], how.part(0, 30), chunk=16)
    rest, _ = recurrent(q[:, 30:], k[:, 30:], v[:, 30:], how.part(30, 50), state=state)
    again, _ = chunked(q[:, 30:], k[:, 30:], v[:, 30:], how.part(30, 50), chunk=7, state=state)
    assert apart(torch.cat([first, rest], 1), whole) < TOLERANCE and apart(again, whole[:, 30:]) < TOLERANCE


def test_strong_decay_neither_overflows_nor_loses_digits():
    """exp of later minus earlier sums is infinite where it is not masked first; sums in float32 cost three digits here."""
    inputs = drawn(1, "decay", 2, 400, 4, 4, strong=8.0)
    whole = parallel(*inputs)
    assert torch.isfinite(whole).all() and apart(recurrent(*inputs)[0], whole) < TOLERANCE


def test_without_softmax_and_decay_it_is_the_sum_over_all_values():
    """Against the formula written out: a token that saw itself not, or later ones, would differ."""
    q, k, v, rule = drawn(2, "sum", 3, 20, 5, 6)
    for i in range(20):
        wanted = sum((q[:, i] * k[:, j]).sum(-1, keepdim=True) * v[:, j] for j in range(i + 1))
        assert apart(parallel(q, k, v, rule)[:, i], wanted) < TOLERANCE


def test_the_delta_rule_overwrites_where_the_sum_mixes():
    """The same key twice: the sum answers with both values, the delta rule with the second one alone."""
    key = torch.nn.functional.normalize(torch.randn(1, 1, 8, generator=torch.Generator().manual_seed(0)), dim=-1)
    k, v = key.expand(1, 2, 8), torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    added = parallel(k, k, v, Rule())[0, 1]
    replaced = parallel(k, k, v, Rule(beta=torch.ones(1, 2)))[0, 1]
    assert torch.allclose(added, torch.tensor([1.0, 1.0]), atol=1e-5) and torch.allclose(replaced, torch.tensor([0.0, 1.0]), atol=1e-5)


def test_heads_that_share_a_state_read_it_each_for_itself():
    """Grouped queries: three queries of one key-value head get what three separate heads with that state would."""
    q, k, v, _ = drawn(3, "sum", 2, 4, 6, 5)
    state = torch.zeros(2, 6, 5)
    read = step(state, q[:, :3], k[:, 0], v[:, 0], None, None)
    assert read.shape == (2, 3, 5) and torch.allclose(state, k[:, 0, :, None] * v[:, 0, None])
    for at in range(3):
        assert torch.allclose(read[:, at], torch.einsum("hk,hkv->hv", q[:, at], state), atol=1e-6)


@pytest.mark.parametrize("broken", ["decay-late", "beta-missing", "diagonal"])
def test_the_comparison_would_see_an_error(broken):
    """Decay applied after writing, the correction without its strength, a token that does not see itself: each is far off."""
    q, k, v, rule = drawn(4, "gated-delta", 2, 40, 8, 8)
    right = recurrent(q, k, v, rule)[0]
    if broken == "decay-late":
        wrong = parallel(q, k, v, Rule(rule.log_decay.roll(1, 1), rule.beta))
    elif broken == "beta-missing":
        wrong = parallel(q, k, v, Rule(rule.log_decay, torch.ones_like(rule.beta)))
    else:
        wrong = right - (q * k).sum(-1, keepdim=True) * v
    assert apart(wrong, right) > 100 * TOLERANCE
