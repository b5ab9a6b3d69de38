"""What the model wrote under each schedule, and where it wrote something else than under the first: which must be a near-tie."""

from engine.experiments.plan import Plan

# Two logits closer than this may change places when the batch changes: the error of a forward in this format.
NEAR_TIE = {"float32": 0.01, "bfloat16": 0.5}


def texts_of(plan: Plan, tokens: dict[str, dict]) -> dict:
    """What the model wrote, up to its end-of-text; `tokens_after_end` counts what it had to go on making after that."""
    texts = {}
    for index, request in enumerate(plan.requests):
        entry = texts[request["id"]] = {"prompt": plan.prompts[request["id"]].shown, "tokens_after_end": {}}
        for schedule, by_index in tokens.items():
            ids = [token for token, _ in by_index.get(index, [])]
            end = next((place for place, token in enumerate(ids) if token in plan.setup.tokenizer.eos_ids), len(ids))
            entry[schedule] = plan.setup.tokenizer.decode(ids[:end])
            entry["tokens_after_end"][schedule] = max(0, len(ids) - end - 1)
    return texts


def agreement(plan: Plan, tokens: dict[str, dict]) -> dict:
    """Per request and schedule, where its tokens first differ from the first schedule's, and if a near-tie explains it.

    tokens: by schedule and request index, as `engine.measure.trace.output_tokens` tells them.
    """
    base_name, *others = tokens
    limit = NEAR_TIE[plan.setup.dtype]
    found = {}
    for index, request in enumerate(plan.requests):
        base = tokens[base_name].get(index, [])
        found[request["id"]] = {}
        for name in others:
            pairs = zip(base, tokens[name].get(index, []), strict=False)
            place = next((i for i, (a, b) in enumerate(pairs) if a[0] != b[0]), None)
            found[request["id"]][name] = (
                None
                if place is None
                else {"first_difference": place, "gap": base[place][1], "near_tie": base[place][1] <= limit}
            )
    return found
