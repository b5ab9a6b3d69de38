"""What every lesson shows of a result, whatever was measured: where it is from, whether it was disturbed, its files."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.errors import LabError
from engine.service import client
from pages._ui import fmt, parts, recordings, routes, run_panel, session
from pages._ui.words import Words, model_title, quantization

REPEATS = (1, 3)


def section(title: str) -> None:
    """The heading of a part of the page."""
    st.html(f"<h2 class='lab-section'>{escape(title)}</h2>")


def why(words: Words, part: str = "") -> None:
    """Why it comes out so, and what to try: what holds for any result of this part of the lesson (its page's, without one)."""
    prefix = f"{part}-" if part else ""
    with st.container(key="lab-why"):
        reasons, attempts = st.columns([3, 2], gap="large")
        reasons.markdown(words.part(f"{prefix}why"))
        attempts.markdown(words.part(f"{prefix}try"))


def source_row(result: dict, scenario_class, words: Words, slot: str = session.RUN, choices: list[str] | None = None) -> None:
    """Where a result comes from, with the ways to measure it anew, to go back to the recording, or to choose another.

    slot: the run's name in the address; choices: the names of the recordings it was chosen from.
    """
    choices = choices or []
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"lab-source-{slot}"):
        st.html(source_line(result, words), width="content")
        if result["provenance"] == "measured":
            if st.button(words("source.again"), type="tertiary", key=f"again-{slot}", help=words("source.again_help")):
                scenario = scenario_class.from_dict(result["manifest"]["scenario"])
                run_panel.submit(scenario, words, slot=slot, again=True)
            if st.button(words("source.back"), type="tertiary", key=f"to-recording-{slot}"):
                session.show_run(None, slot)
                st.rerun()
        if len(choices) > 1:
            st.segmented_control(
                words("source.choose"),
                choices,
                key=_chosen(slot),
                required=True,
                label_visibility="collapsed",
                format_func=lambda name: recordings.load(name)["manifest"]["device"]["name"],
                persist_state="session",
            )
    if st.session_state.get(f"answered-{result['run_id']}"):
        st.html(f"<p class='lab-note'>{escape(words('source.answered'))}</p>")


def shipped(kind: str, slot: str = session.RUN, model: str | None = None) -> tuple[dict | None, str | None, list[str]]:
    """What is shown while there is no run: a recording (made with this model), the source of its files (see
    pages/_ui/routes), and the names it was chosen from; (None, None, []) if none ships."""
    choices = recordings.names(kind, model)
    chosen = st.session_state.setdefault(_chosen(slot), recordings.first_for(kind, client.device()["class"], model))
    if chosen not in choices:
        return None, None, choices
    return recordings.load(chosen), routes.RECORDED + chosen, choices


def _chosen(slot: str) -> str:
    """Where the session keeps which recording its reader chose."""
    return f"recording-{slot}"


def source_line(result: dict, words: Words) -> str:
    """Badge, run, machine and date of a result."""
    manifest = result["manifest"]
    where = words("source.on", device=_machine(manifest, words), date=manifest["started_at"][:10])
    if result["provenance"] == "measured":
        where = words("source.here", run=result["run_id"][:8]) + " · " + where
    return f"<div class='lab-source'>{parts.badge(result['provenance'], words)}<span>{escape(where)}</span></div>"


def _machine(manifest: dict, words: Words) -> str:
    device = manifest["device"]
    cores = words("unit.core_one") if device.get("cores") == 1 else words("unit.core_many", n=device.get("cores"))
    return f"{device['name']}, {cores}, {manifest['dtype']}"


def disturbed(result: dict, words: Words) -> None:
    """Says so above all numbers if the machine was busy with other things."""
    if sentence := disturbance(result, words):
        st.html(parts.notice(words("disturbed.title"), sentence, kind="info"))


def disturbance(result: dict, words: Words) -> str | None:
    """That the machine was busy with other things while this was measured, and how much; None if it was not."""
    found = result.get("disturbance") or {}
    if not found.get("disturbed"):
        return None
    shares = [found.get(name) or 0.0 for name in ("waited_share", "others_cpu_share")]
    return words("disturbed.what", waited=fmt.share(shares[0]), others=fmt.share(shares[1]))


def keep(result: dict, src: str, words: Words) -> None:
    """The run's name and files, and for a run of this machine whether it is kept when space runs out."""
    section(words("section.keep"))
    manifest = result["manifest"]
    threads = words("unit.thread_one") if manifest["threads"] == 1 else words("unit.thread_many", n=manifest["threads"])
    line = words(
        "keep.id",
        run=result["run_id"],
        date=manifest["started_at"].replace("T", " ").removesuffix("Z") + " UTC",
        model=f"{model_title(manifest['model'], words)} ({quantization(manifest['model'], words)})",
        dtype=manifest["dtype"],
        threads=threads,
    )
    st.html(f"<p class='lab-note'>{escape(line)}</p>" + files(result, src, words))
    if result["provenance"] == "measured":
        _pin(result["run_id"], words)


def files(result: dict, src: str, words: Words) -> str:
    """Links to a run's files."""
    names = ("result.json", "manifest.json") + (("tokens.csv", "trace.json") if "schedules" in result else ())
    entries = [(words(f"download.{name.replace('.', '_')}"), f"./lab/runs/{src}/{name}") for name in names]
    return parts.links(entries, words("section.keep"))


def _pin(run: str, words: Words) -> None:
    """The switch shows what is, and only a click changes it: the run may be open in many tabs."""

    def change() -> None:
        try:
            client.pin(run, not found.pinned)
        except LabError as error:
            st.session_state["pin-failed"] = error
        st.session_state["pin-clicks"] = st.session_state.get("pin-clicks", 0) + 1

    try:
        found = client.stored(run)
    except LabError as error:
        run_panel.failed(error, words)
        return
    if found:
        # Another name after each change, here or elsewhere: a widget keeps what its reader last saw in it.
        key = f"pin-{run}-{found.pinned}-{st.session_state.get('pin-clicks', 0)}"
        st.toggle(words("keep.pin"), found.pinned, key=key, help=words("keep.pin_help"), on_change=change)
    if error := st.session_state.pop("pin-failed", None):
        run_panel.failed(error, words)


def repeats(words: Words, key: str, begin: int) -> int:
    """How often to measure; begin: as the run shown was measured, or as is usual."""
    choices = sorted({*REPEATS, begin})
    return st.selectbox(
        words("run.repeats"),
        choices,
        index=choices.index(begin),
        key=key,
        width=170,
        persist_state="session",
        format_func=lambda n: words("run.repeats_one") if n == 1 else words("run.repeats_many", n=n),
    )


def device_line(device: dict, words: Words) -> str:
    """The machine this lab runs on, in words."""
    cores = words("unit.core_one") if device.get("cores") == 1 else words("unit.core_many", n=device.get("cores"))
    return words("run.device", name=device.get("name"), cores=cores)
