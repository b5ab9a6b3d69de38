"""The model room: from files on disk to logits.

``config`` says what a model is and what it costs; ``transformer`` computes it;
``weights`` and ``gguf`` read it from disk; ``tokenizer`` and ``chat`` turn text
into token ids and back; ``catalog``, ``fetch`` and ``card`` know which models
there are; ``load`` puts all of it together. Only ``transformer``, ``attention``, ``rope``,
``linear``, ``layout``, ``weights``, ``gguf_weights``, ``cache``, ``placement``, ``load`` and
``logits`` need torch: the rest can be imported where starting fast matters.
"""
