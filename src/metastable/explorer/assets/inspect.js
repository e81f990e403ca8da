// Questions about a moment of a run: which token is here, what is it called, who attends to whom.

import { css, rgb } from "./palette.js";

const LINKS_PER_TOKEN = 3;
const LEAST = 0.04; // attention below this is not drawn

/** The time as text. */
export function timeText(run, { time }) {
  if (run.clock === "layer") { // a state, not a layer: "layer 0" is what turns state 0 into state 1
    const passed = time.toFixed(run.T > 1 && Number.isInteger(time) ? 0 : 1);
    return `after ${passed} layer${passed === "1" ? "" : "s"}`;
  }
  const span = run.t[run.T - 1] - run.t[0];
  return `t = ${time.toFixed(span >= 1000 ? 0 : span >= 100 ? 1 : span < 1 ? 3 : 2)}`;
}

/** What the axes of the scene are, and how wide the picture is. */
export function axesText(run, fit) {
  const { labels, half } = run.axes;
  if (!labels.length) return "";
  const wide = (2 * half * fit[3]).toPrecision(3);
  if (run.kind === "line") return `${labels[0]} to the right, ${labels[1]} up, height ${wide}`;
  return run.kind === "ball" ? labels.join(", ") : `${labels.join(", ")}; width ${wide}`;
}

/** Index of the saved state shown at a place. */
export function shownState(run, { k, u }) {
  return u > 0.5 && k + 1 < run.T ? k + 1 : k;
}

/** The token nearest to a point of the stage within `reach` pixels; of several, the one towards the viewer. */
export function nearestToken(scene, place, x, y, reach) {
  let best = -1, least = reach * reach, depth = -Infinity;
  for (let i = 0; i < scene.run.n; i++) {
    const [px, py, z] = scene.project(scene.position(i, place), place);
    if (scene.run.kind === "sphere" && z < -0.15) continue;
    const away = (px - x) ** 2 + (py - y) ** 2;
    if (away < least - 9 || (away <= least && z > depth)) [best, least, depth] = [i, away, z];
  }
  return best;
}

/** Attention of token i on token j at a saved state. */
export function attentionOf(run, state, head, i, j) {
  const at = ((run.attentionAt[state] * run.heads + head) * run.n + i) * run.n + j;
  return (run.attention[at] / 255) * run.attentionTop;
}

/** What is said about a token. */
export function tipText(run, place, i, head) {
  const state = shownState(run, place), name = run.names ? `${run.names[i]} (${i})` : `token ${i}`;
  const said = [i === 0 ? `${name}, the first` : name];
  const rank = run.cluster[state * run.n + i];
  if (rank < 255) {
    let size = 0;
    for (let j = 0; j < run.n; j++) size += run.cluster[state * run.n + j] === rank ? 1 : 0;
    said.push(`in a cluster of ${size}`);
  } else said.push("alone");
  if (run.attention) {
    let total = 0;
    for (let j = 0; j < run.n; j++) total += attentionOf(run, state, head, j, i);
    said.push(`receives ${(total / run.n).toPrecision(2)} of the attention`);
  }
  return said.join(" · ");
}

/** The strongest attention as (from, to, strength): of the chosen token, or a few of every token. */
export function linksAt(run, place, head, chosen) {
  const state = shownState(run, place), found = [];
  const per = run.n > 150 ? 1 : LINKS_PER_TOKEN;
  for (let i = 0; i < run.n; i++) {
    if (chosen >= 0 && i !== chosen) continue;
    const row = [];
    for (let j = 0; j < run.n; j++) {
      const strength = attentionOf(run, state, head, i, j) / (run.attentionTop || 1);
      if (j !== i && strength > LEAST) row.push([i, j, strength]);
    }
    row.sort((a, b) => b[2] - a[2]);
    found.push(...row.slice(0, chosen >= 0 ? run.n : per));
  }
  return found;
}

/** Names beside the tokens, on the canvas above the scene; false when there is nothing left to erase. */
export function drawLabels(player, place) {
  const canvas = player.part("labels"), ratio = player.scene.ratio, run = player.run;
  canvas.hidden = !player.state.labels || !run.names; // an empty sheet over the scene costs a browser a third of a frame
  if (canvas.hidden) return false;
  canvas.width = player.canvas.width;
  canvas.height = player.canvas.height;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "11px system-ui, sans-serif";
  pen.lineWidth = 3;
  pen.strokeStyle = css(rgb(player.theme.paper), 0.8);
  for (let i = 0; i < run.n; i++) {
    const [x, y, z] = player.scene.project(player.scene.position(i, place), place);
    pen.globalAlpha = run.kind === "sphere" && z < 0 ? 0.35 : 1;
    pen.fillStyle = player.theme.ink;
    pen.strokeText(run.names[i], x + 7, y - 5);
    pen.fillText(run.names[i], x + 7, y - 5);
  }
  return true;
}
