"""A model's chat template: messages in, the exact text it was trained on out.

Templates are Jinja programs that come with a checkpoint, so they are run in
Jinja's sandbox: no attributes of Python objects, no imports, and no products
that would fill the memory. No torch here.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError

from engine.errors import LabError

_MOST_CHARACTERS = 1 << 20


def render_chat(
    template: str | None, messages: Sequence[Mapping[str, str]], *, name: str, bos: str = "", eos: str = "", add_generation_prompt: bool = True
) -> str:
    """Fill in a template.

    messages: [{"role": "system" | "user" | "assistant", "content": text}, ...];
    name: the model's, for messages; bos and eos: its special tokens as text;
    add_generation_prompt: end where the assistant's answer begins.
    Raises LabError("chat-template-missing") or LabError("chat-template-broken").
    """
    if template is None:
        raise LabError("chat-template-missing", name=name)
    try:
        text = _environment().from_string(template).render(
            messages=[dict(message) for message in messages],
            bos_token=bos,
            eos_token=eos,
            add_generation_prompt=add_generation_prompt,
            tools=None,
        )
    except jinja2.TemplateError as error:
        raise LabError("chat-template-broken", name=name, why=str(error)[:200] or type(error).__name__) from error
    except Exception as error:  # a template is somebody else's program: it may raise anything
        raise LabError("chat-template-broken", name=name, why=f"{type(error).__name__}: {error}"[:200]) from error
    if len(text) > _MOST_CHARACTERS:
        raise LabError("chat-template-broken", name=name, why=f"it wrote {len(text)} characters")
    return text


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(["*", "**"])

    def call_binop(self, context, operator, left, right):
        sizes = [len(v) if isinstance(v, (str, bytes, list, tuple)) else abs(v) if isinstance(v, (int, float)) else 0 for v in (left, right)]
        if operator == "**" or sizes[0] * sizes[1] > _MOST_CHARACTERS:
            raise SecurityError(f"the operation {operator} would make something very large")
        return super().call_binop(context, operator, left, right)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    environment.globals["raise_exception"] = _raise
    # Some templates write the date. A fixed one keeps prompts, and so results, the same from day to day.
    environment.globals["strftime_now"] = lambda pattern: datetime.datetime(2025, 1, 1).strftime(pattern)
    return environment


def _raise(message: str) -> None:
    raise jinja2.TemplateError(str(message))
