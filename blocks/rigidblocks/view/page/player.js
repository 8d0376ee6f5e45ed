// Playback of a finished run, with a timeline and plots with a cursor.

/** Return the indices of the samples before and after t, and the fraction of the interval between them. */
function rowAt(time, n, t) {
  let low = 0, high = n - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (time[middle] <= t) low = middle; else high = middle;
  }
  const part = (t - time[low]) / (time[high] - time[low] || 1);
  return [low, high, Math.min(Math.max(part, 0), 1)];
}

const mixed = (column, [a, b, part]) => column[a] + (column[b] - column[a]) * part;

class Player {
  constructor(run) {
    this.time = new Float64Array(bytes(run.time).buffer);
    this.rows = floats(run.q);
    this.forces = run.forces.map((one) => one && floats(one));
    this.plotTime = new Float64Array(bytes(run.plotTime).buffer);
    this.signals = run.signals.map((signal) => ({ ...signal, columns: signal.columns.map(floats) }));
    [this.first, this.last] = [this.time[0], this.time[this.time.length - 1]];
    Object.assign(this, { t: this.first, playing: false, speed: 1, repeat: true });
    this.plots = new Plots(at("plots"), this.signals, (t) => this.seek(t));
    this.plots.onchange = () => this.point();
    this.plots.panels.forEach((panel, k) =>
      panel.draw(this.plotTime, this.signals[k].columns, this.plotTime.length, run.events));
    this.controls();
  }

  controls() {
    this.button = node("button", { type: "button", id: "play", onclick: () => this.play(!this.playing) }, "play");
    this.slider = node("input", { type: "range", id: "timeline", min: this.first, max: this.last, step: "any", "aria-label": "time",
      oninput: () => this.seek(+this.slider.value) });
    this.clock = node("output");
    const speeds = node("select", { "aria-label": "speed", onchange: () => { this.speed = +speeds.value; } },
      ...[0.1, 0.25, 0.5, 1, 2, 5, 10].map((s) => node("option", { value: s, selected: s === 1 }, `${s} x`)));
    const again = node("button", { type: "button", "aria-pressed": "true", onclick: () => {
      this.repeat = !this.repeat;
      again.setAttribute("aria-pressed", this.repeat);
    } }, "repeat");
    at("transport").hidden = false;
    at("transport").append(this.button, this.slider, this.clock, speeds, again);
    window.addEventListener("keydown", (event) => {
      if (event.code !== "Space" || /INPUT|BUTTON|SELECT/.test(event.target.tagName)) return;
      event.preventDefault();
      this.play(!this.playing);
    });
  }

  /** Return the values at t, linearly interpolated between two samples. */
  rowOf(t, rows = this.rows) {
    const place = rowAt(this.time, this.time.length, t), wide = rows.length / this.time.length, row = new Float64Array(wide);
    const [a, b, part] = place;
    for (let i = 0; i < wide; i++) row[i] = rows[a * wide + i] + (rows[b * wide + i] - rows[a * wide + i]) * part;
    return row;
  }

  seek(t) {
    this.t = Math.min(Math.max(t, this.first), this.last);
    this.slider.value = this.t;
    this.clock.textContent = `${this.t.toFixed(3)} s`;
    show(this.rowOf(this.t), this.forces.map((one) => one && this.rowOf(this.t, one)));
    this.point();
  }

  /** Draw the paths of the whole run. */
  trace(some = 400) {
    over.paths.clear();
    for (let k = 0; k <= some; k++)
      over.paths.add(robots.at(this.rowOf(this.first + (this.last - this.first) * k / some)));
  }

  point() {
    const place = rowAt(this.plotTime, this.plotTime.length, this.t);
    this.plots.panels.forEach((panel, k) => panel.point(this.t, this.signals[k].columns.map((column) => mixed(column, place))));
  }

  play(on) {
    this.playing = on;
    this.button.textContent = on ? "pause" : "play";
    if (on && this.t >= this.last) this.seek(this.first);
    let before = null;
    const tick = (now) => {
      if (!this.playing) return;
      let t = this.t + (before === null ? 0 : (now - before) / 1000 * this.speed);
      before = now;
      if (t >= this.last && this.repeat) t = this.first;
      this.seek(t);
      if (t >= this.last) this.play(false);
      else requestAnimationFrame(tick);
    };
    if (on) requestAnimationFrame(tick);
  }
}

