// The scene as it is now, as SVG: every token one circle, so that it can be edited.

import { backdrop, limitLines } from "./backdrop.js";
import { shownState } from "./inspect.js";
import { clusterColour, css, paletteTexture, rgb } from "./palette.js";
import { ROWS } from "./scene.js";

const fix = (v) => v.toFixed(2);

/** SVG text of a player's scene. */
export function svgText(player) {
  const { run, scene, theme } = player, place = player.clock.place(), state = shownState(run, place);
  const width = player.canvas.clientWidth, height = player.canvas.clientHeight, out = [];
  const lines = (data, at) => {
    for (let k = 0; k + 9 < data.length; k += 10) {
      const [a, b] = [data.subarray(k, k + 3), data.subarray(k + 3, k + 6)].map((p) => scene.project([...p], at));
      out.push(`<line x1="${fix(a[0])}" y1="${fix(a[1])}" x2="${fix(b[0])}" y2="${fix(b[1])}" stroke="${css([...data.subarray(k + 6, k + 9)])}" stroke-opacity="${fix(data[k + 9] * (a[2] < 0 && run.kind === "sphere" ? 0.35 : 1))}"/>`);
    }
  };
  if (run.kind === "sphere") {
    const [x, y] = scene.project([0, 0, 0], place), [sx] = scene.scale();
    out.push(`<circle cx="${fix(x)}" cy="${fix(y)}" r="${fix((sx * width) / 2)}" fill="none" stroke="${theme.soft}"/>`);
  }
  const { moving } = backdrop(run, theme);
  if (run.unit || run.kind === "ball") lines(moving, place);
  if (player.state.limit && run.limit) lines(limitLines(run.limit, theme), place);
  const table = paletteTexture(theme), radius = scene.dot() / scene.ratio / 2;
  const dots = Array.from({ length: run.n }, (_, i) => [i, ...scene.project(scene.position(i, place), place)]).sort((a, b) => a[3] - b[3]);
  for (const [i, x, y, z] of dots) {
    out.push(`<circle cx="${fix(x)}" cy="${fix(y)}" r="${fix(radius)}" fill="${colourOf(player, table, state, i)}" fill-opacity="${run.kind === "sphere" && z < 0 ? 0.45 : 1}"><title>${escaped(run.names ? run.names[i] : `token ${i}`)}</title></circle>`);
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${fix(width)} ${fix(height)}" width="${fix(width)}" height="${fix(height)}">` +
    `<rect width="100%" height="100%" fill="${theme.paper}"/>${out.join("")}</svg>`;
}

function colourOf(player, table, state, i) {
  const { run, scene, theme } = player, { first } = scene.look, colour = scene.coding();
  if (i === 0 && first) return css(rgb(theme.first));
  if (colour === "cluster") return css(clusterColour(theme, run.cluster[state * run.n + i]));
  const code = colour === "position" ? Math.round((255 * i) / Math.max(1, run.n - 1)) : run.received[run.attentionAt[state] * run.n + i];
  const at = 4 * (256 * ROWS[colour] + code);
  return css([...table.subarray(at, at + 3)].map((v) => v / 255));
}

function escaped(text) {
  return text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
}
