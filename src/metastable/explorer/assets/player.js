// The player: tokens of one run, played in the browser. Everything it shows came with the run's bytes.

import { unseen } from "./camera.js";
import { Clock } from "./clock.js";
import { drawStrip, keysMarkup, markup } from "./controls.js";
import { decode } from "./decode.js";
import { icon } from "./icons.js";
import { axesText, drawLabels, linksAt, nearestToken, timeText, tipText } from "./inspect.js";
import { THEMES } from "./palette.js";
import { listen } from "./pointer.js";
import { Scene } from "./scene.js";

const FILM = 9; // seconds that a run takes at speed 1
const TOGGLES = { trails: "t", links: "a", first: "f", log: "l", fit: "z", labels: "n", limit: "p" };
const COLOURS = ["cluster", "position", "attention"];

export class Player {
  /** Build the player inside `root`; options: theme ("light", "dark", null: as the system), autoplay, draggable. */
  constructor(root, options = {}) {
    this.root = root;
    this.options = { theme: null, autoplay: false, ...options };
    this.listeners = {};
    this.state = { trails: false, links: false, first: false, log: false, fit: false, labels: false, limit: true };
    this.speed = 1;
    this.head = 0;
    root.classList.add("ms-player");
    root.tabIndex = root.tabIndex < 0 ? 0 : root.tabIndex;
    root.innerHTML = markup();
    this.part = (name) => root.querySelector(`.ms-${name}`);
    this.range = root.querySelector("input[type=range]");
    this.canvas = this.part("canvas");
    try {
      this.scene = new Scene(this.canvas);
    } catch (error) {
      this.say(error.message);
      throw error;
    }
    this.part("help").innerHTML = keysMarkup();
    this.watch();
    this.applyTheme();
  }

  // --- events --------------------------------------------------------------------------------------------------

  on(name, listener) {
    (this.listeners[name] ||= []).push(listener);
    return this;
  }

  emit(name, detail) {
    for (const listener of this.listeners[name] || []) listener(detail);
  }

