// Draws one run with WebGL 2: a static buffer of tokens at all times, a few uniforms per frame.

import { backdrop, limitLines } from "./backdrop.js";
import { Camera, seen } from "./camera.js";
import { paletteTexture, rgb } from "./palette.js";
import { LINES, POINTS, program } from "./shaders.js";

export const ROWS = { cluster: 0, position: 1, attention: 2 };
const IDENTITY = [0, 0, 0, 1];
const CORNERS = 6; // of the two triangles of a line

/** Lines of ten numbers, each as often as it has corners: an instance per line would cost a software renderer a draw. */
function atCorners(lines) {
  const out = new Float32Array(CORNERS * lines.length);
  for (let k = 0; k < lines.length; k += 10) {
    const line = lines.subarray(k, k + 10);
    for (let c = 0; c < CORNERS; c++) out.set(line, CORNERS * k + 10 * c);
  }
  return out;
}

export class Scene {
  constructor(canvas) {
    this.canvas = canvas;
    // points and lines soften their own edges: multisampling would cost a software renderer half a frame, for nothing
    this.gl = canvas.getContext("webgl2", { antialias: false, alpha: true, powerPreference: "low-power" });
    if (!this.gl) throw new Error("This browser has no WebGL 2, which the player draws with.");
    this.camera = new Camera();
    this.look = { colour: "cluster", first: false, trails: 0, fit: false, limit: true, chosen: -1 };
    this.start();
  }

