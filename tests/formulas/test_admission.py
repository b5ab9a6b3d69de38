"""Admission by hand: the cases in which one block more or less decides."""

import pytest

from engine.formulas.admission import blocks_for, first_wave, tokens_to_admit


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (32, 2), (33, 3)])
def test_blocks_are_whole(tokens, blocks):
    """Rounding down would write past the last block."""
    assert blocks_for(tokens, 16) == blocks


def test_what_a_request_needs_to_start():
    """Its prompt and the first decode; but the last token's KV is never computed, so one output token needs no more room."""
    assert tokens_to_admit(16, 16) == 16
    assert tokens_to_admit(16, 17) == tokens_to_admit(16, 100) == 17
    assert tokens_to_admit(16, 25, reserve_tokens=64) == 64
    assert tokens_to_admit(16, 100, reserve_tokens=64) == 100, "a reservation never takes away what a request needs"
    assert tokens_to_admit(16, 25, reserve_tokens=1) == 25


def test_the_wave_ends_where_the_pool_does():
    """10 blocks of 16: prompts of 48 that go on need 4 blocks each, so two fit; forgetting the first decode would say three."""
    assert first_wave([48] * 5, [9] * 5, 10, 16, 64) == 2
    assert first_wave([48] * 5, [1] * 5, 10, 16, 64) == 3
    assert first_wave([47] * 5, [9] * 5, 10, 16, 64) == 3
    assert first_wave([48] * 5, [9] * 5, 100, 16, 64) == 5
    assert first_wave([], [], 10, 16, 64) == 0


def test_nobody_overtakes():
    """A short prompt behind one that does not fit waits with it, though there would be room."""
    assert first_wave([48, 200, 1], [9, 9, 9], 10, 16, 64) == 1


def test_a_batch_has_a_size():
    assert first_wave([1] * 9, [9] * 9, 100, 16, 4) == 4


def test_reserving_lets_in_fewer():
    """Each takes blocks for 80 tokens, however short its prompt; one that needs 96 takes 96."""
    assert first_wave([16] * 9, [9] * 9, 10, 16, 64, reserve_tokens=80) == 2
    assert first_wave([16] * 9, [81] * 9, 11, 16, 64, reserve_tokens=80) == 1


def test_steps_do_not_end_a_wave_unless_somebody_is_done_with_one():
    """With a second token to come nothing is given back between the prompts of a wave, however many steps they take."""
    assert first_wave([30] * 6, [2] * 6, 100, 16, 64, max_prefill_tokens=60) == 6
    assert first_wave([30] * 6, [1] * 6, 100, 16, 64, max_prefill_tokens=60) == 2
    assert first_wave([30] * 6, [2, 2, 2, 1, 2, 2], 100, 16, 64, max_prefill_tokens=60) == 4
    assert first_wave([90, 90], [2, 1], 100, 16, 64, max_prefill_tokens=60) == 2, "a long prompt goes alone"