  watch() {
    const acts = { play: () => this.toggle(), start: () => this.seek(0), home: () => this.resetView(),
                   help: () => this.showHelp(), full: () => this.fullScreen() };
    this.root.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button && button.dataset.do) acts[button.dataset.do]();
      if (button && button.dataset.toggle) this.set(button.dataset.toggle, !this.state[button.dataset.toggle]);
    });
    this.root.addEventListener("change", (event) => {
      const { look } = event.target.dataset;
      if (look === "colour") this.setColour(event.target.value);
      if (look === "speed") this.speed = Number(event.target.value);
      if (look === "head") this.setHead(Number(event.target.value));
    });
    this.range.addEventListener("input", () => {
      this.pause();
      this.seek(Number(this.range.value) / 1000);
    });
    this.root.addEventListener("keydown", (event) => this.key(event) && event.preventDefault());
    this.canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    this.canvas.addEventListener("webglcontextrestored", () => {
      this.scene.start();
      if (this.run) this.scene.load(this.run);
      this.applyTheme();
    });
    listen(this);
    this.dark = window.matchMedia("(prefers-color-scheme: dark)");
    this.dark.addEventListener("change", () => this.applyTheme());
    this.still = window.matchMedia("(prefers-reduced-motion: reduce)");
    new ResizeObserver(() => this.resize()).observe(this.part("stage"));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const inside = event.target.tagName;
    if (["SELECT", "TEXTAREA"].includes(inside) || (inside === "INPUT" && event.target !== this.range)) return false;
    const key = event.key.toLowerCase(), steps = event.shiftKey ? 10 : 1;
    const toggled = Object.keys(TOGGLES).find((name) => TOGGLES[name] === key);
    if (key === " ") {
      if (inside === "BUTTON") return false;
      this.toggle();
    } else if (key === "arrowright" || key === "arrowleft") this.step(key === "arrowright" ? steps : -steps);
    else if (key === "home") this.seek(0);
    else if (key === "end") this.seek(1);
    else if (key === "c") this.setColour(COLOURS[(COLOURS.indexOf(this.scene.look.colour) + 1) % this.colourings()]);
    else if (key === "+" || key === "=" || key === "-") this.zoom(key === "-" ? 0.8 : 1.25);
    else if (key === "r") this.resetView();
    else if (key === "?") this.showHelp();
    else if (key === "escape" && !this.part("help").hidden) this.showHelp();
    else if (toggled) this.set(toggled, !this.state[toggled]);
    else return false;
    return true;
  }

  // --- what is shown -------------------------------------------------------------------------------------------

  /** Show a run from its bytes; the play-head keeps its share of the film when `keep`. */
  load(buffer, keep = false) {
    const run = buffer instanceof ArrayBuffer ? decode(buffer) : buffer;
    const share = keep && this.clock ? this.clock.share : 0, log = this.clock ? this.clock.log : false;
    const before = this.run, same = before && before.kind === run.kind && before.causal === run.causal;
    // a first picture comes without clusters: until they arrive, those of the run before are shown
    const alike = before && before.n === run.n && before.T === run.T;
    run.cluster ||= alike ? before.cluster : new Uint8Array(run.n * run.T).fill(255);
    run.clusters ||= alike ? before.clusters : null;
    if (!run.received && run.brief && alike) [run.received, run.attentionAt] = [before.received, before.attentionAt];
    this.run = run;
    this.timeText = "";
    this.clock = new Clock(run.t);
    this.clock.log = log;
    this.clock.share = share;
    this.scene.load(run);
    this.scene.look.chosen = -1;
    if (!same) {
      this.set("first", run.causal || Boolean(run.first));
      if (run.colour) this.setColour(run.colour);
      this.set("trails", run.kind === "line");
      this.set("fit", run.grows);
    }
    if (this.scene.look.colour === "attention" && !run.received && !run.brief) this.setColour("cluster");
    this.dress();
    this.resize();
    if (this.options.autoplay && !keep && !this.still.matches) this.play();
    this.emit("load", run);
    return this;
  }

  /** Parts of the bar that depend on the run. */
  dress() {
    const run = this.run, hide = (name, hidden) => (this.root.querySelector(`[data-toggle=${name}]`).hidden = hidden);
    if (!run.brief) hide("links", !run.attention); // of a first picture it is not known yet: nothing jumps
    hide("fit", !run.fit);
    hide("labels", !run.names);
    hide("limit", !run.limit || !run.limit.length);
    hide("log", run.T < 3);
    hide("trails", run.T < 2);
    const select = this.root.querySelector("[data-look=head]");
    const heads = run.attention || run.brief ? run.heads : 1;
    this.part("head-choice").hidden = heads < 2;
    select.innerHTML = Array.from({ length: heads }, (_, k) => `<option value="${k}">${k}</option>`).join("");
    if (!run.brief) this.head = Math.min(this.head, heads - 1);
    select.value = String(this.head);
    this.root.querySelector("option[value=attention]").hidden = !run.received;
    this.part("caption").textContent = run.title || "";
    this.part("globe").hidden = run.kind !== "sphere";
    this.canvas.setAttribute("aria-label", `${run.n} tokens, ${run.title || run.kind}`);
  }

  colourings() {
    return this.run && this.run.received ? 3 : 2;
  }

  setColour(name) {
    this.scene.look.colour = name;
    this.root.querySelector("[data-look=colour]").value = name;
    this.request();
    this.emit("look", this.looks());
  }

  setHead(head) {
    this.head = head;
    this.root.querySelector("[data-look=head]").value = String(head);
    this.request();
    this.emit("head", head);
    this.emit("look", this.looks());
  }

  set(name, on) {
    this.state[name] = on;
    const look = this.scene.look;
    if (name === "trails") look.trails = on ? 0.18 : 0;
    if (["first", "fit", "limit"].includes(name)) look[name] = on;
    if (name === "log" && this.clock) {
      this.clock.setLog(on);
      this.strip();
    }
    this.root.querySelector(`[data-toggle=${name}]`).setAttribute("aria-pressed", String(on));
    this.request();
    this.emit("look", this.looks());
  }

  /** How the run is shown, as a link may keep it. */
  looks() {
    const { azimuth, elevation, zoom } = this.scene.camera;
    return { ...this.state, colour: this.scene.look.colour, head: this.head, view: [azimuth, elevation, zoom] };
  }

  applyTheme() {
    const name = this.options.theme || (this.dark && this.dark.matches ? "dark" : "light");
    this.root.dataset.theme = name;
    this.theme = THEMES[name];
    this.scene.setTheme(this.theme);
    this.strip();
    this.request();
  }

  setTheme(name) {
    this.options.theme = name;
    this.applyTheme();
  }

  say(text) {
    const box = this.part("message");
    box.textContent = text || "";
    box.hidden = !text;
  }

  showHelp() {
    const box = this.part("help");
    box.hidden = !box.hidden;
  }

  fullScreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else if (this.root.requestFullscreen) this.root.requestFullscreen();
  }

  resetView() {
    this.scene.camera.reset();
    this.request();
  }

  zoom(factor) {
    this.scene.camera.scale(factor);
    this.request();
  }

  // --- time ----------------------------------------------------------------------------------------------------

  get playing() {
    return Boolean(this.timer);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (!this.run || this.playing) return;
    if (this.clock.share >= 1) this.clock.share = 0;
    this.before = performance.now();
    const loop = (now) => {
      this.timer = requestAnimationFrame(loop);
      const passed = Math.min(0.25, (now - this.before) / 1000);
      this.before = now;
      this.clock.share = Math.min(1, this.clock.share + (passed * this.speed) / FILM);
      this.draw();
      if (this.clock.share >= 1 && !this.options.loop) this.pause();
      else if (this.clock.share >= 1) this.clock.share = 0;
    };
    this.timer = requestAnimationFrame(loop);
    this.playButton();
  }

  pause() {
    if (!this.playing) return;
    cancelAnimationFrame(this.timer);
    this.timer = null;
    this.playButton();
    this.emit("pause", this.clock.share);
  }

  playButton() {
    const button = this.part("play");
    button.innerHTML = icon(this.playing ? "pause" : "play");
    button.setAttribute("aria-label", this.playing ? "Pause" : "Play");
    this.emit("playing", this.playing);
  }

  seek(share, quiet = false) {
    if (!this.clock) return;
    this.clock.share = Math.min(1, Math.max(0, share));
    this.request();
    if (!quiet) this.emit("seek", this.clock.share);
  }

  step(count) {
    this.pause();
    this.clock.step(count);
    this.seek(this.clock.share);
  }

  // --- drawing -------------------------------------------------------------------------------------------------

  resize() {
    const stage = this.part("stage");
    const ratio = Math.min(window.devicePixelRatio || 1, 2), width = stage.clientWidth, height = stage.clientHeight;
    if (!width || !height) return;
    this.scene.resize(width, height, ratio);
    this.strip();
    this.request();
  }

  strip() {
    if (this.run && this.theme) drawStrip(this.part("strip"), this.run, this.clock, this.theme);
  }

  request() {
    if (this.playing || this.waiting || !this.run) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }

  draw() {
    const place = this.clock.place();
    if (this.state.links && this.run.attention) this.scene.setLinks(linksAt(this.run, place, this.head, this.scene.look.chosen), place);
    else this.scene.linkCount = 0;
    this.scene.draw(place);
    this.globe();
    if (this.state.labels || this.labelled) this.labelled = drawLabels(this, place);
    this.readings(place);
    this.emit("frame", { ...place, share: this.clock.share });
  }

  readings(place) {
    const value = Math.round(1000 * this.clock.share);
    if (value !== this.shown) {
      this.range.value = String(value);
      this.shown = value;
    }
    const text = timeText(this.run, place);
    if (text !== this.timeText) {
      this.part("time").textContent = text;
      this.range.setAttribute("aria-valuetext", text);
      this.timeText = text;
      const count = this.run.clusters ? this.run.clusters[place.u > 0.5 ? Math.min(place.k + 1, this.run.T - 1) : place.k] : 0;
      this.part("reading").textContent = count ? `${count} cluster${count === 1 ? "" : "s"}` : "";
      this.part("axes").textContent = axesText(this.run, this.scene.fitAt(place));
    }
  }

  /** The shaded ball behind the sphere is plain CSS: it costs nothing while tokens move. */
  globe() {
    if (this.run.kind !== "sphere") return;
    const [sx] = this.scene.scale(), width = this.canvas.clientWidth, [dx, dy] = this.scene.camera.shift;
    const key = `${sx} ${width} ${dx} ${dy} ${this.canvas.clientHeight}`;
    if (key === this.globeKey) return;
    this.globeKey = key;
    const side = sx * width, box = this.part("globe").style;
    box.width = box.height = `${side}px`;
    box.transform = `translate(${0.5 * width * (1 + dx) - side / 2}px, ${0.5 * this.canvas.clientHeight * (1 - dy) - side / 2}px)`;
  }

  /** The token near a point of the stage, or -1. */
  tokenAt(x, y, reach = 14) {
    return this.run ? nearestToken(this.scene, this.clock.place(), x, y, reach) : -1;
  }

  tip(x, y) {
    const i = this.tokenAt(x, y), box = this.part("tip");
    if (i !== this.scene.look.chosen) {
      this.scene.look.chosen = i;
      this.request();
    }
    box.hidden = i < 0;
    if (i < 0) return;
    box.textContent = tipText(this.run, this.clock.place(), i, this.head);
    const width = this.part("stage").clientWidth;
    box.style.left = `${Math.min(x + 14, width - box.offsetWidth - 6)}px`;
    box.style.top = `${Math.max(4, y - 34)}px`;
  }

  /** Scene coordinates of a point of the stage, on the sphere or in the plane through a token. */
  lift(x, y, i) {
    const place = this.clock.place(), rows = this.scene.camera.rows(this.run.flat), fit = this.scene.fitAt(place);
    const [sx, sy] = this.scene.scale(), [dx, dy] = this.scene.camera.shift;
    let across = (2 * (x / this.canvas.clientWidth) - 1 - dx) / sx, up = (1 - 2 * (y / this.canvas.clientHeight) - dy) / sy;
    let depth = this.scene.project(this.scene.position(i, place), place)[2];
    if (this.run.unit) {
      const radius = Math.hypot(across, up);
      if (this.run.flat || radius > 1) [across, up, depth] = [across / radius, up / radius, 0];
      else depth = (depth < 0 ? -1 : 1) * Math.sqrt(1 - radius * radius);
    }
    return unseen(rows, [across, up, depth]).map((v, c) => v * fit[3] + fit[c]);
  }
}
