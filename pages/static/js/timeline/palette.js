// Colours and patterns, read from the style sheet's variables as the browser resolves them for the theme shown.

const NAMES = ["ink", "muted", "paper", "panel", "line", "accent", "accent-soft", "prefill", "prefill-ink", "chunk", "chunk-ink", "decode", "mixed", "mixed-ink", "transfer", "transfer-ink", "stall", "stall-ink"];

/** { ink, muted, ..., "stall-ink" } as the element's theme has them. */
export function readColors(root, scheme = null) {
  const probe = document.createElement("span");
  probe.style.cssText = `position:absolute;visibility:hidden;transition:none${scheme ? `;color-scheme:${scheme}` : ""}`;
  root.append(probe);
  const style = getComputedStyle(probe);
  const colors = {};
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`;
    colors[name] = style.color;
  }
  colors.font = getComputedStyle(root).fontFamily;
  probe.remove();
  return colors;
}

/** Calls back when the theme changes, whoever changed it: a hidden element in the text's colour starts a transition then. */
export function watchColors(root, changed) {
  const watch = document.createElement("span");
  watch.className = "tl-watch";
  watch.setAttribute("aria-hidden", "true");
  root.append(watch);
  watch.addEventListener("transitionend", changed);
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", changed);
  return () => {
    media.removeEventListener("change", changed);
    watch.remove();
  };
}

/** Fill styles of the categories for one canvas: a colour with its pattern on it, in device pixels. */
export function fills(context, colors, dpr) {
  const tile = (size, ground, ink, draw) => {
    const pixels = Math.round(size * dpr);
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = pixels;
    const c = canvas.getContext("2d");
    c.scale(pixels / size, pixels / size);
    c.fillStyle = ground;
    c.fillRect(0, 0, size, size);
    c.fillStyle = c.strokeStyle = ink;
    draw(c, size);
    const pattern = context.createPattern(canvas, "repeat");
    pattern.setTransform(new DOMMatrix().scale(size / pixels));
    return pattern;
  };
  const slanted = (sign, width) => (c, s) => {
    c.lineWidth = width;
    for (const shift of [-s, 0, s]) {
      c.beginPath();
      c.moveTo(shift - 1, sign > 0 ? s + 1 : -1);
      c.lineTo(shift + s + 1, sign > 0 ? -1 : s + 1);
      c.stroke();
    }
  };
  return {
    prefill: tile(7, colors.prefill, colors["prefill-ink"], slanted(1, 1.1)),
    chunk: tile(6, colors.chunk, colors["chunk-ink"], (c) => c.fillRect(3, 0, 1.3, 6)),
    decode: colors.decode,
    mixed: tile(6, colors.mixed, colors["mixed-ink"], (c) => c.fillRect(0, 3, 6, 1.5)),
    transfer: tile(5, colors.transfer, colors["transfer-ink"], (c) => {
      c.beginPath();
      c.arc(2.5, 2.5, 1.1, 0, 7);
      c.fill();
    }),
    stall: tile(8, colors.stall, colors["stall-ink"], slanted(-1, 1.3)),
  };
}

/** The colour with another opacity: "rgb(1, 2, 3)" -> "rgb(1 2 3 / 0.5)". */
export function faint(color, alpha) {
  const [r, g, b] = color.match(/[\d.]+/g);
  return `rgb(${r} ${g} ${b} / ${alpha})`;
}
