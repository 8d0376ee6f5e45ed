// Mouse pull: a spring and a damper between a point of a body and the mouse pointer.

const DAMPING = 0.05; // damping divided by stiffness [s]

class Pull {
  /** `pulls` contains, for each robot, the memory index of the wrenches and the stiffness of the spring. */
  constructor(pulls, memory) {
    Object.assign(this, { pulls, memory, held: null });
    scene.grab = (event) => this.begin(event);
    window.addEventListener("pointermove", (event) => {
      if (this.held) this.held.to = scene.pointAt(event.clientX, event.clientY, this.held.to);
    });
    for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, () => this.end());
    this.rod = { kind: "rod", body: -1, other: -1, size: [0.015 * scene.radius], colour: [0.82, 0.29, 0.36], layer: "links" };
    this.rod.mesh = scene.upload(cornersOf(this.rod));
  }

  begin(event) {
    if (event.button !== 0 || event.shiftKey) return false;
    const solid = scene.solidAt(event.clientX, event.clientY);
    if (!solid || solid.body < 0) return false;
    const robot = robots.parts.findIndex(({ robot: { bodies }, body }) => solid.body >= body && solid.body < body + bodies.length);
    if (!this.pulls[robot]) return false;
    const M = scene.whereIs(solid, scene.poses), to = scene.pointAt(event.clientX, event.clientY, M.slice(12, 15));
    this.hold(robot, solid.body, to);
    return true;
  }

  /** Attach the spring to the point of a body that is currently at `to`. */
  hold(robot, body, to) {
    const X = robots.poses.subarray(12 * body, 12 * body + 12), d = sub(to, [...X.slice(9)]);
    const local = [0, 1, 2].map((k) => X[k] * d[0] + X[3 + k] * d[1] + X[6 + k] * d[2]);
    this.held = { robot, body, local, to, at: to };
    scene.solids.push(Object.assign(this.rod, { from: to, to }));
  }

  end() {
    if (!this.held) return;
    this.write([0, 0, 0], [0, 0, 0]);
    this.held = null;
    scene.solids = scene.solids.filter((solid) => solid !== this.rod);
  }

  /** Compute and write the wrench on the pulled body; `h` [s] is the time since the previous call. */
  act(h, poses) {
    const { body, local, to, at, robot } = this.held, k = this.pulls[robot].stiffness;
    const p = placed(poses.subarray(12 * body, 12 * body + 12), local);
    const f = sub(scaled(sub(to, p), k), scaled(sub(p, at), k * DAMPING / h));
    this.held.at = p;
    this.write(f, cross(p, f));
    Object.assign(this.rod, { from: p, to });
  }

  /** Write the force f and the moment n about the origin of the base to the memory of the kernel. */
  write(f, n) {
    const { place, first, planar } = this.pulls[this.held.robot];
    const body = this.held.body - robots.parts[this.held.robot].body + first;
    if (planar) this.memory().set([n[2], f[0], f[1]], place + 3 * body);
    else this.memory().set([...n, ...f], place + 6 * body);
  }
}
