"""What a page says, seen or heard, as a list of texts: of elements, attributes, style sheets, canvases and Plotly's figures."""

# Before a page begins: what is drawn on a canvas is no text of the document.
DRAWN = """
window.drawnTexts = new Set();
for (const name of ["fillText", "strokeText"]) {
  const draw = CanvasRenderingContext2D.prototype[name];
  CanvasRenderingContext2D.prototype[name] = function (text, ...rest) { window.drawnTexts.add(String(text)); return draw.call(this, text, ...rest); };
}"""

# (selector of what to leave out) => [[kind, text, where], ...]; what is folded away counts, what is not rendered does not.
READ = r"""(leftOut) => {
  const found = new Map();
  const say = (kind, text, element) => {
    text = (text || "").replace(/\s+/g, " ").trim();
    if (!/\p{L}{2}/u.test(text) || element.closest(leftOut)) return;
    const where = [];
    for (let e = element; e && where.length < 3; e = e.parentElement)
      where.push(e.localName + [...e.classList].filter((c) => !/^(st-emotion|e[0-9a-z]{6,})/.test(c)).map((c) => "." + c).join("") + (e.dataset.testid ? "#" + e.dataset.testid : ""));
    found.set(kind + text, [kind, text, where.join(" < ")]);
  };
  const walk = (root) => {
    for (const element of root.children) {
      if (element.matches("script, style, noscript, template")) continue;
      const style = getComputedStyle(element);
      if (style.display === "none") continue;
      for (const name of ["alt", "aria-label", "aria-description", "aria-roledescription", "aria-valuetext", "title", "placeholder", "data-of"])
        if (element.hasAttribute(name)) say(name, element.getAttribute(name), element);
      if (element.matches("textarea, input:not([type=checkbox], [type=radio])")) say("value", element.value, element);
      for (const side of ["::before", "::after"]) {
        const content = getComputedStyle(element, side).content;
        if (content.startsWith('"')) say(side, content.slice(1, -1), element);
      }
      for (const node of element.childNodes) if (node.nodeType === Node.TEXT_NODE) say("text", node.data, element);
      if (element.matches(".js-plotly-plot"))
        for (const trace of element.data)
          for (const name of ["name", "text", "hovertemplate", "texttemplate"])
            for (const text of [trace[name]].flat(3)) if (typeof text === "string") say("plotly " + name, text.replace(/%\{[^}]*\}|<[^>]*>/g, " "), element);
      if (element.shadowRoot) walk(element.shadowRoot);
      walk(element);
    }
  };
  say("title", document.title, document.documentElement);
  walk(document.body);
  for (const text of window.drawnTexts) if (!/^[a-z]+_/.test(text)) say("canvas", text, document.body);  // an icon, measured
  return [...found.values()];
}"""
