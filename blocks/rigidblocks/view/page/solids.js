// Surfaces as triangles; each corner has six numbers, position and normal.

/** Return the surface of revolution about z of a profile [[radius, z, radial normal, axial normal], ...]. */
function turnedProfile(profile, sides = 28) {
  const corners = [];
  const corner = ([r, z, nr, nz], k) => {
    const c = Math.cos(2 * Math.PI * k / sides), s = Math.sin(2 * Math.PI * k / sides);
    corners.push(r * c, r * s, z, nr * c, nr * s, nz);
  };
  for (let i = 0; i + 1 < profile.length; i++)
    for (let k = 0; k < sides; k++) {
      const [a, b] = [profile[i], profile[i + 1]];
      corner(a, k); corner(a, k + 1); corner(b, k);
      corner(b, k); corner(a, k + 1); corner(b, k + 1);
    }
  return corners;
}

/** Return the profile of a capsule: two quarter circles, separated by `height` along z. */
function capsuleProfile(radius, height, steps = 8) {
  const profile = [];
  for (const end of [-1, 1])
    for (let i = 0; i <= steps; i++) {
      const a = (end - 1) * Math.PI / 4 + i * Math.PI / 2 / steps;
      profile.push([radius * Math.cos(a), radius * Math.sin(a) + end * height / 2, Math.cos(a), Math.sin(a)]);
    }
  return profile;
}

function cylinderProfile(r, height) {
  const h = height / 2;
  return [[0, -h, 0, -1], [r, -h, 0, -1], [r, -h, 1, 0], [r, h, 1, 0], [r, h, 0, 1], [0, h, 0, 1]];
}

function boxCorners(sides) {
  const corners = [];
  for (let axis = 0; axis < 3; axis++)
    for (const end of [-1, 1])
      for (const [u, v] of [[-1, -1], [1, -1], [-1, 1], [-1, 1], [1, -1], [1, 1]]) {
        const p = [0, 0, 0], n = [0, 0, 0];
        p[axis] = end * sides[axis] / 2;
        p[(axis + 1) % 3] = u * end * sides[(axis + 1) % 3] / 2;
        p[(axis + 2) % 3] = v * sides[(axis + 2) % 3] / 2;
        n[axis] = end;
        corners.push(...p, ...n);
      }
  return corners;
}

/** Return the triangles of a mesh of points [x, y, z, ...], with smooth normals except at edges above about 45 degrees. */
function meshCorners(points) {
  const corners = [], normals = [], around = new Map(), key = (k) => points.subarray(k, k + 3).join();
  for (let k = 0; k < points.length; k += 9) {
    const [a, b, c] = [0, 3, 6].map((j) => [...points.subarray(k + j, k + j + 3)]);
    const n = cross(sub(b, a), sub(c, a)); // normal whose length is proportional to the area
    normals.push(n);
    for (const j of [0, 3, 6]) around.set(key(k + j), add(around.get(key(k + j)) ?? [0, 0, 0], n));
  }
  normals.forEach((normal, i) => {
    const own = unit(normal);
    for (const j of [0, 3, 6]) {
      const smooth = unit(around.get(key(9 * i + j)));
      corners.push(...points.subarray(9 * i + j, 9 * i + j + 3), ...(dot(smooth, own) > 0.7 ? smooth : own));
    }
  });
  return corners;
}

/** Return the triangles of an ellipsoid from the triangles of the unit sphere. */
function stretched(corners, size) {
  const found = [];
  for (let k = 0; k < corners.length; k += 6)
    found.push(...[0, 1, 2].map((i) => corners[k + i] * size[i]), ...unit([0, 1, 2].map((i) => corners[k + 3 + i] / size[i])));
  return found;
}

/** Profile of an arrow of unit length along z, centred at the origin; the length of the head is 0.22. */
const ARROW = [[0, -0.5, 0, -1], [0.028, -0.5, 1, 0], [0.028, 0.28, 1, 0], [0.075, 0.28, 0, -1], [0.075, 0.28, 0.94, 0.34], [0, 0.5, 0.94, 0.34]];

function cornersOf(solid) {
  switch (solid.kind) {
    case "box": return boxCorners(solid.size);
    case "sphere": return turnedProfile(capsuleProfile(solid.size[0], 0));
    case "ellipsoid": return stretched(turnedProfile(capsuleProfile(1, 0)), solid.size);
    case "arrow": return turnedProfile(ARROW, 16);
    case "capsule": return turnedProfile(capsuleProfile(...solid.size));
    case "cylinder": return turnedProfile(cylinderProfile(...solid.size));
    case "mesh": return meshCorners(floats(solid.points));
    default: return turnedProfile(cylinderProfile(solid.size[0], 1)); // a rod of unit length
  }
}
