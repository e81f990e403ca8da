// The laboratory's page: players, panels, links. The server is asked for runs by their links, and remembers nothing.

import { decode } from "./decode.js";
import { Panels } from "./panels.js";
import { Player } from "./player.js";
import { svgText } from "./snapshot.js";

const LONGEST = 16000; // characters of a link: the server reads few more
const PATIENCE = 250; // milliseconds until it is said that a run takes longer
const KEPT = ["log", "trails", "links", "first", "fit", "labels", "limit"];

class Lab {
  constructor({ theme, source, look, panels = true, draggable = true }) {
    this.source = source;
    this.page = Array.from(crypto.getRandomValues(new Uint8Array(12)), (v) => v.toString(36)).join(""); // whose turn it is
    this.slots = {};
    this.theme = theme;
    this.add("a", document.getElementById("stage-a"), draggable);
    if (panels) this.panels = new Panels(document.getElementById("panels"), this.slots.a.player);
    this.look = look || {};
    document.addEventListener("keydown", (event) => this.key(event));
    setTheme(theme);
  }

  add(name, root, draggable) {
    const player = new Player(root, { theme: this.theme, draggable });
    const slot = { name, player, wanted: null, flight: null, seen: null };
    this.slots[name] = slot;
    player.on("seek", () => this.follow(slot));
    player.on("frame", () => player.playing && this.follow(slot));
    player.on("playing", (on) => this.others(slot).forEach((other) => (on ? null : other.player.pause())));
    player.on("look", () => this.link());
    player.on("pause", () => this.link());
    player.on("seek", () => this.link());
    player.on("moved", ({ token, position }) => this.moved(slot, token, position));
    return slot;
  }

  others(slot) {
    return Object.values(this.slots).filter((other) => other !== slot && other.player.run);
  }

  /** Linked play-heads: at equal times. */
  follow(slot) {
    for (const other of this.others(slot)) {
      const share = other.player.clock.shareOf(slot.player.clock.time());
      if (Math.abs(share - other.player.clock.share) > 1e-6) other.player.seek(share, true);
    }
  }

  /** Show the run of a link; of several in a row the last one counts. */
  show(name, query) {
    const slot = this.slots[name];
    slot.wanted = query;
    slot.asked = performance.now();
    if (name === "a") this.link();
    if (!slot.flight) this.fetch(slot);
    else if (performance.now() - slot.flight.began > 400) slot.flight.control.abort();
  }

  async fetch(slot) {
    const query = slot.wanted, control = new AbortController();
    const flight = (slot.flight = { control, began: performance.now() });
    const timer = setTimeout(() => this.busy(slot, true), PATIENCE);
    try {
      slot.player.say("");
      const first = await this.bytes(query, "first", control);
      this.place(slot, first, query);
      slot.latency = performance.now() - slot.asked;
      if (slot.wanted === query) {
        const whole = await this.bytes(query, "all", control);
        if (slot.wanted === query) {
          this.place(slot, whole, query);
          if (slot.name === "a" && this.panels) this.panels.load(slot.player.run);
          slot.seen = query;
        }
      }
      if (!(this.spoken > flight.began)) this.message(""); // a later refusal is not this run's to clear
    } catch (error) {
      if (error.name !== "AbortError") this.message(error.message, true);
      else if (slot.wanted === query) this.message("Cancelled; change a setting to compute again.");
      slot.failed = query;
    } finally {
      clearTimeout(timer);
      slot.flight = null;
      this.busy(slot, false);
      if (slot.wanted !== query) this.fetch(slot);
    }
  }

