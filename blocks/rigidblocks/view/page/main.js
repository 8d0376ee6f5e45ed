// Main program of the page: a robot with sliders, playback or live view of a run, or a simulation.

const page = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
function floats(text) { return new Float32Array(bytes(text).buffer); }

const trouble = (error) => { at("trouble").hidden = false; at("trouble").textContent = error.message ?? error; };
window.addEventListener("error", (event) => trouble(event.error ?? event.message));

class Robots {
  /** Concatenate the variables and the bodies of all robots of the page. */
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

  /** Solids of all robots, with the indices of the concatenated bodies. */
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

const over = { forces: new Forces(), paths: new Paths(page.paths) };

/** Draw the robots at q; `forces` contains the contact forces on each robot or null. */
function show(q, forces = []) {
  robots.q.set(q);
  const poses = robots.at(robots.q);
  over.forces.show(poses, forces);
  if (scene.goes) scene.guide(poses);
  scene.draw(poses);
}

function viewButtons() {
  const [home, up] = [scene.eye, scene.up], side = perpendicular(up);
  const named = { home, front: add(side, scaled(up, 0.01)), side: add(cross(up, side), scaled(up, 0.01)), top: add(up, scaled(side, 0.01)) };
  for (const [name, eye] of Object.entries(named))
    at("views").append(node("button", { type: "button", onclick: () => {
      scene.eye = unit(eye);
      if (scene.goes) scene.guide(scene.poses, 1);
      else scene.frame([Float64Array.from(scene.poses)]);
      scene.draw(scene.poses);
    } }, name));
  if (scene.guide) alongButton();
  const hasRun = Boolean(page.run || page.kernel || page.live);
  const isThere = { "contact forces": hasRun && (page.run ?? page.kernel ?? page.live).forces?.some(Boolean), paths: hasRun };
  const layers = [...new Set(scene.solids.map((solid) => solid.layer ?? "links"))].filter((name) => name !== "links" && (isThere[name] ?? true));
  for (const name of layers) {
    const button = node("button", { type: "button", "aria-pressed": String(scene.layers.has(name)), onclick: () => {
      if (!scene.layers.delete(name)) scene.layers.add(name);
      button.setAttribute("aria-pressed", scene.layers.has(name));
      over.paths.make();
      scene.draw(scene.poses);
    } }, name);
    at("layers").append(button);
    if (name === "paths") at("layers").append(framePaths(button));
  }
}

/** Add the button that makes the camera follow the robot; moving the camera by hand releases the button. */
function alongButton() {
  const button = node("button", { type: "button", onclick: () => scene.go(!scene.goes) }, "go along");
  scene.go = (on) => {
    scene.goes = on;
    button.setAttribute("aria-pressed", on);
    if (on) scene.guide(scene.poses, 1);
    scene.draw(scene.poses);
  };
  scene.go(scene.goes);
  at("views").append(button);
}

/** Return a list of frames; selecting a frame draws or removes the path of this frame. */
function framePaths(button) {
  const { frames } = over.paths, text = ({ name, robot }) => robots.parts.length > 1 ? `${robot}: ${name}` : name;
  const options = frames.map((one, k) => node("option", { value: k }, text(one)));
  const list = node("select", { "aria-label": "path of", onchange: () => {
    const one = frames[list.value];
    over.paths.follow(one);
    options[list.value].textContent = (over.paths.tips.includes(one) ? "\u2713 " : "") + text(one);
    list.value = "";
    page.player?.trace();
    if (!scene.layers.has("paths")) button.click();
    over.paths.make();
    scene.draw(scene.poses);
  } }, node("option", { value: "" }, "path of …"), ...options);
  return list;
}

/** Add the joint sliders; the loops remain closed when a slider moves. */
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
        showConfiguration();
      });
      sliders.push([slider, variable + one.q]);
      at("sliders").append(slider.label);
    }
    const showConfiguration = () => {
      for (const [slider, k] of sliders) slider.show(robots.q[k]);
      const open = Math.sqrt(closure.misfit(robots.q.slice(variable, variable + robot.q.length)));
      if (robot.constraints) at("note").textContent = `loops closed to ${open.toExponential(1)}`;
      page.open = open;
    };
    showConfiguration();
  }
}

function begin() {
  document.body.classList.toggle("run", Boolean(page.run || page.kernel || page.live));
  if (page.run) {
    const player = new Player(page.run), some = 72;
    const many = Array.from({ length: some + 1 }, (_, k) => {
      const t = player.first + (player.last - player.first) * k / some;
      return Float64Array.from(robots.at(player.rowOf(t)));
    });
    scene.frame(many);
    scene.goes = scene.roams;
    scene.guide = () => scene.goAlong((player.t - player.first) / (player.last - player.first || 1));
    player.trace();
    player.seek(player.first);
    page.player = player;
    player.play(true);
    if (page.live) untilNextRun(page.live.run);
  } else if (page.kernel) {
    page.simulation = new Simulation(page.kernel);
  } else if (page.live) {
    page.following = new Live(page.live);
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
window.rigidblocks = { page, robots, scene, show, over };
