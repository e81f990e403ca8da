// Panels beside the scene, in step with the play-head.

import { drawBars, drawLines, drawMatrix, drawSpectrum, shareAt, short } from "./charts.js";
import { attentionOf, shownState } from "./inspect.js";

const LIMIT = "Distance from the limit";
const PANELS = [
  ["theory", "What theory says", "text"],
  ["clusters", "Clusters", "lines"],
  ["attention", "Attention matrix", "matrix"],
  ["similarity", "Cosines of pairs", "bars"],
  ["limit", LIMIT, "lines"],
  ["energy", "log energy", "lines"],
  ["order", "Order |mean token|", "lines"],
  ["sink", "Attention on the first token", "lines"],
  ["spectrum", "Spectrum of V", "plane"],
];

export class Panels {
  constructor(root, player) {
    this.player = player;
    this.root = root;
    root.classList.add("lab-panels");
    root.innerHTML = PANELS.map(([name, title, kind]) => kind === "text"
      ? `<section class="lab-panel" data-panel="${name}"><h2>${title}</h2><div class="lab-theory"></div></section>`
      : `<figure class="lab-panel" data-panel="${name}"><figcaption><span>${title}</span><output></output></figcaption>` +
        `<canvas class="lab-${kind}" role="img" aria-label="${title}"></canvas><p class="lab-why" hidden></p></figure>`).join("");
    this.parts = Object.fromEntries(PANELS.map(([name]) => [name, root.querySelector(`[data-panel=${name}]`)]));
    this.titles = { limit: this.parts.limit.querySelector("figcaption span") };
    for (const canvas of root.querySelectorAll(".lab-lines")) {
      canvas.addEventListener("pointerdown", (event) => player.seek(shareAt(canvas, event.offsetX)));
    }
    player.on("frame", (place) => this.frame(place));
    player.on("head", () => this.redraw());
    new ResizeObserver(() => this.redraw()).observe(root);
  }

  /** Show the panels of a run that came with them. */
  load(run) {
    this.run = run;
    this.last = -1;
    this.theory(run.theory || { claims: [], note: "" });
    this.sink = this.sinkSeries(run);
    const shown = { clusters: run.panel_clusters_fine, attention: run.attention, similarity: run.panel_similarity,
                    limit: run.panel_limit, energy: run.panel_energy, order: run.panel_order, sink: this.sink,
                    spectrum: run.spectrum && run.spectrum.length };
    for (const [name, there] of Object.entries(shown)) {
      const part = this.parts[name], why = part.querySelector(".lab-why");
      part.classList.toggle("lab-empty", !there);
      why.hidden = Boolean(there);
      why.textContent = there ? "" : (run.why && run.why[name]) || "Nothing to show for this run.";
      if (!there) part.querySelector("output").textContent = "";
    }
    this.redraw();
  }

  redraw() {
    this.last = -1;
    if (this.run && this.player.run === this.run) {
      drawSpectrum(this.parts.spectrum.querySelector("canvas"), this.run.spectrum || [], this.player.theme);
      this.frame({ ...this.player.clock.place(), share: this.player.clock.share });
    }
  }

  sinkSeries(run) {
    if (!run.attention) return null;
    const states = Math.max(...run.attentionAt) + 1, out = [];
    for (let f = 0; f < states; f++) {
      let total = 0;
      const start = f * run.heads * run.n * run.n;
      for (let i = 0; i < run.heads * run.n; i++) total += run.attention[start + i * run.n];
      out.push(((total / 255) * run.attentionTop) / (run.heads * run.n));
    }
    const t = out.map((_, f) => run.t[run.attentionAt.indexOf(f)]);
    return { t, values: out };
  }

  lines(name, data, place, value) {
    const part = this.parts[name];
    if (part.classList.contains("lab-empty")) return;
    drawLines(part.querySelector("canvas"), data, this.player.clock, place.share, this.player.theme);
    part.querySelector("output").textContent = value;
  }