  async bytes(query, part, control) {
    let answer;
    try {
      answer = await fetch(`${this.source}?page=${this.page}&part=${part}&${query}`, { signal: control.signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("The server does not answer; the page will go on when it is back.");
    }
    if (!answer.ok) throw new Error((await answer.text()).slice(0, 400) || `The server answered ${answer.status}.`);
    return answer.arrayBuffer();
  }

  place(slot, bytes, query) {
    const fresh = !slot.player.run;
    slot.player.load(decode(bytes), !fresh && slot.player.clock.share < 1 ? true : !fresh);
    if (fresh) this.applyLook(this.look);
    if (this.eager) {
      this.eager = false;
      slot.player.play();
    }
    slot.shown = query;
  }

  cancel() {
    for (const slot of Object.values(this.slots)) if (slot.flight) slot.flight.control.abort();
  }

  busy(slot, on) {
    const box = document.getElementById("lab-busy");
    if (box) box.classList.toggle("lab-on", on);
    slot.player.root.setAttribute("aria-busy", String(on));
  }

  message(text, bad = false) {
    const box = document.getElementById("lab-message");
    if (!box) return;
    this.spoken = performance.now();
    box.textContent = text;
    box.classList.toggle("lab-bad", bad);
  }

  /** Show a second run beside the first, or none; `label` and `own` say what the second and the first are. */
  compare(query, label, own) {
    const root = document.getElementById("stage-b"), wrap = root.parentElement;
    wrap.classList.toggle("lab-hidden", !query);
    document.getElementById("lab-stages").classList.toggle("lab-two", Boolean(query));
    document.getElementById("lab-a-label").textContent = query ? own : "";
    if (this.panels) this.panels.root.dataset.of = query ? "A" : "";
    if (!query) return void delete this.slots.b;
    this.slots.b ||= this.second || (this.second = this.add("b", root, false));
    document.getElementById("lab-b-label").textContent = label;
    this.show("b", query);
  }

  moved(slot, token, position) {
    const { axes, d, kind } = slot.player.run;
    if (d > 3 || kind === "line") return this.message("Tokens can be moved by hand in two and three dimensions.");
    const value = position.slice(0, d).map((p, c) => p * axes.half + axes.centre[c]);
    emitEvent("lab-moved", { token, value });
  }

  applyLook(look) {
    const { player } = this.slots.a;
    for (const name of KEPT) if (name in look) player.set(name, Boolean(look[name]));
    if (look.colour) player.setColour(look.colour);
    if ("head" in look) player.setHead(look.head);
    if (look.view) [player.scene.camera.azimuth, player.scene.camera.elevation, player.scene.camera.zoom] = look.view;
    if ("share" in look) player.seek(look.share);
    player.request();
  }

  /** From a preset or the tour: looks, then play from the start. */
  stage(look, play) {
    this.applyLook({ log: false, trails: false, links: false, colour: "cluster", share: 0, ...look });
    if (play && !this.slots.a.player.still.matches) this.slots.a.player.play();
  }

  /** The run to come from its start, looked at as the one before. */
  again() {
    this.slots.a.player.seek(0);
    if (!this.slots.a.player.still.matches) this.slots.a.player.play();
  }

  /** Play the first run as soon as it is there: who opens the page sees what it is about. */
  opening() {
    const { player } = this.slots.a;
    if (player.still.matches) return;
    if (player.run) player.play();
    else this.eager = true;
  }

  /** The address that restores all this. */
  link() {
    clearTimeout(this.linking);
    this.linking = setTimeout(() => {
      const { player, wanted } = this.slots.a;
      if (wanted === null) return;
      const looks = player.looks(), on = KEPT.filter((name) => looks[name]).join(".");
      const view = looks.view.map((v) => Number(v.toFixed(2))).join(",");
      const extra = new URLSearchParams({ look: on, colour: looks.colour, head: looks.head, view, at: player.clock ? player.clock.share.toFixed(3) : "0" });
      if (this.comparing) extra.set("compare", this.comparing);
      const address = `${location.pathname}?${wanted}${wanted ? "&" : ""}${extra}`;
      if (address.length < LONGEST) history.replaceState(null, "", address);
    }, 150);
  }

  key(event) {
    const inside = event.target;
    if (inside.closest && inside.closest("input, textarea, select, [contenteditable], .q-field, .q-slider, .ms-player, button, [role=dialog]")) return;
    if (this.slots.a.player.key(event)) event.preventDefault();
  }

  async copyLink() {
    await new Promise((done) => setTimeout(done, 200));
    try {
      await navigator.clipboard.writeText(location.href);
      this.message("The link is in the clipboard: it restores everything you see.");
    } catch {
      this.message(location.href);
    }
  }

  save(name, blob) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 4000);
  }

  png() {
    const { player } = this.slots.a, { canvas } = player;
    player.draw();
    const copy = document.createElement("canvas");
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const pen = copy.getContext("2d");
    pen.fillStyle = player.theme.paper;
    pen.fillRect(0, 0, copy.width, copy.height);
    pen.drawImage(canvas, 0, 0);
    if (!player.part("labels").hidden) pen.drawImage(player.part("labels"), 0, 0);
    copy.toBlob((blob) => this.save("metastable.png", blob), "image/png");
  }

  svg() {
    this.save("metastable.svg", new Blob([svgText(this.slots.a.player)], { type: "image/svg+xml" }));
  }

  take(kind) {
    const { wanted, player } = this.slots.a;
    const link = document.createElement("a");
    link.href = `/take/${kind}?page=${this.page}&at=${player.clock.time()}&${wanted}`;
    link.download = "";
    link.click();
    if (kind === "mp4" || kind === "gif") this.message("The film is being made; it arrives as a download.");
  }
}

export function setTheme(name) {
  document.documentElement.dataset.theme = name || (window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  if (!window.lab) return;
  for (const slot of Object.values(window.lab.slots)) slot.player.setTheme(name);
  if (window.lab.panels) window.lab.panels.redraw();
}

export function start(options) {
  window.lab = new Lab(options);
  return true;
}
