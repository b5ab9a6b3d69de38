"""The fields of a pasted config.json, each checked when it is read: it may hold anything."""

import json
from collections.abc import Collection, Mapping

from engine.errors import LabError

HIGHEST = 10**9
MOST_LAYERS = 10_000
REQUIRED = object()
_OLD_KINDS = {"attention": "full_attention", "mamba": "linear_attention"}


class Fields:
    """Reads one configuration. What it reads raises LabError: "config-missing", "config-number", "config-flag",
    "config-list", "config-layer-count", "config-layer-kind" or "config-divides".

    A default is what Hugging Face's own class takes when the field is not there.
    """

    def __init__(self, config: Mapping, model_type: str) -> None:
        self.config = config
        self.model_type = model_type

    def has(self, name: str) -> bool:
        """Whether it is there and not null."""
        return self.config.get(name) is not None

    def whole(self, *names: str, default: object = REQUIRED, lowest: int = 1, highest: int = HIGHEST) -> int:
        """The first of these names that is there."""
        name = next((name for name in names if self.has(name)), None)
        if name is None:
            if default is REQUIRED:
                raise LabError("config-missing", field=names[0], model_type=self.model_type)
            return default
        value = self.config[name]
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
            raise LabError("config-number", field=name, value=shown(value), lowest=lowest, highest=highest)
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.config[name] if self.has(name) else default
        if not isinstance(value, bool):
            raise LabError("config-flag", field=name, value=shown(value))
        return value

    def window(self, default: int | None, name: str = "sliding_window") -> int | None:
        """Tokens; null is no window, which is not the same as a field that is not there."""
        return None if name in self.config and not self.has(name) else self.whole(name, default=default)

    def items(self, name: str, of: type, *, default: object = REQUIRED) -> list:
        """A list of words or of whole numbers; with a default it may be empty or null."""
        value = self.config.get(name)
        if default is not REQUIRED and (value is None or value == []):
            return default
        if not isinstance(value, list) or not 0 < len(value) <= MOST_LAYERS or any(type(item) is not of for item in value):
            raise LabError("config-list", field=name, value=shown(value))
        return value

    def share(self, whole_field: str, whole: int, field: str, parts: int) -> int:
        """whole / parts, which must leave nothing over."""
        if whole % parts:
            raise LabError("config-divides", field=field, value=parts, whole_field=whole_field, whole=whole)
        return whole // parts

    def kinds(self, default: object, known: Collection[str], *names: str) -> list[str]:
        """The kind of every layer, from the first of these names (layer_types) that is there."""
        names = names or ("layer_types",)
        name = next((name for name in names if self.has(name)), None)
        if name is None:
            if default is REQUIRED:
                raise LabError("config-missing", field=names[0], model_type=self.model_type)
            return default
        kinds = [_OLD_KINDS.get(kind, kind) for kind in self.items(name, str)]
        for kind in kinds:
            if kind not in known:
                raise LabError("config-layer-kind", field=name, kind=shown(kind), known=", ".join(known))
        if self.has("num_hidden_layers") and len(kinds) != self.layers:
            raise LabError("config-layer-count", field=name, found=len(kinds), layers=self.layers)
        return kinds

    @property
    def layers(self) -> int:
        return self.whole("num_hidden_layers", "n_layer", highest=MOST_LAYERS)

    @property
    def heads(self) -> int:
        return self.whole("num_attention_heads", "n_head")

    @property
    def hidden(self) -> int:
        return self.whole("hidden_size", "n_embd")

    def head_dim(self, default: int | None = None) -> int:
        """As given, else the class's default, else the hidden size over the query heads."""
        if self.has("head_dim"):
            return self.whole("head_dim")
        return default or self.share("hidden_size", self.hidden, "num_attention_heads", self.heads)

    def kv_heads(self, default: object = None) -> int:
        """default: None for the number of query heads. They must divide the query heads."""
        kv_heads = self.whole("num_key_value_heads", default=self.heads if default is None else default)
        self.share("num_attention_heads", self.heads, "num_key_value_heads", kv_heads)
        return kv_heads


def shown(value: object) -> str:
    """A value in a message: one short line."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 40 else f"{text[:40]}..."
