"""Chat templates are programs of somebody else's: what they may and may not do."""

from __future__ import annotations

import pytest

from engine.errors import LabError
from engine.model.chat import render_chat

MESSAGES = [{"role": "user", "content": "hi"}]


def test_a_template_sees_what_hugging_face_gives_it():
    template = "{{ bos_token }}{% for m in messages %}{{ m['role'] }}: {{ m.content | tojson }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}A:{% endif %}"
    assert render_chat(template, MESSAGES, name="x", bos="<s>", eos="</s>") == '<s>user: "hi"</s>A:'


def test_no_template():
    with pytest.raises(LabError) as caught:
        render_chat(None, MESSAGES, name="x")
    assert caught.value.code == "chat-template-missing"


@pytest.mark.parametrize(
    "template",
    [
        "{% for %}",
        "{{ raise_exception('roles must alternate') }}",
        "{{ missing.attribute.of_nothing }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ 'x' * 999999999 }}",
        "{{ 'x' * 10 ** 9 }}",
        "{% for i in range(1000000000) %}x{% endfor %}",
        "{% include 'secret' %}",
        "{{ 1 / 0 }}",
        "{% set x = cycler.__init__.__globals__ %}{{ x.os.popen('id').read() }}",
    ],
)
def test_templates_that_fail_or_misbehave(template):
    """Each is one sentence, none is a traceback, none reaches Python."""
    with pytest.raises(LabError) as caught:
        render_chat(template, MESSAGES, name="x")
    assert caught.value.code == "chat-template-broken"
