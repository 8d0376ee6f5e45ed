// The page: a robot to be moved by sliders, a run to be played, or a system that runs here.

const page = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
function floats(text) { return new Float32Array(bytes(text).buffer); }

const trouble = (error) => { at("trouble").hidden = false; at("trouble").textContent = error.message ?? error; };
window.addEventListener("error", (event) => trouble(event.error ?? event.message));

class Robots {
  /** All robots of the page: their variables one after the other, and the poses of all bodies. */
  constructor(robots) {
    this.robots = robots;
    let body = 0, variable = 0;
    this.parts = robots.map((robot) => {
      const part = { robot, body, variable, poses: functions[robot.poses] };
      part.closure = new Closure(functions[robot.open], robot.constraints, robot.q.length, robot.quaternions);
      body += robot.bodies.length;
      variable += robot.q.length;
      return part;
    });
    this.q = Float64Array.from(robots.flatMap((robot) => robot.q));
    this.poses = new Float64Array(12 * body);
  }

  at(q) {
    for (const { robot, body, variable, poses, closure } of this.parts) {
      const own = q.subarray(variable, variable + robot.q.length);
      poses(closure.unit(own), this.poses.subarray(12 * body, 12 * (body + robot.bodies.length)));
    }
    return this.poses;
  }

  /** The solids of all robots, numbered by the bodies of all. */
  get solids() {
    return this.parts.flatMap(({ robot, body }) => robot.solids.map((solid) => {
      const moved = (k) => k < 0 ? -1 : k + body;
      return { ...solid, body: moved(solid.body), other: moved(solid.other ?? -1) };
    }));
  }
}

const robots = new Robots(page.robots);
const scene = new Scene(at("scene"), { solids: robots.solids, up: page.up, eye: page.eye });
scene.height = page.ground;
at("note").textContent = page.note ?? "";

function show(q) {
  robots.q.set(q);
  scene.draw(robots.at(robots.q));
}

function viewButtons() {
  const [home, up] = [scene.eye, scene.up], side = perpendicular(up);
  const named = { home, front: add(side, scaled(up, 0.01)), side: add(cross(up, side), scaled(up, 0.01)), top: add(up, scaled(side, 0.01)) };
  for (const [name, eye] of Object.entries(named))
    at("views").append(node("button", { type: "button", onclick: () => {
      scene.eye = unit(eye);
      scene.frame([Float64Array.from(scene.poses)]);
      scene.draw(scene.poses);
    } }, name));
  const layers = [...new Set(robots.solids.map((solid) => solid.layer ?? "links"))].filter((name) => name !== "links");
  for (const name of layers) {
    const button = node("button", { type: "button", "aria-pressed": "false", onclick: () => {
      if (!scene.layers.delete(name)) scene.layers.add(name);
      button.setAttribute("aria-pressed", scene.layers.has(name));
      scene.draw(scene.poses);
    } }, name);
    at("views").append(button);
  }
}

/** Sliders for the joints, which keep loops closed. */
function jointSliders() {
  for (const part of robots.parts) {
    const { robot, variable, closure } = part, sliders = [];
    if (robot.sliders.length) at("sliders").append(node("h2", {}, robot.name));
    for (const one of robot.sliders) {
      const slider = new Slider({ ...one, value: robot.q[one.q] }, (value) => {
        const q = robots.q.slice(variable, variable + robot.q.length);
        const all = robots.q.slice();
        all.set(closure.moved(q, one.q, value), variable);
        show(all);
        tell();
      });
      sliders.push([slider, variable + one.q]);
      at("sliders").append(slider.label);
    }
    const tell = () => {
      for (const [slider, k] of sliders) slider.show(robots.q[k]);
      const open = Math.sqrt(closure.misfit(robots.q.slice(variable, variable + robot.q.length)));
      if (robot.constraints) at("note").textContent = `loops closed to ${open.toExponential(1)}`;
      page.open = open;
    };
    tell();
  }
}

/** Where a time is among increasing times: the row before it, and the part of the way to the next. */
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

/** A run that is played. */
class Player {
  constructor(run) {
    this.time = new Float64Array(bytes(run.time).buffer);
    this.rows = floats(run.q);
    this.width = this.rows.length / this.time.length;
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

  rowOf(t) {
    const place = rowAt(this.time, this.time.length, t), q = new Float64Array(this.width);
    for (let i = 0; i < this.width; i++)
      q[i] = mixed({ [place[0]]: this.rows[place[0] * this.width + i], [place[1]]: this.rows[place[1] * this.width + i] }, place);
    return q;
  }

  seek(t) {
    this.t = Math.min(Math.max(t, this.first), this.last);
    this.slider.value = this.t;
    this.clock.textContent = `${this.t.toFixed(3)} s`;
    show(this.rowOf(this.t));
    this.point();
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

function begin() {
  document.body.classList.toggle("run", Boolean(page.run || page.kernel));
  if (page.run) {
    const player = new Player(page.run), some = 24;
    const many = Array.from({ length: some + 1 }, (_, k) => {
      const t = player.first + (player.last - player.first) * k / some;
      return Float64Array.from(robots.at(player.rowOf(t)));
    });
    scene.frame(many);
    player.seek(player.first);
    page.player = player;
    player.play(true);
  } else if (page.kernel) {
    page.simulation = new Simulation(page.kernel);
  } else {
    scene.frame([robots.at(robots.q)]);
    show(robots.q);
    jointSliders();
  }
  if (page.turn) scene.turnNearest();
  scene.draw(scene.poses);
  viewButtons();
}

try {
  begin();
} catch (error) {
  trouble(error);
  throw error;
}
window.rigidblocks = { page, robots, scene, show };
