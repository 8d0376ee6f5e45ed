// Scene: solids with light, shadows on a ground with a grid, and a camera that the mouse rotates.

const GROUND = [0.93, 0.945, 0.955], SKY = [0.80, 0.87, 0.93], FIELD_OF_VIEW = 0.62;
// fraction of the picture that the solids fill; largest downward rotation of the camera [rad]
const FILLED = 0.94, LOWER = 0.17;
const DEEP = 0.8; // minimum camera distance relative to the depth of the scene, which limits perspective distortion

const VERTEX = `#version 300 es
in vec3 position; in vec3 normal;
uniform mat4 model, view;
out vec3 n; out vec3 p;
void main() {
  vec4 world = model * vec4(position, 1.0);
  p = world.xyz / world.w; n = mat3(model) * normal;
  gl_Position = view * world;
}`;
const FRAGMENT = `#version 300 es
precision highp float;
in vec3 n; in vec3 p;
uniform vec3 colour, light, eye, up, ground, sky, middle;
uniform float cell, reach, opacity;
uniform int kind; // 0: solid, 1: ground, 2: shadow on the ground, 3: uniform colour without light
out vec4 result;
float line(vec2 x, float width) {
  vec2 d = abs(fract(x - 0.5) - 0.5), w = fwidth(x);
  vec2 on = 1.0 - smoothstep(width * w, (width + 1.0) * w, d);
  return max(on.x, on.y) * (1.0 - smoothstep(0.15, 0.5, max(w.x, w.y)));
}
void main() {
  if (kind == 3) { result = vec4(colour, 1.0); return; }
  if (kind == 0) {
    vec3 normal = normalize(n), toEye = normalize(eye - p);
    if (dot(normal, toEye) < 0.0) normal = -normal;
    float diffuse = max(dot(normal, -light), 0.0);
    float shine = pow(max(dot(normal, normalize(toEye - light)), 0.0), 40.0);
    float above = 0.5 + 0.5 * dot(normal, up);
    result = vec4(colour * (mix(0.48, 0.66, above) + 0.48 * diffuse) + 0.15 * shine, opacity);
    return;
  }
  vec3 across = abs(up.x) < 0.7 ? vec3(1, 0, 0) : vec3(0, 1, 0);
  across = normalize(across - dot(across, up) * up);
  vec2 x = vec2(dot(p, across), dot(p, cross(up, across))) / cell;
  vec3 tint = mix(ground, ground * 0.86, line(x, 0.0));
  tint = mix(tint, ground * 0.72, line(x / 5.0, 0.4));
  if (kind == 2) tint *= 0.80;
  result = vec4(mix(tint, sky, smoothstep(0.35, 1.0, length(p - middle) / reach)), 1.0);
}`;

