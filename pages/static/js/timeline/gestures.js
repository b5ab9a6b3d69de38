// Pointer, wheel and touch on a canvas, as wishes: select a span, pan, zoom, put the play-head, tap. Plain scrolling is the page's.

const CLICK_PX = 4;
const HANDLE_PX = 7;

/**
 * Listen on a canvas. `wish`: { scale() , head() -> x of the play-head or null, select([x0, x1] | null), zoomTo(x0, x1),
 * pan(dx), zoomAt(factor, x), grab(x), hover(x, y) or hover(null), click(x, y, touch), reset() }. Gives a clean-up.
 */
export function listen(canvas, wish) {
  const fingers = new Map();
  let drag = null;
  let pinch = null;

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  const down = (event) => {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    const [x, y] = place(event);
    if (event.pointerType === "touch") {
      fingers.set(event.pointerId, x);
      if (fingers.size === 2) {
        pinch = spread(fingers);
        drag = null;
        return;
      }
    }
    const head = wish.head();
    const handle = head !== null && Math.abs(head - x) < HANDLE_PX;
    const kind = handle ? "grab" : event.pointerType === "touch" || event.shiftKey ? "pan" : "select";
    drag = { kind, x, y, last: x, moved: false, id: event.pointerId };
    canvas.setPointerCapture(event.pointerId);
  };

  const move = (event) => {
    const [x, y] = place(event);
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, x);
    if (pinch && fingers.size === 2) {
      const now = spread(fingers);
      wish.zoomAt(pinch.width / Math.max(now.width, 12), now.middle, pinch.middle - now.middle);
      pinch = now;
      return;
    }
    if (!drag) {
      if (event.pointerType !== "touch") {
        const head = wish.head();
        canvas.style.cursor = head !== null && Math.abs(head - x) < HANDLE_PX ? "ew-resize" : "";
        wish.hover(x, y);
      }
      return;
    }
    if (Math.abs(x - drag.x) > CLICK_PX) drag.moved = true;
    if (!drag.moved) return;
    wish.hover(null);
    if (drag.kind === "pan") wish.pan(x - drag.last);
    else if (drag.kind === "grab") wish.grab(x);
    else wish.select([drag.x, x]);
    drag.last = x;
  };

  const up = (event) => {
    fingers.delete(event.pointerId);
    if (fingers.size < 2) pinch = null;
    if (!drag || drag.id !== event.pointerId) return;
    const [x, y] = place(event);
    const { kind, moved, x: from } = drag;
    drag = null;
    if (kind === "select") wish.select(null);
    if (!moved) wish.click(x, y, event.pointerType === "touch");
    else if (kind === "select") wish.zoomTo(Math.min(from, x), Math.max(from, x));
  };

  const cancel = (event) => {
    fingers.delete(event.pointerId);
    pinch = null;
    drag = null;
    wish.select(null);
  };

  const wheel = (event) => {
    const [x] = place(event);
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      wish.zoomAt(Math.exp(Math.max(-40, Math.min(40, event.deltaY)) * 0.01), x);
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) * 1.5 && wish.pan(-event.deltaX)) {
      event.preventDefault();
    }
  };

  const listeners = {
    pointerdown: down,
    pointermove: move,
    pointerup: up,
    pointercancel: cancel,
    // A finger leaves whenever it is lifted: what it tapped stays told.
    pointerleave: (event) => !drag && event.pointerType !== "touch" && wish.hover(null),
    dblclick: () => wish.reset(),
  };
  for (const [name, listener] of Object.entries(listeners)) canvas.addEventListener(name, listener);
  canvas.addEventListener("wheel", wheel, { passive: false });
  return () => {
    for (const [name, listener] of Object.entries(listeners)) canvas.removeEventListener(name, listener);
    canvas.removeEventListener("wheel", wheel);
  };
}

function spread(fingers) {
  const [a, b] = [...fingers.values()];
  return { width: Math.abs(a - b), middle: (a + b) / 2 };
}
