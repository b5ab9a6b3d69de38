"""The third part of the lesson: which GPU for which pool, at the reader's own prices."""

from __future__ import annotations

import streamlit as st

from engine import profiles
from pages._ui import fmt, outcome, parts, predict
from pages._ui.words import Words
from pages.pools import gpu_story as story
from pages.pools import instance


def section(words: Words) -> None:
    st.markdown(words.part("gpu"))
    predict.section("pools", "gpu", words)

    @st.fragment
    def draw() -> None:
        _show(_chosen(words), words)

    draw()
    outcome.why(words, "gpu")


def _show(cards: list[story.Card], words: Words) -> None:
    facts = {name: fmt.share(getattr(instance, name)) for name in ("COMPUTE_SHARE", "READ_SHARE", "RESERVE")}
    what = words("gpu.what", compute=facts["COMPUTE_SHARE"], read=facts["READ_SHARE"], reserve=facts["RESERVE"])
    st.html(f"<div class='lab-source'>{parts.badge('computed', words)}<span>{parts.prose(what)}</span></div>")
    first, *_ = story.headline(cards)
    pair = story.sentence_of_l40s(cards)
    said = f"<p class='lab-said'>{parts.prose(words(pair[0], **pair[1]))}</p>" if pair else ""
    st.html(f"<p class='lab-headline'>{parts.prose(words(first[0], **first[1]))}</p>{said}{story.races(cards, words)}")
    outcome.section(words("gpu.section_tokens", tokens=fmt.count(cards[0].tokens), model=cards[0].model.title))
    st.html(parts.plain_table(*story.table(cards, words), words("gpu.col_device")))
    note = words("gpu.table_note", output=fmt.count(story.OUTPUT), target=fmt.seconds(story.TARGET_S))
    st.html(f"<p class='lab-note'>{parts.prose(note)}</p>")
    if len(cards) > 1:
        _even(cards, words)
    sources = [f"{card.device.title}: {source}" for card in cards for source in card.device.sources.values()]
    with st.expander(words("gpu.sources")):
        st.html("".join(f"<p class='lab-note'>{parts.cited(text)}</p>" for text in dict.fromkeys(sources)))


def _even(cards: list[story.Card], words: Words) -> None:
    """Below which price each card is cheaper than one that the reader chooses."""
    by_name = {card.device.name: card for card in cards}
    names = list(by_name)
    first = names.index(story.FIRST["against"]) if story.FIRST["against"] in names else 0
    outcome.section(words("gpu.section_even"))
    # Another choice of cards is another box: one that kept a card no longer there would show nothing.
    against = st.selectbox(words("gpu.against"), names, index=first, format_func=lambda name: by_name[name].device.title, key=f"pools-against-{'-'.join(names)}", width=260)
    st.html(f"<p class='lab-said'>{parts.prose(words('gpu.even', device=by_name[against].device.title, price=story.dollars(by_name[against].price)))}</p>")
    st.html(parts.plain_table(*story.even_prices(cards, by_name[against], words), words("gpu.section_even")))


def _chosen(words: Words) -> list[story.Card]:
    """The boxes and prices, which the session keeps."""
    models, devices = instance.models(), profiles.devices()
    found: dict[str, object] = {}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run-pools-gpu"):
        names = list(models)
        found["model"] = st.selectbox(
            words("gpu.model"), names, index=names.index(story.FIRST["model"]), format_func=lambda name: models[name].title, key="pools-gpu-model", width=210, persist_state="session"
        )
        tip = words("gpu.tokens_help", low=fmt.count(story.TOKENS[0]), high=fmt.count(story.TOKENS[1]))
        found["tokens"] = st.number_input(words("gpu.tokens"), *story.TOKENS, story.FIRST["tokens"], key="pools-gpu-tokens", width=170, persist_state="session", help=tip)
        found["devices"] = st.selectbox(words("gpu.devices"), list(story.DEVICES), key="pools-gpu-devices", width=150, persist_state="session")
        found["chosen"] = st.multiselect(
            words("gpu.chosen"),
            list(devices),
            default=list(story.FIRST["chosen"]),
            max_selections=story.MOST,
            format_func=lambda name: story.short(devices[name]),
            key="pools-gpu-chosen",
            persist_state="session",
        )
    cards = story.cards_of(found, models, devices)
    st.html(f"<p class='lab-said po-prices'><b>{parts.prose(words('gpu.prices'))}</b> {parts.prose(words('gpu.prices_what'))}</p>")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run-pools-prices"):
        found["prices"] = {
            card.device.name: st.number_input(
                words("gpu.price", device=story.short(card.device)),
                *story.PRICES,
                story.EXAMPLE_PRICES.get(card.device.name, story.ANY_PRICE),
                step=0.1,
                format="%.2f",
                key=f"pools-price-{card.device.name}",
                width=190,
                persist_state="session",
                help=words("gpu.price_help"),
            )
            for card in cards
        }
    return story.cards_of(found, models, devices)