class Scene {
  constructor(canvas, description) {
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: true, preserveDrawingBuffer: true });
    if (!gl) throw new Error("this browser has no WebGL 2, which the drawing needs");
    Object.assign(this, { canvas, gl, up: unit(description.up), eye: unit(description.eye) });
    this.lightUp();
    this.program = this.makeProgram();
    this.uniforms = {};
    for (const name of ["model", "view", "colour", "light", "eye", "up", "ground", "sky", "middle", "cell", "reach", "kind", "opacity"])
      this.uniforms[name] = gl.getUniformLocation(this.program, name);
    this.solids = description.solids.map((solid) => ({ ...solid, mesh: this.upload(cornersOf(solid)) }));
    this.layers = new Set(["links"]);
    this.goes = false; // true if the camera follows the robot (function `guide`)
    gl.enable(gl.DEPTH_TEST);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    this.listen();
  }

  makeProgram() {
    const { gl } = this, program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(program, shader);
    }
    gl.bindAttribLocation(program, 0, "position");
    gl.bindAttribLocation(program, 1, "normal");
    gl.linkProgram(program);
    gl.useProgram(program);
    return program;
  }

  upload(corners) {
    const { gl } = this, array = gl.createVertexArray(), buffer = gl.createBuffer();
    gl.bindVertexArray(array);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(corners), gl.STATIC_DRAW);
    for (const k of [0, 1]) {
      gl.enableVertexAttribArray(k);
      gl.vertexAttribPointer(k, 3, gl.FLOAT, false, 24, 12 * k);
    }
    return { array, buffer, count: corners.length / 6, box: boxAround(corners) };
  }

  /** Replace the corners of a mesh. */
  reload(mesh, corners) {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, mesh.buffer);
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(corners), gl.DYNAMIC_DRAW);
    mesh.count = corners.length / 6;
  }

  /** Return the model matrix of a solid for the body poses, which includes the length of a rod or arrow. */
  whereIs(solid, poses) {
    const pose = (body) => body < 0 ? IDENTITY : poses.subarray(12 * body, 12 * body + 12);
    if (solid.kind !== "rod" && solid.kind !== "arrow") return matrixOf(chained(pose(solid.body), solid.pose));
    const a = placed(pose(solid.body), solid.from), b = placed(pose(solid.other), solid.to);
    const M = matrixOf(between(a, b)), long = Math.max(length(sub(b, a)), 1e-9);
    // the thickness of an arrow is proportional to its length, within limits
    const thick = solid.kind === "arrow" ? Math.min(Math.max(long, 0.15 * this.radius), 0.5 * this.radius) : 1;
    for (let k = 0; k < 8; k++) M[k] *= thick;
    for (let k = 8; k < 11; k++) M[k] *= long;
    return M;
  }

  /** Return the corners of the bounding boxes of the solids; omit the solids with `aside` unless `all` is true. */
  cornersAt(poses, all = false) {
    return this.solids.filter(({ layer, aside }) => layer === "links" && (all || !aside)).flatMap((solid) => {
      const M = this.whereIs(solid, poses);
      return solid.mesh.box.map((c) => [0, 1, 2].map((i) => M[i] * c[0] + M[4 + i] * c[1] + M[8 + i] * c[2] + M[12 + i]));
    });
  }

  /** Place the camera so that the solids are visible for each of the given body poses. */
  frame(many) {
    this.shots = many.map((poses) => this.cornersAt(poses));
    this.ways = Array.from({ length: many[0].length / 12 }, (_, k) =>
      length(sub(...ends(many.map((poses) => poses.subarray(12 * k + 9, 12 * k + 12))))));
    const corners = this.corners = this.shots.flat(), [low, high] = ends(corners);
    this.radius = Math.max(length(sub(high, low)) / 2, 1e-3);
    this.middle = scaled(add(low, high), 0.5);
    const aside = many.slice(0, 1).flatMap((poses) => this.cornersAt(poses, true));
    this.lowest = [...corners, ...aside].reduce((least, p) => Math.min(least, dot(p, this.up)), Infinity);
    this.size();
    this.fit();
  }

  /** Rotate the camera about the vertical and downward, within limits, so that the solids appear largest. */
  turnNearest(step = Math.PI / 12, most = 4) {
    const eye = this.eye, some = [this.shots[0], this.shots[this.shots.length >> 1], this.shots.at(-1)].flat();
    let largest = 0, found = eye;
    for (const down of [0, LOWER])
      for (let k = -most; k <= most; k++) {
        this.eye = eye;
        this.turn(k * step, -down);
        this.fit();
        const size = this.sizeOf(some);
        if (size > 1.02 * largest) [largest, found] = [size, this.eye];
      }
    this.eye = found;
    this.fit();
    this.lightUp();
  }

  /** Return a measure of the picture area of boxes; `corners` contains eight corners for each box. */
  sizeOf(corners) {
    let size = 0;
    for (let k = 0; k < corners.length; k += 8) {
      const [a, b] = [corners[k], corners[k + 7]], ab = sub(a, b), from = sub(this.camera(), scaled(add(a, b), 0.5));
      size += dot(ab, ab) / dot(from, this.eye) ** 2;
    }
    return size;
  }

  /** Place the light above the scene and to one side of the camera. */
  lightUp() {
    const aside = unit(cross(this.up, this.eye));
    this.light = unit(add(add(scaled(this.up, -1), scaled(this.eye, -0.6)), scaled(aside, 0.45)));
  }

  /** Return the target and the distance of the camera for which the corners fill the picture. */
  placeFor(corners) {
    const { width, height } = this.canvas, x = unit(cross(this.up, this.eye)), y = cross(this.eye, x);
    const tall = FILLED * Math.tan(FIELD_OF_VIEW / 2), wide = tall * width / Math.max(height, 1);
    const middle = middleOf(corners);
    let [right, left, top, bottom, near, far] = new Array(6).fill(-Infinity);
    for (const p of corners) {
      const d = sub(p, middle), a = dot(d, x), b = dot(d, y), c = dot(d, this.eye);
      right = Math.max(right, a + wide * c);
      left = Math.max(left, wide * c - a);
      top = Math.max(top, b + tall * c);
      bottom = Math.max(bottom, tall * c - b);
      near = Math.max(near, c);
      far = Math.max(far, -c);
    }
    const target = add(middle, add(scaled(x, (right - left) / 2), scaled(y, (top - bottom) / 2)));
    const enough = near + DEEP * (near + far) + 0.01 * this.radius;
    const distance = Math.max((right + left) / (2 * wide), (top + bottom) / (2 * tall), enough);
    return { target, distance };
  }

  /** Place the camera so that the solids fill the picture. */
  fit() { Object.assign(this, this.placeFor(this.corners)); }

  /** Return true if every body travels more than half of the size of the robot, unlike the bodies of a fixed arm. */
  get roams() {
    const wide = this.shots.map((corners) => length(sub(...ends(corners)))).sort((a, b) => a - b)[this.shots.length >> 1];
    return this.ways.every((way) => way > wide / 2);
  }

  /** Place the following camera at the fraction `part` of the run. Points that are visible from two camera positions
   * are also visible from all positions between these positions. */
  goAlong(part) {
    const last = this.shots.length - 1, at = part * last, k = Math.min(Math.floor(at), Math.max(last - 1, 0));
    const near = (j) => this.shots.slice(Math.max(j - 1, 0), j + 2).flat();
    const [a, b] = [this.placeFor(near(k)), this.placeFor(near(k + 1))], s = at - k;
    this.distance = a.distance + (b.distance - a.distance) * s;
    this.target = add(scaled(a.target, 1 - s), scaled(b.target, s));
  }

  /** Move the camera by the fraction `part` towards the position from which all solids at `poses` are visible. */
  goAfter(poses, part = 0.1) {
    this.corners = this.cornersAt(poses);
    this.middle = middleOf(this.corners);
    const { target, distance } = this.placeFor(this.corners);
    this.distance += (distance - this.distance) * part;
    this.target = add(scaled(this.target, 1 - part), scaled(target, part));
  }

  camera() { return add(this.target, scaled(this.eye, this.distance)); }

  viewMatrix() {
    const { width, height } = this.canvas, far = this.distance + 40 * this.radius;
    const lens = perspective(FIELD_OF_VIEW, width / height, this.distance / 200, far);
    return product(lens, lookingAt(this.camera(), this.target, this.up));
  }

  /** Adapt the resolution of the canvas to its size on the page; return true if it changed. */
  size() {
    const { canvas } = this, ratio = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
    if (canvas.width === width && canvas.height === height) return false;
    Object.assign(canvas, { width, height });
    return true;
  }

  draw(poses) {
    this.poses = poses;
    const { gl, canvas, uniforms: at, up } = this;
    if (this.size()) this.fit();
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(...SKY, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const light = this.light;
    gl.uniformMatrix4fv(at.view, false, this.viewMatrix());
    for (const [name, value] of Object.entries({ light, up, eye: this.camera(), ground: GROUND, sky: SKY, middle: this.middle }))
      gl.uniform3fv(at[name], value);
    gl.uniform1f(at.cell, 10 ** Math.round(Math.log10(this.radius / 4)));
    gl.uniform1f(at.reach, 14 * this.radius);
    const shown = this.solids.filter((solid) => !solid.hidden && this.layers.has(solid.layer || "links"));
    const places = shown.map((solid) => this.whereIs(solid, poses));
    const height0 = this.ground(), under = dot(this.camera(), up) < height0;
    if (!under) this.drawGround(height0, light, shown, places);
    gl.uniform1i(at.kind, 0);
    for (const through of [false, true]) { // draw translucent solids last, without writing the depth
      gl.depthMask(!through);
      (through ? gl.enable : gl.disable).call(gl, gl.BLEND);
      shown.forEach((solid, k) => {
        if ((solid.opacity < 1) !== through) return;
        gl.uniform3fv(at.colour, solid.colour);
        gl.uniform1f(at.opacity, solid.opacity ?? 1);
        this.drawMesh(solid.mesh, places[k]);
      });
    }
    gl.depthMask(true);
    gl.disable(gl.BLEND);
  }

  /** Return the height of the ground: the contact plane, or slightly below the lowest solid. */
  ground() { return this.height ?? this.lowest - 0.02 * this.radius; }

  drawGround(height, light, shown, places) {
    const { gl, uniforms: at, up } = this, middle = add(this.middle, scaled(up, height - dot(this.middle, up)));
    this.plane ??= this.upload([[-1, -1], [1, -1], [-1, 1], [-1, 1], [1, -1], [1, 1]].flatMap(([x, y]) => [x, y, 0, 0, 0, 1]));
    const x = perpendicular(up), y = cross(up, x), s = 16 * this.radius;
    gl.uniform1i(at.kind, 1);
    gl.depthMask(false);
    this.drawMesh(this.plane, [...scaled(x, s), 0, ...scaled(y, s), 0, ...up, 0, ...middle, 1]);
    gl.uniform1i(at.kind, 2);
    gl.disable(gl.DEPTH_TEST);
    const onto = shadowOn(up, height, light);
    shown.forEach((solid, k) => { if (!(solid.opacity < 1)) this.drawMesh(solid.mesh, product(onto, places[k])); });
    gl.enable(gl.DEPTH_TEST);
    gl.depthMask(true);
  }

  drawMesh(mesh, model) {
    const { gl, uniforms: at } = this;
    gl.uniformMatrix4fv(at.model, false, model);
    gl.bindVertexArray(mesh.array);
    gl.drawArrays(gl.TRIANGLES, 0, mesh.count);
  }

  /** Return the solid at a window position, or undefined. */
  solidAt(clientX, clientY) {
    const { gl, canvas, uniforms: at } = this, box = canvas.getBoundingClientRect(), pixel = new Uint8Array(4);
    const shown = this.solids.filter((solid) => this.layers.has(solid.layer || "links"));
    gl.clearColor(0, 0, 0, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniform1i(at.kind, 3);
    shown.forEach((solid, k) => {
      gl.uniform3f(at.colour, ((k + 1) >> 8) / 255, ((k + 1) & 255) / 255, 0);
      this.drawMesh(solid.mesh, this.whereIs(solid, this.poses));
    });
    const x = (clientX - box.left) / box.width * canvas.width, y = (box.bottom - clientY) / box.height * canvas.height;
    gl.readPixels(Math.floor(x), Math.floor(y), 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
    this.draw(this.poses);
    return shown[256 * pixel[0] + pixel[1] - 1];
  }

  /** Return the point at a window position in the plane through p that is perpendicular to the view direction. */
  pointAt(clientX, clientY, p) {
    const box = this.canvas.getBoundingClientRect(), x = unit(cross(this.up, this.eye)), y = cross(this.eye, x);
    const tall = Math.tan(FIELD_OF_VIEW / 2), wide = tall * this.canvas.width / this.canvas.height;
    const right = (2 * (clientX - box.left) / box.width - 1) * wide, upward = (1 - 2 * (clientY - box.top) / box.height) * tall;
    const ray = add(add(scaled(x, right), scaled(y, upward)), scaled(this.eye, -1));
    return add(this.camera(), scaled(ray, dot(sub(this.camera(), p), this.eye)));
  }

  turn(right, upward) {
    const side = unit(cross(this.up, this.eye)), elevation = Math.asin(dot(this.eye, this.up));
    const to = Math.min(Math.max(elevation + upward, -1.5), 1.5);
    const flat = unit(sub(this.eye, scaled(this.up, dot(this.eye, this.up))));
    const ahead = add(scaled(flat, Math.cos(right)), scaled(side, Math.sin(right)));
    this.eye = add(scaled(ahead, Math.cos(to)), scaled(this.up, Math.sin(to)));
  }

  /** Multiply the distance of the camera by a factor. */
  zoom(factor) {
    if (this.goes) this.go(false);
    this.distance *= factor;
    this.isMoved = true;
  }

  move(right, upward) {
    const x = unit(cross(this.up, this.eye)), y = cross(this.eye, x);
    const scale = 2 * this.distance * Math.tan(FIELD_OF_VIEW / 2) / this.canvas.clientHeight;
    this.target = add(this.target, add(scaled(x, -right * scale), scaled(y, upward * scale)));
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      if (this.grab && this.grab(event)) return;
      canvas.setPointerCapture(event.pointerId);
      this.held = event;
      this.isMoved = true;
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.held) return;
      const [x, y] = [event.clientX - this.held.clientX, event.clientY - this.held.clientY];
      if (event.shiftKey || event.buttons & 6) {
        if (this.goes) this.go(false);
        this.move(x, y);
      }
      else this.turn(-0.008 * x, 0.008 * y);
      this.held = event;
      this.draw(this.poses);
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { this.held = null; });
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("wheel", (event) => {
      this.zoom(Math.exp(0.001 * event.deltaY));
      this.draw(this.poses);
      event.preventDefault();
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const turn = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
      const zoom = { "+": 0.9, "=": 0.9, "-": 1 / 0.9 }[event.key];
      if (event.ctrlKey || event.metaKey || event.altKey || !(turn || zoom)) return;
      if (turn) this.turn(...turn);
      else this.zoom(zoom);
      this.isMoved = true;
      this.draw(this.poses);
      event.preventDefault();
    });
    new ResizeObserver(() => this.poses && this.draw(this.poses)).observe(canvas);
  }
}

const middleOf = (points) => scaled(points.reduce(add, [0, 0, 0]), 1 / Math.max(points.length, 1));

const IDENTITY = new Float64Array([1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);

/** Return the minimum and maximum coordinates of points. */
function ends(points) {
  const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
  for (const p of points)
    for (let i = 0; i < 3; i++) {
      low[i] = Math.min(low[i], p[i]);
      high[i] = Math.max(high[i], p[i]);
    }
  return [low, high];
}

function boxAround(corners) {
  const [low, high] = ends(Array.from({ length: corners.length / 6 }, (_, k) => corners.slice(6 * k, 6 * k + 3)));
  return [0, 1, 2, 3, 4, 5, 6, 7].map((k) => [0, 1, 2].map((i) => (k >> i) & 1 ? high[i] : low[i]));
}
