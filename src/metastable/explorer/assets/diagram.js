// A phase diagram made of links: cells are coloured as their values arrive.

import { along } from "./palette.js";
import { short } from "./charts.js";

const VIRIDIS = ["#440154", "#3B528B", "#21918C", "#5EC962", "#FDE725"];

const state = { values: [] };

function paint() {
  const known = state.values.map((one) => one.value).filter(Number.isFinite);
  const low = Math.min(...known), high = Math.max(...known);
  for (const { cell, value } of state.values) {
    const share = high > low ? (value - low) / (high - low) : 0.5, colour = along(VIRIDIS, share);
    cell.style.background = `rgb(${colour.map((c) => Math.round(255 * c)).join(",")})`;
    cell.style.color = share > 0.55 ? "#111" : "#fff";
  }
}

window.labDiagram = {
  begin([xName, xs], [yName, ys]) {
    const root = document.getElementById("diagram");
    root.textContent = "";
    state.values = [];
    state.cells = {};
    root.style.gridTemplateColumns = `auto repeat(${xs.length}, minmax(0, 1fr))`;
    const add = (text, kind) => {
      const made = document.createElement(kind === "cell" ? "a" : "span");
      made.textContent = text;
      made.className = `lab-${kind}`;
      root.append(made);
      return made;
    };
    for (let j = ys.length - 1; j >= 0; j--) {
      add(short(ys[j]), "tick");
      for (let i = 0; i < xs.length; i++) {
        const cell = add("", "cell");
        cell.title = `${xName} = ${xs[i]}, ${yName} = ${ys[j]}`;
        state.cells[`${i},${j}`] = cell;
      }
    }
    add("", "tick");
    for (const x of xs) add(short(x), "tick");
    add(`across: ${xName}; up: ${yName}`, "axes");
  },
  cell(i, j, value, query) {
    const cell = state.cells[`${i},${j}`];
    if (!cell) return;
    cell.textContent = short(value);
    cell.title += `: ${value}`;
    cell.href = `/?${query}`;
    state.values.push({ cell, value });
    paint();
  },
};
