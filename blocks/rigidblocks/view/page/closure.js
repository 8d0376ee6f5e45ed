// Configurations with closed loops of a mechanism while a slider moves one variable.

// largest closure error of closed loops, and largest change of the slider variable per step [rad or m]
const CLOSED = 1e-11, LONGEST = 0.05;

/** Return the solution x of A x = b; A is symmetric positive definite, n by n by rows, and is overwritten. */
function cholesky(A, b, n) {
  for (let j = 0; j < n; j++) {
    for (let k = 0; k < j; k++)
      for (let i = j; i < n; i++) A[n * i + j] -= A[n * i + k] * A[n * j + k];
    const pivot = Math.sqrt(Math.max(A[n * j + j], 1e-300));
    for (let i = j; i < n; i++) A[n * i + j] /= pivot;
  }
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < i; k++) b[i] -= A[n * i + k] * b[k];
    b[i] /= A[n * i + i];
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let k = i + 1; k < n; k++) b[i] -= A[n * k + i] * b[k];
    b[i] /= A[n * i + i];
  }
  return b;
}

class Closure {
  /** The function `open` writes the m loop closure errors at q, then their Jacobian (m by nq) by rows. */
  constructor(open, m, nq, quaternions) {
    Object.assign(this, { open, m, nq, quaternions, out: new Float64Array(m * (nq + 1)) });
  }

  misfit(q) {
    if (!this.m) return 0;
    this.open(q, this.out);
    let sum = 0;
    for (let k = 0; k < this.m; k++) sum += this.out[k] ** 2;
    return sum;
  }

  /** Return closed-loop q with variable k at `value`, or at the nearest value that the loops permit on this branch. */
  moved(q, k, value) {
    const steps = this.m ? Math.max(1, Math.ceil(Math.abs(value - q[k]) / LONGEST)) : 1, start = q[k];
    for (let s = 1; s <= steps; s++) {
      const guess = Float64Array.from(q);
      guess[k] = start + (value - start) * s / steps;
      const next = this.closed(guess, k);
      if (!next) break;
      q = next;
    }
    return q;
  }

  /** Return a q near `guess` that closes the loops, or null. Variable k changes only if necessary. */
  closed(guess, k) {
    for (const held of [k, -1]) {
      const q = this.solved(guess, held);
      if (q) return q;
      guess = Float64Array.from(guess);
    }
    return null;
  }

  /** Close the loops by Levenberg-Marquardt iterations, as `assemble` in Python; variable `held` does not change. */
  solved(guess, held) {
    const { m, nq, out } = this, free = [...guess.keys()].filter((i) => i !== held), n = free.length;
    let q = this.unit(Float64Array.from(guess)), cost = this.misfit(q), damping = 1e-3;
    for (let trial = 0; trial < 120 && cost > CLOSED ** 2; trial++) {
      this.open(q, out);
      this.alongUnit(q);
      const A = new Float64Array(n * n), b = new Float64Array(n);
      for (let i = 0; i < n; i++) {
        for (let r = 0; r < m; r++) b[i] -= out[m + nq * r + free[i]] * out[r];
        for (let j = 0; j <= i; j++) {
          for (let r = 0; r < m; r++) A[n * i + j] += out[m + nq * r + free[i]] * out[m + nq * r + free[j]];
          A[n * j + i] = A[n * i + j];
        }
        A[n * i + i] += Math.max(damping * cost, 1e-18);
      }
      const step = cholesky(A, b, n), there = Float64Array.from(q);
      free.forEach((i, j) => { there[i] += step[j]; });
      const costThere = this.misfit(this.unit(there));
      if (costThere < cost) {
        q = there; cost = costThere; damping /= 5;
      } else damping *= 10;
      if (damping > 1e14) break;
    }
    return cost <= 1e-20 ? q : null;
  }

  /** Remove the derivatives with respect to the norm of each quaternion from the Jacobian. */
  alongUnit(q) {
    for (const k of this.quaternions)
      for (let row = this.m + k; row < this.out.length; row += this.nq) {
        const slope = this.out.subarray(row, row + 4), own = q.subarray(k, k + 4);
        const s = own.reduce((sum, x, i) => sum + x * slope[i], 0);
        own.forEach((x, i) => { slope[i] -= s * x; });
      }
  }

  unit(q) {
    for (const k of this.quaternions) {
      const size = Math.hypot(q[k], q[k + 1], q[k + 2], q[k + 3]) || 1;
      for (let i = k; i < k + 4; i++) q[i] /= size;
    }
    return q;
  }
}
