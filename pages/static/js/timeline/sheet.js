// One canvas and its layer: bars are drawn on the layer, and a frame begins as a copy of it.

import { h } from "../shared/dom.js";
import { Tooltip } from "./tooltip.js";

/** A block of the picture. With a label it is an image that can be reached by keyboard, else it is hidden from readers. */
export class Sheet {
  constructor(label) {
    this.canvas = h("canvas", { class: "tl-canvas", tabindex: label ? 0 : null, role: label ? "img" : null, "aria-label": label, "aria-hidden": label ? null : "true" });
    this.layer = document.createElement("canvas");
    this.tip = new Tooltip();
    this.element = h("div", { class: "tl-sheet" }, this.canvas, this.tip.element);
    this.hover = null;
    this.seen = true;
  }

  size(width, height, dpr) {
    this.width = width;
    this.height = height;
    for (const canvas of [this.canvas, this.layer]) {
      canvas.width = Math.max(1, Math.round(width * dpr));
      canvas.height = Math.max(1, Math.round(height * dpr));
    }
    this.canvas.style.height = `${height}px`;
    this.drawn = this.layer.getContext("2d", { alpha: true });
    this.shown = this.canvas.getContext("2d");
    this.drawn.setTransform(dpr, 0, 0, dpr, 0, 0);
    this.shown.setTransform(dpr, 0, 0, dpr, 0, 0);
  }

  /** Copy the layer. */
  blit() {
    const c = this.shown;
    c.save();
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.globalCompositeOperation = "copy";
    c.drawImage(this.layer, 0, 0);
    c.restore();
    return c;
  }
}
