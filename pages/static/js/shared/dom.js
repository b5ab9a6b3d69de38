// Elements by hand: text only through textContent, listeners only through addEventListener.

const SVG = "http://www.w3.org/2000/svg";

/** An element: h("button", { class: "x", "aria-label": "y", on: { click: f } }, "text", child). */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** The same for an SVG element: s("circle", { r: 4 }). */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A 16 x 16 icon from path data, drawn in the text's colour. */
export function icon(...paths) {
  const size = { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" };
  return s("svg", size, ...paths.map((d) => s("path", { d })));
}

/** The words of the reader's language: words("play.waiting", { s: "3.2 s" }). A missing key shows itself. */
export function wording(table) {
  return (key, facts = {}) => (table[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => facts[name] ?? whole);
}
