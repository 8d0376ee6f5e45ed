// Live view of a run in another process, which displays the latest sample.

// maximum number of samples in the plots; maximum duration of the interpolation between two samples [ms]
const KEPT = 1500, SMOOTH = 400;

/** Call `receive` for each event with its type, the run number and a sample [t, outputs ...]. */
function listen(receive, silent) {
  const source = new EventSource("events");
  for (const kind of ["row", "over"])
    source.addEventListener(kind, ({ data }) => {
      const [run, row] = data.split(" ");
      receive(kind, +run, new Float64Array(bytes(row).buffer));
    });
  source.addEventListener("error", silent);
}

/** Reload the page of a finished run when the next run starts. */
function untilNextRun(shown) {
  listen((_, run) => { if (run !== shown) location.reload(); }, () => {});
}

class Live {
  constructor({ places, forces, signals }) {
    Object.assign(this, { places, forces, signals, run: null, time: [], rows: 0, seen: [], held: false });
    this.columns = signals.map((signal) => signal.places.map(() => []));
    this.plots = new Plots(at("plots"), signals, () => {});
    this.plots.onchange = () => this.plot();
    this.button = node("button", { type: "button", id: "play", onclick: () => this.hold(!this.held) }, "hold");
    this.clock = node("output");
    at("transport").hidden = false;
    at("transport").append(this.button, this.clock);
    this.from = this.to = this.q = Float64Array.from(robots.q);
    scene.guide = (poses, part) => scene.goAfter(poses, part);
    this.look(robots.q);
    show(robots.q);
    this.say("waits for a run");
    listen((kind, run, row) => this.take(kind, run, row), () => this.say("not connected: the program that runs has ended"));
    this.tick = this.tick.bind(this);
    requestAnimationFrame(this.tick);
  }

  say(text) { at("note").textContent = text; }

  hold(on) {
    this.held = on;
    this.button.textContent = on ? "follow" : "hold";
  }

  take(kind, run, row) {
    if (kind === "over") { this.over(); return; }
    if (run !== this.run) this.begin(run);
    this.say("follows a run");
    const now = performance.now();
    this.keep(row);
    this.rows++;
    if (this.held) return;
    this.span = Math.min(now - (this.at ?? now), SMOOTH);
    [this.from, this.to, this.at] = [this.q, Float64Array.from(this.places, (k) => row[k]), now];
    this.look(this.to);
    this.plot();
  }

  /** Load the page that plays back the finished run, if the server still responds. */
  over() {
    this.say("the run is over");
    fetch(location.href).then((answer) => { if (answer.ok) location.reload(); }, () => {});
  }

  begin(run) {
    Object.assign(this, { run, time: [], every: 1, count: 0 });
    over.paths.clear();
    this.columns.forEach((columns) => columns.forEach((column) => { column.length = 0; }));
  }

  /** Store samples for the plots: first each sample, later each second, fourth, ... sample of the whole run. */
  keep(row) {
    this.row = row;
    if (this.count++ % this.every !== 0) return;
    this.time.push(row[0]);
    this.signals.forEach(({ places }, k) => places.forEach((place, j) => this.columns[k][j].push(row[place])));
    if (this.time.length < KEPT) return;
    const half = (column) => column.filter((_, k) => k % 2 === 0);
    this.time = half(this.time);
    this.columns = this.columns.map((columns) => columns.map(half));
    this.every *= 2;
  }

  /** Move the camera back until all past poses are visible; follow the robot if it travels a long distance. */
  look(q) {
    if (scene.isMoved || scene.goes) return;
    this.seen.push(Float64Array.from(robots.at(Float64Array.from(q))));
    if (this.seen.length > 24) this.seen = this.seen.filter((_, k) => k % 2 === 0);
    scene.frame(this.seen);
    if (scene.roams) scene.go(true);
  }

  plot() {
    if (!this.row) return;
    for (const panel of this.plots.visible) {
      const k = this.plots.panels.indexOf(panel);
      panel.draw(this.time, this.columns[k], this.time.length);
      panel.point(this.row[0], this.signals[k].places.map((place) => this.row[place]));
    }
    this.clock.textContent = `${this.row[0].toFixed(2)} s`;
  }

  tick(now) {
    requestAnimationFrame(this.tick);
    if (this.from === this.to) return;
    const part = this.span > 0 ? Math.min(Math.max((now - this.at) / this.span, 0), 1) : 1;
    this.q = part < 1 ? this.to.map((x, k) => this.from[k] + (x - this.from[k]) * part) : this.to;
    if (part === 1) this.from = this.to;
    show(this.q, this.forces.map((some) => some && some.map((place) => this.row[place])));
    over.paths.add(scene.poses);
  }
}