  /** Everything that depends on the play-head; matrices and bars only when another saved state is shown. */
  frame(place) {
    const run = this.run;
    if (!run || this.player.run !== run) return;
    const now = performance.now(), state = shownState(run, place);
    if (this.player.playing && state === this.last && now - this.drawn < 120) return;
    const fresh = state !== this.last;
    this.last = state;
    this.drawn = now;
    const { theme } = this.player, [blue, orange] = theme.clusters;
    const at = (t, values) => values && values[nearest(t, place.time)];
    const t = run.panel_t;
    if (!t) return;
    const marks = (run.plateaus || []).map(([count, from, to]) => [String(count), from, to, count]);
    const fine = run.panel_clusters_fine;
    if (fine) {
      this.lines("clusters", { t, log: true, steps: true, marks,
        lines: [{ values: resample(run, t), colour: orange, faint: true }, { values: fine, colour: blue }] }, place, short(at(t, fine)));
    }
    for (const name of ["energy", "order"]) {
      const values = run[`panel_${name}`];
      if (values) this.lines(name, { t, lines: [{ values, colour: blue }] }, place, short(at(t, values)));
    }
    if (run.panel_limit) {
      const times = run.panel_limit_t;
      this.lines("limit", { t: times, log: true, lines: [{ values: run.panel_limit, colour: blue }] }, place, short(at(times, run.panel_limit)));
    }
    if (this.sink) this.lines("sink", { t: this.sink.t, lines: [{ values: this.sink.values, colour: blue }] }, place, short(at(this.sink.t, this.sink.values)));
    if (fresh) this.states(place, state, nearest(t, place.time));
  }

  states(place, state, k) {
    const run = this.run, theme = this.player.theme;
    if (run.panel_similarity) {
      const bins = run.shapes.panel_similarity.shape[1], [low, high] = run.similarity_range;
      const bars = Array.from(run.panel_similarity.subarray(k * bins, (k + 1) * bins));
      drawBars(this.parts.similarity.querySelector("canvas"), bars, [low, high], theme);
      this.parts.similarity.querySelector("output").textContent = `${Math.round(100 * bars[bins - 1])}% above ${short(high - (high - low) / bins)}`;
    }
    if (run.attention) {
      const size = run.n * run.n, start = (run.attentionAt[state] * run.heads + this.player.head) * size;
      drawMatrix(this.parts.attention.querySelector("canvas"), run.attention.subarray(start, start + size), run.n, theme);
      const i = this.player.scene.look.chosen;
      this.parts.attention.querySelector("output").textContent =
        i > 0 ? `token ${i} → first: ${short(attentionOf(run, state, this.player.head, i, 0))}` : `head ${this.player.head}`;
    }
  }

  theory({ claims, note, limit, claim, now, measured }) {
    const box = this.parts.theory.querySelector(".lab-theory");
    box.textContent = "";
    const add = (parent, tag, text, kind) => {
      const made = document.createElement(tag);
      made.textContent = text;
      if (kind) made.className = kind;
      parent.append(made);
      return made;
    };
    for (const one of claims) {
      const details = add(box, "details", "");
      details.open = one.applies || claims.length === 1; // the only one also says what it lacks
      const line = add(details, "summary", "");
      add(line, "span", one.applies ? "applies" : "does not apply", `lab-mark lab-${one.applies ? "yes" : "no"}`);
      add(line, "b", one.name);
      add(details, "p", `${one.sentence[0].toUpperCase()}${one.sentence.slice(1)}.`);
      for (const h of one.hypotheses) {
        const row = add(details, "p", "", "lab-hypothesis");
        add(row, "span", h.holds, `lab-mark lab-${h.holds === "yes" ? "yes" : "no"}`);
        add(row, "span", ` ${h.name}${h.margin ? `, margin ${short(h.margin)}` : ""}`);
        row.title = h.sentence;
      }
    }
    const far = Number.isFinite(now) ? ` At the end attention is ${short(now)} off.` : "";
    if (limit) add(box, "p", `Predicted limit${claim ? ` (${claim})` : ""}: ${limit}.${far}`, "lab-limit");
    this.titles.limit.textContent = measured || LIMIT;
    if (note) add(box, "p", note, "lab-note");
  }
}

function nearest(t, time) {
  let low = 0, high = t.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (t[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low > 0 && time - t[low - 1] < t[low] - time ? low - 1 : low;
}

/** Clusters as the eye sees them, at the panel's times. */
function resample(run, t) {
  return Array.from(t, (time) => run.clusters[nearest(run.t, time)]);
}
