// An orthographic camera: azimuth and elevation, zoom and shift. The same numbers project on the GPU and here.

export class Camera {
  constructor(azimuth = -55, elevation = 22) {
    this.home = [azimuth, elevation];
    this.reset();
  }

  reset() {
    [this.azimuth, this.elevation] = this.home;
    this.zoom = 1;
    this.shift = [0, 0];
  }

  /** Rows to the right, up and towards the viewer; flat scenes are seen from above. */
  rows(flat) {
    if (flat) return [1, 0, 0, 0, 1, 0, 0, 0, 1];
    const a = (this.azimuth * Math.PI) / 180, e = (this.elevation * Math.PI) / 180;
    const right = [-Math.sin(a), Math.cos(a), 0];
    const toward = [Math.cos(e) * Math.cos(a), Math.cos(e) * Math.sin(a), Math.sin(e)];
    const up = [
      toward[1] * right[2] - toward[2] * right[1],
      toward[2] * right[0] - toward[0] * right[2],
      toward[0] * right[1] - toward[1] * right[0],
    ];
    return [...right, ...up, ...toward];
  }

  turn(dx, dy) {
    this.azimuth -= dx;
    this.elevation = Math.min(89, Math.max(-89, this.elevation + dy));
  }

  scale(factor) {
    this.zoom = Math.min(40, Math.max(0.3, this.zoom * factor));
  }
}

/** A point through rows of a camera. */
export function seen(rows, p) {
  return [0, 3, 6].map((k) => rows[k] * p[0] + rows[k + 1] * p[1] + rows[k + 2] * p[2]);
}

/** The point whose camera coordinates are given: the rows are orthonormal. */
export function unseen(rows, q) {
  return [0, 1, 2].map((k) => rows[k] * q[0] + rows[3 + k] * q[1] + rows[6 + k] * q[2]);
}
