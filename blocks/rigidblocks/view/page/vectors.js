// Vectors as arrays of 3 numbers, and 4 by 4 matrices by columns, as in WebGL.

const add = (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
const sub = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const scaled = (a, s) => [a[0] * s, a[1] * s, a[2] * s];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const length = (a) => Math.hypot(a[0], a[1], a[2]);
const unit = (a) => scaled(a, 1 / (length(a) || 1));

/** Return a unit vector perpendicular to a unit vector. */
const perpendicular = (a) => unit(cross(a, Math.abs(a[0]) < 0.7 ? [1, 0, 0] : [0, 1, 0]));

/** Rotate a vector by a pose; a pose has 12 numbers, the rotation to the base by rows, then the position. */
const turned = (X, v) => [0, 3, 6].map((k) => X[k] * v[0] + X[k + 1] * v[1] + X[k + 2] * v[2]);
const placed = (X, v) => add(turned(X, v), [X[9], X[10], X[11]]);

/** Return the product of the poses X and Y; Y is relative to X. */
function chained(X, Y) {
  const R = [];
  for (let i = 0; i < 3; i++)
    for (let j = 0; j < 3; j++)
      R.push(X[3 * i] * Y[j] + X[3 * i + 1] * Y[3 + j] + X[3 * i + 2] * Y[6 + j]);
  return [...R, ...placed(X, Y.slice(9))];
}

/** Return the pose at the centre between the points a and b, with the z axis from a to b. */
function between(a, b) {
  const z = unit(sub(b, a)), x = perpendicular(z), y = cross(z, x);
  return [x[0], y[0], z[0], x[1], y[1], z[1], x[2], y[2], z[2], ...scaled(add(a, b), 0.5)];
}

const matrixOf = (X) => [X[0], X[3], X[6], 0, X[1], X[4], X[7], 0, X[2], X[5], X[8], 0, X[9], X[10], X[11], 1];

function product(A, B) {
  const C = new Array(16).fill(0);
  for (let j = 0; j < 4; j++)
    for (let i = 0; i < 4; i++)
      for (let k = 0; k < 4; k++) C[4 * j + i] += A[4 * k + i] * B[4 * j + k];
  return C;
}

function perspective(angle, aspect, near, far) {
  const f = 1 / Math.tan(angle / 2);
  return [f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) / (near - far), -1, 0, 0, 2 * far * near / (near - far), 0];
}

function lookingAt(eye, target, up) {
  const z = unit(sub(eye, target)), x = unit(cross(up, z)), y = cross(z, x);
  return [x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0, -dot(x, eye), -dot(y, eye), -dot(z, eye), 1];
}

/** Return the matrix that projects points along `light` onto the plane at `height` with the normal `up`. */
function shadowOn(up, height, light) {
  const d = dot(up, light), M = [];
  for (let j = 0; j < 3; j++)
    for (let i = 0; i < 4; i++) M.push(i === 3 ? 0 : (i === j ? 1 : 0) - light[i] * up[j] / d);
  return [...M, ...scaled(light, height / d), 1];
}
