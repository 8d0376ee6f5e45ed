// Real-time simulation in the page, with sliders for inputs and parameters.

const WINDOW = 10, BUDGET = 12; // time range of the plots [s]; computing time for steps per frame [ms]

class Simulation {
  constructor(description) {
    Object.assign(this, { ...description, set: new Map(), running: false, speed: 1, time: [], owed: 0 });
    this.kernel = new Kernel(bytes(description.wasm), description.dt);
    this.columns = this.signals.map((signal) => signal.places.map(() => []));
    this.every = Math.max(1, Math.round(0.02 / this.dt));
    this.plots = new Plots(at("plots"), this.signals, () => {});
    this.plots.onchange = () => this.draw();
    this.controls();
    this.sliders();
    scene.frame(this.ahead());
    scene.goes = scene.roams;
    scene.guide = (poses, part) => scene.goAfter(poses, part);
    this.reset();
    this.pull = new Pull(description.pulls, () => this.kernel.memory);
    this.often = Math.max(1, Math.round(0.002 / this.dt)); // number of steps between two updates of the pull
    this.run(true);
  }

  /** Return body poses of the first seconds, computed within a time limit, for the initial camera position. */
  ahead(seconds = 4, some = 25, budget = 300) {
    const many = [], start = performance.now(), every = Math.ceil(seconds / some / this.dt);
    for (let k = 0; k < some && performance.now() - start < budget; k++) {
      many.push(Float64Array.from(robots.at(this.q())));
      for (let j = 0; j < every && this.kernel.step(); j++);
      if (this.kernel.failed) break;
    }
    return many;
  }

  q() {
    const memory = this.kernel.memory;
    return Float64Array.from(this.places, (place) => memory[place]);
  }

  controls() {
    this.button = node("button", { type: "button", id: "play", onclick: () => this.run(!this.running) }, "start");
    const reset = node("button", { type: "button", id: "reset", onclick: () => this.reset() }, "reset");
    const step = node("button", { type: "button", onclick: () => { this.run(false); this.advance(1); this.draw(); } }, "step");
    this.clock = node("output");
    const speeds = node("select", { "aria-label": "speed", onchange: () => { this.speed = +speeds.value; } },
      ...[0.1, 0.25, 0.5, 1, 2, 5].map((s) => node("option", { value: s, selected: s === 1 }, `${s} x`)));
    at("transport").hidden = false;
    at("transport").append(this.button, reset, step, speeds, this.clock);
  }

  /** Add the sliders of inputs and parameters; a new value applies from the next step on. */
  sliders() {
    for (const [title, some] of Object.entries(this.settable)) {
      if (some.length) at("sliders").append(node("h2", {}, title));
      for (const one of some)
        at("sliders").append(new Slider(one, (value) => {
          this.set.set(one.place, value);
          this.kernel.memory[one.place] = value;
        }).label);
    }
  }

  reset() {
    this.pull?.end();
    over.paths.clear();
    this.kernel.reset(this.set);
    this.time = [];
    this.columns.forEach((columns) => columns.forEach((column) => { column.length = 0; }));
    this.keep();
    this.draw();
  }

  keep() {
    const memory = this.kernel.memory;
    this.time.push(this.kernel.steps * this.dt);
    this.signals.forEach(({ places }, k) => places.forEach((place, j) => this.columns[k][j].push(memory[place])));
    while (this.time[this.time.length - 1] - this.time[0] > WINDOW) {
      this.time.shift();
      this.columns.forEach((columns) => columns.forEach((column) => column.shift()));
    }
  }

  /** Take up to n steps within the time limit `budget` [ms]; return the number of steps. */
  advance(n, budget = Infinity) {
    const start = performance.now();
    for (let k = 0; k < n; k++) {
      if (this.pull.held && this.kernel.steps % this.often === 0)
        this.pull.act(this.often * this.dt, robots.at(this.q()));
      if (!this.kernel.step()) {
        this.run(false);
        trouble(`the run failed at t = ${(this.kernel.steps * this.dt).toFixed(3)} s; reset starts it again`);
        return k;
      }
      if (this.kernel.steps % this.every === 0) this.keep();
      if (k % 16 === 15 && performance.now() - start > budget) return k + 1;
    }
    return n;
  }

  draw() {
    const memory = this.kernel.memory;
    show(this.q(), this.forces.map((some) => some && some.map((place) => memory[place])));
    over.paths.add(scene.poses);
    for (const panel of this.plots.visible) {
      const k = this.plots.panels.indexOf(panel);
      panel.draw(this.time, this.columns[k], this.time.length);
      panel.point(this.kernel.steps * this.dt, this.signals[k].places.map((place) => memory[place]));
    }
    this.clock.textContent = `${(this.kernel.steps * this.dt).toFixed(2)} s`;
  }

  run(on) {
    this.running = on;
    this.button.textContent = on ? "pause" : "start";
    let before = null;
    const tick = (now) => {
      if (!this.running) return;
      this.owed += before === null ? 0 : Math.min(now - before, 100) / 1000 * this.speed / this.dt;
      before = now;
      const wanted = Math.floor(this.owed);
      const taken = this.advance(wanted, BUDGET);
      this.owed = taken < wanted ? 0 : this.owed - wanted;
      this.draw();
      requestAnimationFrame(tick);
    };
    if (on) requestAnimationFrame(tick);
  }
}
