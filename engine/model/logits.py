"""Every position's logits for a list of token ids, written to a file.

So that anybody can hold this engine against another implementation.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

from engine.errors import LabError
from engine.model.files import read_json
from engine.model.load import load_model, resolve_device, resolve_dtype
from engine.model.transformer import causal_attend

_ROWS_AT_ONCE = 256


def write_logits(name_or_path: str, tokens_path: str, npy_path: str, *, dtype: str = "float32", device: str = "cpu") -> tuple[int, int]:
    """Run a model once over the ids in a JSON file and write float32 logits [tokens, vocab] as .npy.

    Row i is the prediction for the token after ids[0..i]. The head is computed
    for 256 rows at a time, so memory stays small. -> the shape written.
    Raises LabError("tokens-bad"), "model-too-long", "output-unwritable", and what loading raises.
    """
    device = resolve_device(device)
    model = load_model(name_or_path, device=device, dtype=resolve_dtype(device, dtype))
    ids = _read_ids(Path(tokens_path), model.config.vocab_size)
    if len(ids) > model.config.max_context:
        raise LabError("model-too-long", wanted=len(ids), limit=model.config.max_context)
    tokens = torch.tensor(ids, dtype=torch.int64, device=device)
    hidden = model.transformer.hidden(tokens, torch.arange(len(ids), device=device), causal_attend)
    shape = (len(ids), model.config.vocab_size)
    target = Path(npy_path)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        rows = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.float32, shape=shape)
        for begin in range(0, len(ids), _ROWS_AT_ONCE):
            part = model.transformer.logits(hidden[begin : begin + _ROWS_AT_ONCE])
            rows[begin : begin + len(part)] = part.float().cpu().numpy()
        rows.flush()
        del rows
        os.replace(unfinished, target)
    except (OSError, ValueError) as error:
        raise LabError("output-unwritable", path=npy_path, why=getattr(error, "strerror", None) or str(error)) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return shape


def _read_ids(path: Path, vocab_size: int) -> list[int]:
    def bad(why: str) -> LabError:
        return LabError("tokens-bad", path=str(path), why=why, limit=vocab_size - 1)

    try:
        ids = read_json(path)
    except LabError as error:
        raise bad(str(error.facts.get("why"))) from error
    if not isinstance(ids, list) or not ids:
        raise bad("it holds no list, or an empty one")
    for i, token in enumerate(ids):
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab_size:
            raise bad(f"its item {i} is {str(token)[:40]}")
    return ids
