// The bar under the scene: its HTML, and the strip that shows the number of clusters behind the scrubber.

import { icon } from "./icons.js";

export const SPEEDS = [0.25, 0.5, 1, 2, 4];

function choice(name, label, options, chosen) {
  const items = options.map(([value, text]) => `<option value="${value}"${value === chosen ? " selected" : ""}>${text}</option>`);
  return `<label class="ms-choice"><span>${label}</span><select data-look="${name}" aria-label="${label}">${items.join("")}</select></label>`;
}

function toggle(name, label, title, on = false) {
  return `<button type="button" class="ms-toggle" data-toggle="${name}" aria-pressed="${on}" title="${title}">${label}</button>`;
}

/** The whole player as HTML text. */
export function markup() {
  const speeds = SPEEDS.map((s) => [String(s), `${s}×`]);
  return `
<div class="ms-stage">
  <div class="ms-globe" hidden></div>
  <canvas class="ms-canvas" role="img" aria-label="Tokens moving"></canvas>
  <canvas class="ms-labels" aria-hidden="true" hidden></canvas>
  <div class="ms-caption"></div>
  <div class="ms-reading" aria-hidden="true"></div>
  <div class="ms-axes"></div>
  <div class="ms-tip" role="status" hidden></div>
  <div class="ms-message" role="alert" hidden></div>
  <div class="ms-help" role="dialog" aria-label="Keys" hidden></div>
</div>
<div class="ms-bar">
  <div class="ms-row">
    <button type="button" class="ms-icon" data-do="start" title="To the start (Home)" aria-label="To the start">${icon("start")}</button>
    <button type="button" class="ms-icon ms-play" data-do="play" title="Play or pause (space)" aria-label="Play">${icon("play")}</button>
    <div class="ms-scrub">
      <canvas class="ms-strip" aria-hidden="true"></canvas>
      <input type="range" min="0" max="1000" step="1" value="0" aria-label="Time">
    </div>
    <output class="ms-time" aria-live="off">t = 0</output>
  </div>
  <div class="ms-row ms-looks">
    ${choice("colour", "Colour", [["cluster", "cluster"], ["position", "position"], ["attention", "attention"]], "cluster")}
    ${choice("speed", "Speed", speeds, "1")}
    <span class="ms-head-choice" hidden>${choice("head", "Head", [["0", "0"]], "0")}</span>
    ${toggle("trails", "Trails", "Show where tokens came from (T)")}
    ${toggle("links", "Attention", "Strongest attention as lines (A)")}
    ${toggle("first", "First red", "The first token in red (F)")}
    ${toggle("log", "Log time", "Spend longer on early times (L)")}
    ${toggle("fit", "Fit", "Keep the tokens filling the picture (Z)")}
    ${toggle("labels", "Names", "Write the tokens' names beside them (N)")}
    ${toggle("limit", "Limit", "The limit set the theory predicts (P)", true)}
    <span class="ms-gap"></span>
    <span class="ms-choice"><button type="button" class="ms-icon" data-do="home" title="Reset the view (R)" aria-label="Reset the view">${icon("home")}</button>
    <button type="button" class="ms-icon" data-do="full" title="Full screen" aria-label="Full screen">${icon("full")}</button>
    <button type="button" class="ms-icon" data-do="help" title="Keys (?)" aria-label="Keys">${icon("help")}</button></span>
  </div>
</div>`;
}

export const KEYS = [
  ["space", "play or pause"],
  ["← →", "one saved state back or on (with shift: ten)"],
  ["Home End", "first or last time"],
  ["C", "next colouring"],
  ["T A F", "trails, attention lines, first token red"],
  ["L Z P", "logarithmic time, fit, predicted limit"],
  ["+ − R", "zoom in, out, reset the view"],
  ["drag", "rotate (flat scenes: shift); two fingers or wheel: zoom"],
  ["?", "this list"],
];

/** HTML of the list of keys. */
export function keysMarkup() {
  return `<h3>Keys</h3><dl>${KEYS.map(([key, does]) => `<dt>${key}</dt><dd>${does}</dd>`).join("")}</dl>`;
}

/** The number of clusters over the film, as a filled step line. */
export function drawStrip(canvas, run, clock, theme) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width || !height) return;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const counts = run.clusters;
  if (!counts) return;
  const most = Math.log(Math.max(2, ...counts));
  const y = (count) => height - 2 - (height - 6) * (Math.log(Math.max(1, count)) / most) * 0.92;
  pen.beginPath();
  pen.moveTo(0, height);
  for (let k = 0; k < counts.length; k++) {
    const x = clock.shareOf(run.t[k]) * width;
    if (k) pen.lineTo(x, y(counts[k - 1]));
    pen.lineTo(x, y(counts[k]));
  }
  pen.lineTo(width, height);
  pen.closePath();
  pen.globalAlpha = 0.28;
  pen.fillStyle = theme.clusters[0];
  pen.fill();
}
