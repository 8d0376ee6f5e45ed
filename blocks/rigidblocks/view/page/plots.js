// Plots of signals over time as SVG, one below the other, with a common cursor.

// the values have the colours of the lines, so each colour has a contrast of at least 4.5 with white
const LINES = ["#2274a5", "#c93f52", "#27794b", "#a86410", "#7d5ba6", "#3d5a6c", "#b0413e", "#2f7d75"];
const EDGE = { left: 62, right: 150, top: 18, bottom: 18 }, HEIGHT = 130;
const NARROW = 600, NARROW_RIGHT = 92; // [px] plots of telephones have a narrower column of values

function node(name, attributes = {}, ...children) {
  const svg = /^(svg|g|text|polyline|line|rect)$/.test(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false) made.setAttribute(key, value === true ? "" : value);
  made.append(...children);
  return made;
}

const short = (x) => x === 0 ? "0" : Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(2) : String(+x.toPrecision(4));

/** Return at most six round numbers between `low` and `high`. */
function ticks(low, high) {
  const power = 10 ** Math.floor(Math.log10((high - low) / 6));
  for (const step of [1, 2, 5, 10, 20].map((s) => s * power)) {
    const first = Math.ceil(low / step), count = Math.floor(high / step) - first + 1;
    if (count <= 6) return Array.from({ length: Math.max(count, 0) }, (_, k) => +((first + k) * step).toPrecision(12));
  }
  return [];
}

/** Return tick labels that differ, and 0; for long labels, return offsets from the first tick, and the first tick. */
function labels(at) {
  const digits = at.length > 1 ? Math.max(0, 1 - Math.floor(Math.log10(at[1] - at[0]))) : 3;
  const texts = at.map((x) => Math.abs(x) < 1e5 && digits <= 5 ? String(+x.toFixed(digits)) : String(+x.toPrecision(4)));
  const different = new Set(texts).size === texts.length && texts.every((text) => text.length <= 8);
  return different ? [texts, 0] : [at.map((x) => short(+(x - at[0]).toPrecision(3))), at[0]];
}

class Panel {
  /** `signal` contains the name, the unit, the names of the elements, and the columns of values. */
  constructor(signal, seek) {
    this.signal = signal;
    this.svg = node("svg", { role: "img", "aria-label": `${signal.name} over time` });
    this.frame = node("g");
    this.lines = signal.elements.map((_, k) => node("polyline", { stroke: LINES[k % LINES.length] }));
    this.cursor = node("line", { class: "cursor", y1: EDGE.top, y2: HEIGHT - EDGE.bottom });
    this.values = signal.elements.map((_, k) => node("text", { y: EDGE.top + 10 + 13 * k, style: `fill:${LINES[k % LINES.length]}` }));
    this.svg.append(this.frame, ...this.lines, this.cursor, ...this.values.slice(0, 8));
    const point = (event) => {
      const box = this.svg.getBoundingClientRect();
      const x = event.clientX - box.left - EDGE.left, wide = box.width - EDGE.left - this.right;
      seek(this.first + x / wide * (this.last - this.first));
    };
    this.svg.addEventListener("pointerdown", (event) => { this.svg.setPointerCapture(event.pointerId); point(event); });
    new ResizeObserver(() => {
      if (this.last !== undefined && this.svg.clientWidth !== this.width) this.redraw?.();
    }).observe(this.svg);
    this.svg.addEventListener("pointermove", (event) => { if (event.buttons) point(event); });
  }

  /** Width of the column of values on the right [px]. */
  get right() { return this.width < NARROW ? NARROW_RIGHT : EDGE.right; }

  x(t) { return EDGE.left + (t - this.first) / (this.last - this.first || 1) * (this.width - EDGE.left - this.right); }
  y(v) { return HEIGHT - EDGE.bottom - (v - this.low) / (this.high - this.low) * (HEIGHT - EDGE.top - EDGE.bottom); }

