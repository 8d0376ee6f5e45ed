// Overlays during motion: contact forces and paths.

const PATH = 400, FORCE = [0.85, 0.16, 0.22]; // maximum number of points of a path; colour of forces

/** Arrows of contact forces; the arrow of a force equal to the weight has 0.6 times the size of the scene. */
class Forces {
  constructor() {
    this.arrows = [];
    robots.parts.forEach(({ robot, body }, k) => {
      const places = robot.pressed ? Array(robot.pressed).fill(null) : robot.touching;
      const mesh = places.length ? scene.upload(cornersOf({ kind: "arrow" })) : null;
      for (const place of places) {
        const arrow = { kind: "arrow", layer: "contact forces", colour: FORCE, mesh, from: [0, 0, 0], to: [0, 0, 0], body: -1, other: -1 };
        const on = place && { body: body + place[0], local: place.slice(1) };
        this.arrows.push({ arrow, on, robot: k, weight: robot.weight });
        scene.solids.push(arrow);
      }
    });
  }

  /** Place the arrows for the body poses. `forces` contains [x, y, z, ...] in N for each robot, or null. The
   * application point follows each force that does not act at a contact point. */
  show(poses, forces) {
    const next = robots.parts.map(() => 0);
    for (const { arrow, on, robot, weight } of this.arrows) {
      const own = forces[robot], k = (on ? 3 : 6) * next[robot]++;
      const f = own ? [own[k], own[k + 1], own[k + 2]] : [0, 0, 0];
      if (on) arrow.from = placed(poses.subarray(12 * on.body, 12 * on.body + 12), on.local);
      else if (own) arrow.from = [own[k + 3], own[k + 4], own[k + 5]];
      arrow.to = add(arrow.from, scaled(f, 1.2 * scene.radius / (weight || 1)));
      arrow.hidden = !(length(f) > 1e-6 * weight);
    }
  }
}

/** Paths of the frames `named`, by default of the ends of the last bodies. */
class Paths {
  constructor(named = []) {
    this.frames = robots.parts.flatMap(({ robot, body }) =>
      robot.frames.map(([name, own, ...local]) => ({ name, robot: robot.name, body: body + own, local })));
    const ends = robots.parts.flatMap(({ robot, body }) =>
      robot.tips.map(([own, ...local]) => ({ body: body + own, local })));
    this.tips = [];
    for (const one of named.length ? this.frames.filter(({ name }) => named.includes(name)) : ends) this.follow(one);
    if (named.length) scene.layers.add("paths");
  }

  /** Start drawing the path of a point, or stop if the path is already drawn. */
  follow(one) {
    if (this.tips.includes(one)) {
      this.tips = this.tips.filter((tip) => tip !== one);
      scene.solids = scene.solids.filter((solid) => solid !== one.solid);
      return;
    }
    const of = scene.solids.find((solid) => solid.body === one.body && (solid.layer ?? "links") === "links");
    one.solid ??= { kind: "path", layer: "paths", colour: of?.colour ?? FORCE, body: -1, pose: IDENTITY, mesh: scene.upload([]) };
    one.points = [];
    scene.solids.push(one.solid);
    this.tips.push(one);
  }

  clear() { this.tips.forEach((tip) => { tip.points = []; }); }

  /** Add the points at the body poses to the paths; remove every second point of a path with too many points. */
  add(poses) {
    for (const tip of this.tips) {
      const p = placed(poses.subarray(12 * tip.body, 12 * tip.body + 12), tip.local), last = tip.points[tip.points.length - 1];
      if (last && length(sub(p, last)) < 0.01 * scene.radius) continue;
      tip.points.push(p);
      if (tip.points.length > PATH) tip.points = tip.points.filter((_, k) => k % 2 === 0);
    }
    if (scene.layers.has("paths")) this.make();
  }

  /** Create the surfaces of the paths, which are tubes with four sides. */
  make() {
    this.tips.forEach(({ points, solid: { mesh } }) => {
      const thick = 0.008 * scene.radius, corners = [];
      for (let i = 0; i + 1 < points.length; i++) {
        const z = unit(sub(points[i + 1], points[i])), x = perpendicular(z), y = cross(z, x);
        const around = [x, y, scaled(x, -1), scaled(y, -1), x];
        for (let j = 0; j < 4; j++)
          for (const [end, side] of [[0, j], [0, j + 1], [1, j], [1, j], [0, j + 1], [1, j + 1]])
            corners.push(...add(points[i + end], scaled(around[side], thick)), ...around[side]);
      }
      scene.reload(mesh, corners);
    });
  }
}
