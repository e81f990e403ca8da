// What lies behind the tokens: lines (a, b, colour) in scene coordinates, ten numbers each.

import { rgb } from "./palette.js";

function polyline(points, colour, alpha, out) {
  for (let k = 1; k < points.length; k++) out.push(...points[k - 1], ...points[k], ...colour, alpha);
}

function ring(at, colour, alpha, out, count = 64) {
  polyline(Array.from({ length: count + 1 }, (_, k) => at((2 * Math.PI * k) / count)), colour, alpha, out);
}

function sphere(theme, out) {
  const line = rgb(theme.soft);
  for (let k = 0; k < 6; k++) {
    const lon = (Math.PI * k) / 6;
    ring((s) => [Math.cos(lon) * Math.cos(s), Math.sin(lon) * Math.cos(s), Math.sin(s)], line, 0.3, out);
  }
  for (const lat of [-60, -30, 0, 30, 60]) {
    const c = Math.cos((lat * Math.PI) / 180), z = Math.sin((lat * Math.PI) / 180);
    ring((s) => [c * Math.cos(s), c * Math.sin(s), z], line, lat === 0 ? 0.55 : 0.3, out);
  }
}

function circle(theme, out) {
  ring((s) => [Math.cos(s), Math.sin(s), 0], rgb(theme.soft), 0.9, out, 180);
  for (const [x, y] of [[1, 0], [0, 1], [-1, 0], [0, -1]]) {
    out.push(0.96 * x, 0.96 * y, 0, 1.04 * x, 1.04 * y, 0, ...rgb(theme.ink), 0.8);
  }
}

function frame(theme, flat, out) {
  const line = rgb(theme.soft), e = 1.06;
  if (flat) {
    polyline([[-e, -e, 0], [e, -e, 0], [e, e, 0], [-e, e, 0], [-e, -e, 0]], line, 0.7, out);
    return;
  }
  for (const s of [-e, e]) for (const r of [-e, e]) {
    out.push(-e, s, r, e, s, r, ...line, 0.4, s, -e, r, s, e, r, ...line, 0.4, s, r, -e, s, r, e, ...line, 0.4);
  }
}

/** Lines in the tokens' own coordinates (`moving`), and lines that stay with the frame of the picture (`fixed`). */
export function backdrop(run, theme) {
  const moving = [], fixed = [];
  const flat = run.flat;
  if (run.kind === "sphere") sphere(theme, moving);
  else if (run.kind === "circle") circle(theme, moving);
  else if (run.kind === "ball") {
    ring((s) => [Math.cos(s), Math.sin(s), 0], rgb(theme.soft), 0.6, moving);
    ring((s) => [Math.cos(s), 0, Math.sin(s)], rgb(theme.soft), 0.3, moving);
    ring((s) => [0, Math.cos(s), Math.sin(s)], rgb(theme.soft), 0.3, moving);
  } else {
    frame(theme, flat, fixed);
    const [x, y, z] = run.origin, far = flat ? 1e3 : 0.08;
    const line = [...rgb(flat ? theme.faint : theme.soft), 1];
    moving.push(x - far, y, z, x + far, y, z, ...line);
    if (run.kind !== "line") moving.push(x, y - far, z, x, y + far, z, ...line);
    if (!flat) moving.push(x, y, z - far, x, y, z + far, ...line);
  }
  return { moving: new Float32Array(moving), fixed: new Float32Array(fixed) };
}

/** The predicted limit set: segments (m, 6) of a run as lines. */
export function limitLines(segments, theme) {
  const out = [], colour = rgb(theme.limit);
  for (let k = 0; k + 5 < segments.length; k += 6) out.push(...segments.subarray(k, k + 6), ...colour, 0.95);
  return new Float32Array(out);
}