  /** Draw the first `n` values of each element over the times. */
  draw(time, columns, n, events = []) {
    this.redraw = () => this.draw(time, columns, n, events);
    this.width = this.svg.clientWidth || 1000;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.values.forEach((text) => text.setAttribute("x", this.width - this.right + 8));
    [this.first, this.last] = [time[0], Math.max(time[n - 1], time[0] + 1e-9)];
    let [low, high] = [Infinity, -Infinity];
    for (const column of columns)
      for (let k = 0; k < n; k++) {
        if (column[k] < low) low = column[k];
        if (column[k] > high) high = column[k];
      }
    if (!(low <= high)) [low, high] = [0, 1];
    const least = 1e-7 * Math.max(Math.abs(low), Math.abs(high)); // smaller differences are rounding errors
    const rim = high - low > least ? 0.06 * (high - low) : 0.5 * Math.abs(high) || 1;
    [this.low, this.high] = [low - rim, high + rim];
    columns.forEach((column, k) => {
      const points = [];
      for (let i = 0; i < n; i++) points.push(`${this.x(time[i]).toFixed(1)},${this.y(column[i]).toFixed(1)}`);
      this.lines[k].setAttribute("points", points.join(" "));
    });
    this.drawFrame(events);
  }

  drawFrame(events) {
    const [left, right, top, bottom] = [EDGE.left, this.width - this.right, EDGE.top, HEIGHT - EDGE.bottom];
    const { name, unit } = this.signal, title = unit && unit !== "1" ? `${name} [${unit}]` : name;
    const at = ticks(this.low, this.high), [texts, from] = labels(at);
    const parts = [node("text", { x: left, y: 12 }, from ? `${title}, above ${+from.toPrecision(8)}` : title)];
    at.forEach((v, k) => parts.push(
      node("line", { class: "grid", x1: left, x2: right, y1: this.y(v), y2: this.y(v) }),
      node("text", { x: left - 6, y: this.y(v) + 4, "text-anchor": "end" }, texts[k])));
    for (const t of ticks(this.first, this.last))
      parts.push(node("line", { class: "grid", y1: top, y2: bottom, x1: this.x(t), x2: this.x(t) }),
        node("text", { x: this.x(t), y: HEIGHT - 4, "text-anchor": "middle" }, short(t)));
    parts.push(node("text", { x: right + 16, y: HEIGHT - 4 }, "time [s]"));
    for (const t of events)
      parts.push(node("line", { class: "event", y1: top, y2: bottom, x1: this.x(t), x2: this.x(t) }));
    parts.push(node("rect", { class: "frame", x: left, y: top, width: right - left, height: bottom - top }));
    this.frame.replaceChildren(...parts);
  }

  /** Move the cursor to the time t, and display the values at this time. */
  point(t, values) {
    const x = this.x(Math.min(Math.max(t, this.first), this.last));
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    this.values.forEach((text, k) => { text.textContent = `${this.signal.elements[k]} ${short(values[k])}`; });
  }
}

class Plots {
  /** Add one panel per signal, and buttons that show or hide the panels; initially show the first `shown` panels. */
  constructor(place, signals, seek, shown = 3) {
    this.panels = signals.map((signal) => new Panel(signal, seek));
    if (!signals.length) return;
    const chooser = node("div", { class: "chooser" });
    this.panels.forEach((panel, k) => {
      const button = node("button", { type: "button", "aria-pressed": String(k < shown), onclick: () => {
        panel.hidden = !panel.hidden;
        panel.svg.style.display = panel.hidden ? "none" : "";
        button.setAttribute("aria-pressed", !panel.hidden);
        this.onchange?.();
      } }, signals[k].name);
      panel.hidden = k >= shown;
      panel.svg.style.display = panel.hidden ? "none" : "";
      chooser.append(button);
      place.append(panel.svg);
    });
    place.prepend(chooser);
  }

  get visible() { return this.panels.filter((panel) => !panel.hidden); }
}
