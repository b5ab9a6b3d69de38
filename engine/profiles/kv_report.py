"""What `python -m engine kv` answers: the KV cache of a model, by its profile or its config.json, in bytes."""

from pathlib import Path

from engine.errors import LabError
from engine.profiles import models
from engine.profiles.hf_config import LIMIT_BYTES, parse_config, profile_from_config
from engine.profiles.models import ModelProfile

LONGEST = 10**9
LARGEST_BATCH = 10**6


def profile_at(name: str) -> ModelProfile:
    """The config.json of that path if there is such a file, else the profile of that name.

    Raises LabError: "kv-not-found", "kv-unreadable", "profile-broken", or what profile_from_config raises.
    """
    path = Path(name)
    if _is_file(path):
        try:
            with path.open("rb") as file:
                data = file.read(LIMIT_BYTES + 1)
        except OSError as error:
            raise LabError("kv-unreadable", path=name, why=error.strerror or str(error)) from error
        return profile_from_config(parse_config(data), path.name)
    if name not in models():
        raise LabError("kv-not-found", name=name[:80], known=", ".join(models()))
    return models()[name]


def _is_file(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):  # too long for a file name
        return False


def kv_report(profile: ModelProfile, length: object, batch: object, dtype: str) -> dict:
    """Bytes of the whole batch, and of one token of one sequence, while windows have room ("first") and at this length
    ("mean"; with int4 it depends on the length). weight_bytes: in bf16, None if unknown.

    Raises LabError("kv-number").
    """
    length, batch = _number("length", length, LONGEST), _number("batch", batch, LARGEST_BATCH)
    kv = profile.kv_bytes(length, dtype)
    return {
        "name": profile.name,
        "title": profile.title,
        "attention_kind": profile.attention_kind,
        "length": length,
        "batch": batch,
        "dtype": dtype,
        "kv_bytes": batch * kv.total,
        "kv_payload_bytes": batch * kv.payload,
        "kv_scale_bytes": batch * kv.scales,
        "state_bytes": batch * profile.state_bytes(dtype),
        "kv_bytes_per_token": {"bf16": profile.kv_bytes_per_token(2), "mean": kv.total / length},
        "weight_bytes": profile.weight_bytes(2),
        "max_context_tokens": profile.max_context_tokens,
    }


def as_text(report: dict) -> str:
    """A few lines for a terminal; GB are 10^9 bytes, GiB 2^30."""
    kv, weights, state = report["kv_bytes"], report["weight_bytes"], report["state_bytes"]
    scales = f", {report['kv_scale_bytes']:,} of it scales" if report["kv_scale_bytes"] else ""
    longest = report["max_context_tokens"]
    lines = [
        f"{report['title']} ({report['attention_kind']}), {report['batch']:,} x {report['length']:,} tokens, {report['dtype']}",
        f"KV cache   {kv:,} bytes ({kv / 1e9:,.2f} GB, {kv / 2**30:,.2f} GiB){scales}",
        f"per token  {report['kv_bytes_per_token']['mean']:,.0f} bytes on average",
        *([f"state      {state:,} bytes, whatever the length"] if state else []),
        f"weights    {weights:,} bytes in bf16 ({weights / 1e9:,.2f} GB)" if weights else "weights    not counted for this architecture",
        *([f"note       the model was made for {longest:,} tokens at most"] if longest and report["length"] > longest else []),
    ]
    return "\n".join(lines)


def _number(field: str, value: object, highest: int) -> int:
    """From the command line or a program."""
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) <= 20 and 1 <= int(text) <= highest):
        raise LabError("kv-number", field=field, value=text[:40], highest=highest)
    return int(text)