  start() {
    const gl = this.gl;
    this.points = program(gl, POINTS);
    this.lines = program(gl, LINES);
    this.buffers = {};
    for (const name of ["tokens", "cluster", "position", "attention", "moving", "fixed", "limit", "links", "order"]) {
      this.buffers[name] = gl.createBuffer();
    }
    this.texture = gl.createTexture();
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  fill(name, data, usage = this.gl.STATIC_DRAW) {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.buffers[name]);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, data, usage);
  }

  /** Show a run; the camera stays where it was unless the kind of scene changed. */
  load(run) {
    if (!this.run || this.run.kind !== run.kind) {
      this.camera = new Camera(...run.view);
    }
    this.run = run;
    this.fill("tokens", run.tokens);
    this.fill("cluster", run.cluster);
    this.fill("position", Uint8Array.from({ length: run.n }, (_, i) => (run.n > 1 ? (255 * i) / (run.n - 1) : 0)));
    this.fill("attention", run.received || new Uint8Array(run.n));
    this.linkCount = 0;
    if (this.theme) this.setTheme(this.theme);
  }

  setTheme(theme) {
    const gl = this.gl;
    this.theme = theme;
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 3, 0, gl.RGBA, gl.UNSIGNED_BYTE, paletteTexture(theme));
    for (const side of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, side, gl.NEAREST);
    if (!this.run) return;
    const { moving, fixed } = backdrop(this.run, theme);
    const limit = limitLines(this.run.limit || new Float32Array(0), theme);
    this.counts = { moving: moving.length / 10, fixed: fixed.length / 10, limit: limit.length / 10 };
    for (const [name, data] of Object.entries({ moving, fixed, limit })) this.fill(name, atCorners(data));
  }

  resize(width, height, ratio) {
    const w = Math.max(1, Math.round(width * ratio)), h = Math.max(1, Math.round(height * ratio));
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
    }
    this.ratio = ratio;
  }

  /** Clip units per scene unit, across and up. */
  scale() {
    const { width, height } = this.canvas;
    const side = 0.86 * Math.min(width, height) * this.camera.zoom * (this.run.flat || ["sphere", "ball"].includes(this.run.kind) ? 1 : 0.66);
    return [side / width, side / height];
  }

  /** Centre and half-width of the picture at a place between two saved states. */
  fitAt({ k, u }) {
    const { fit, T } = this.run;
    if (!this.look.fit || !fit) return IDENTITY;
    const next = Math.min(k + 1, T - 1), out = [];
    for (let c = 0; c < 3; c++) out.push(fit[4 * k + c] * (1 - u) + fit[4 * next + c] * u);
    out.push(Math.exp(Math.log(fit[4 * k + 3]) * (1 - u) + Math.log(fit[4 * next + 3]) * u));
    return out;
  }

  /** Token i in scene coordinates. */
  position(i, { k, u }) {
    const { tokens, n, T, unit } = this.run;
    const a = 3 * (k * n + i), b = 3 * (Math.min(k + 1, T - 1) * n + i);
    let p = [0, 1, 2].map((c) => tokens[a + c] * (1 - u) + tokens[b + c] * u);
    if (unit) {
      const norm = Math.hypot(...p) || 1;
      p = p.map((v) => v / norm);
    }
    return p;
  }

  /** A scene point in pixels of the page, with its depth. */
  project(p, place) {
    const fit = this.fitAt(place), rows = this.camera.rows(this.run.flat);
    const q = seen(rows, p.map((v, c) => (v - fit[c]) / fit[3]));
    const [sx, sy] = this.scale(), [dx, dy] = this.camera.shift;
    const width = this.canvas.width / this.ratio, height = this.canvas.height / this.ratio;
    return [(0.5 + 0.5 * (q[0] * sx + dx)) * width, (0.5 - 0.5 * (q[1] * sy + dy)) * height, q[2]];
  }

  common({ made, at }, fit, unit) {
    const gl = this.gl;
    gl.useProgram(made);
    gl.uniformMatrix3fv(at.rows, false, this.camera.rows(this.run.flat));
    gl.uniform4fv(at.fit, fit);
    gl.uniform2fv(at.scale, this.scale());
    gl.uniform2fv(at.shift, this.camera.shift);
    gl.uniform1f(at.unit, unit ? 1 : 0);
    gl.uniform1f(at.depth, this.run.flat ? 0 : this.run.kind === "sphere" ? 1 : 0.5);
    gl.uniform1i(at.first, this.look.first ? 1 : 0);
    gl.uniform3fv(at.firstColour, rgb(this.theme.first));
    gl.uniform1f(at.row, ROWS[this.coding()]);
  }

  pointer(location, name, size, type, offset, divisor, stride = 0) {
    const gl = this.gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.enableVertexAttribArray(location);
    gl.vertexAttribPointer(location, size, type, type !== gl.FLOAT, stride, offset);
    gl.vertexAttribDivisor(location, divisor);
  }

  /** What tokens are coloured by: by cluster too, until attention has arrived. */
  coding() {
    return this.look.colour === "attention" && !this.run.received ? "cluster" : this.look.colour;
  }

  /** Where the colour codes of a saved state start. */
  codes(k) {
    const { n, attentionAt } = this.run, coding = this.coding();
    return [coding, { position: 0, attention: n * (attentionAt ? attentionAt[k] : 0), cluster: n * k }[coding]];
  }

  drawLines(name, count, width, fit) {
    if (!count) return;
    const gl = this.gl, at = this.lines.at;
    this.common(this.lines, fit, false);
    gl.uniform1f(at.cut, 1);
    gl.uniform1f(at.coded, 0);
    gl.uniform1f(at.alpha, 1);
    gl.uniform1f(at.width, width * this.ratio);
    gl.uniform2f(at.pixels, this.canvas.width, this.canvas.height);
    gl.uniform1i(at.corners, CORNERS);
    this.pointer(0, name, 3, gl.FLOAT, 0, 0, 40);
    this.pointer(1, name, 3, gl.FLOAT, 12, 0, 40);
    gl.disableVertexAttribArray(2);
    this.pointer(3, name, 4, gl.FLOAT, 24, 0, 40);
    gl.drawArrays(gl.TRIANGLES, 0, CORNERS * count);
  }

  drawTrails(place, fit) {
    const gl = this.gl, at = this.lines.at, { n, T, unit } = this.run;
    const reach = this.run.kind === "line" ? T : Math.min(Math.ceil(this.look.trails * T), 60);
    if (!this.look.trails || T < 2) return;
    this.common(this.lines, fit, unit);
    gl.uniform1f(at.coded, 1);
    gl.uniform1i(at.corners, 0);
    gl.uniform2f(at.pixels, this.canvas.width, this.canvas.height);
    gl.uniform1f(at.width, (n > 400 ? 1 : 1.6) * this.ratio);
    gl.disableVertexAttribArray(3);
    for (let j = Math.max(0, place.k - reach); j <= Math.min(place.k, T - 2); j++) {
      const age = (place.k + place.u - j) / (reach + 1);
      gl.uniform1f(at.cut, j === place.k ? place.u : 1);
      gl.uniform1f(at.alpha, this.run.kind === "line" ? 0.75 : 0.55 * (1 - Math.min(1, age)));
      this.pointer(0, "tokens", 3, gl.FLOAT, 12 * n * j, 1);
      this.pointer(1, "tokens", 3, gl.FLOAT, 12 * n * (j + 1), 1);
      const [name, offset] = this.codes(j);
      this.pointer(2, name, 1, gl.UNSIGNED_BYTE, offset, 1);
      gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, n);
    }
  }

  drawTokens({ k, u }, fit) {
    const gl = this.gl, at = this.points.at, { n, T, unit, kind } = this.run;
    this.common(this.points, fit, unit);
    gl.uniform1f(at.u, u);
    gl.uniform1f(at.size, this.dot());
    gl.uniform1i(at.chosen, this.look.chosen);
    for (const name of ["paper", "ink", "rim"]) gl.uniform3fv(at[name], rgb(this.theme[name]));
    this.pointer(0, "tokens", 3, gl.FLOAT, 12 * n * k, 0);
    this.pointer(1, "tokens", 3, gl.FLOAT, 12 * n * Math.min(k + 1, T - 1), 0);
    const [name, offset] = this.codes(u > 0.5 && k + 1 < T ? k + 1 : k);
    this.pointer(2, name, 1, gl.UNSIGNED_BYTE, offset, 0);
    gl.disableVertexAttribArray(3);
    if (kind === "sphere") {
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.buffers.order);
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, this.farFirst({ k, u }), gl.DYNAMIC_DRAW);
      gl.drawElements(gl.POINTS, n, gl.UNSIGNED_INT, 0);
    } else gl.drawArrays(gl.POINTS, 0, n);
    if (this.look.first) gl.drawArrays(gl.POINTS, 0, 1); // the first token is seen above the others
  }

  /** Tokens of the sphere's far side, then those of its near side: in one draw, two cost a software renderer twice. */
  farFirst({ k, u }) {
    const { tokens, n, T } = this.run, [x, y, z] = this.camera.rows(false).slice(6, 9);
    const a = 3 * k * n, b = 3 * Math.min(k + 1, T - 1) * n, near = [], order = new Uint32Array(n);
    let count = 0;
    const depth = (at) => x * tokens[at] + y * tokens[at + 1] + z * tokens[at + 2];
    for (let i = 0; i < n; i++) {
      if ((1 - u) * depth(a + 3 * i) + u * depth(b + 3 * i) < 0) order[count++] = i;
      else near.push(i);
    }
    order.set(near, count);
    return order;
  }

  /** Diameter of a token in pixels of the canvas. */
  dot() {
    const side = Math.min(this.canvas.width, this.canvas.height) / this.ratio;
    return this.ratio * Math.min(15, Math.max(3, (side / 30) * Math.pow(64 / Math.max(this.run.n, 24), 0.36)));
  }

  draw(place) {
    const gl = this.gl;
    if (!this.run || gl.isContextLost()) return;
    const fit = this.fitAt(place);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    this.clipToFrame(true);
    this.drawLines("moving", this.counts.moving, 1, fit);
    if (this.look.limit) this.drawLines("limit", this.counts.limit, 2, fit);
    this.clipToFrame(false);
    this.drawLines("fixed", this.counts.fixed, 1, IDENTITY);
    this.drawTrails(place, fit);
    this.drawLines("links", this.linkCount, 1.2, fit);
    this.drawTokens(place, fit);
  }

  /** In flat scenes with a frame, axes end at the frame. */
  clipToFrame(on) {
    const gl = this.gl;
    gl.disable(gl.SCISSOR_TEST);
    if (!on || !this.run.flat || this.run.unit) return;
    const [sx, sy] = this.scale(), [dx, dy] = this.camera.shift, { width, height } = this.canvas;
    const x = (0.5 + 0.5 * (dx - 1.06 * sx)) * width, y = (0.5 + 0.5 * (dy - 1.06 * sy)) * height;
    gl.scissor(Math.round(x), Math.round(y), Math.round(1.06 * sx * width), Math.round(1.06 * sy * height));
    gl.enable(gl.SCISSOR_TEST);
  }

  /** Lines between tokens: (from, to, strength) triples, drawn until the next call. */
  setLinks(links, place) {
    const data = new Float32Array(10 * links.length), ink = rgb(this.theme.ink);
    links.forEach(([i, j, strength], k) => {
      data.set([...this.position(i, place), ...this.position(j, place), ...ink, 0.08 + 0.5 * strength], 10 * k);
    });
    this.linkCount = links.length;
    if (links.length) this.fill("links", atCorners(data), this.gl.DYNAMIC_DRAW);
  }
}
