// Small charts on canvas: a line over time, a histogram, a matrix, points in the complex plane.

import { along, css, rgb } from "./palette.js";

const PAD = { left: 42, right: 8, top: 6, bottom: 16 };

/** A canvas at the screen's resolution, cleared; null while it is not shown. */
export function sheet(canvas) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2), width = canvas.clientWidth, height = canvas.clientHeight;
  if (!width || !height) return null;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "10px system-ui, sans-serif";
  return { pen, width, height };
}

export function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

function range(lines, log) {
  let low = Infinity, high = -Infinity;
  for (const { values } of lines) for (const v of values) {
    if (!Number.isFinite(v) || (log && v <= 0)) continue;
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  if (low > high) return null;
  if (low === high) return log ? [Math.log(low / 2), Math.log(2 * low), low] : [low - 0.5, low + 0.5, low];
  if (log) return [Math.log(low), Math.log(high)];
  return [low - 0.04 * (high - low), high + 0.06 * (high - low)];
}

/** Lines over the film, with the play-head. `clock` gives the share of the film at a time. */
export function drawLines(canvas, { t, lines, log = false, steps = false, marks = [] }, clock, share, theme) {
  const page = sheet(canvas);
  if (!page) return;
  const { pen, width, height } = page, span = range(lines, log);
  const x = (time) => PAD.left + clock.shareOf(time) * (width - PAD.left - PAD.right);
  const y = (v) => {
    const value = log ? Math.log(Math.max(v, 1e-300)) : v;
    return height - PAD.bottom - ((value - span[0]) / (span[1] - span[0] || 1)) * (height - PAD.top - PAD.bottom);
  };
  pen.strokeStyle = theme.faint;
  pen.strokeRect(PAD.left + 0.5, PAD.top + 0.5, width - PAD.left - PAD.right - 1, height - PAD.top - PAD.bottom - 1);
  pen.fillStyle = theme.soft;
  if (span) {
    const [low, high, only] = span;
    pen.textAlign = "right";
    if (only !== undefined) pen.fillText(short(only), PAD.left - 4, y(only) + 3); // one value: no scale to show
    else {
      pen.fillText(short(log ? Math.exp(high) : high), PAD.left - 4, PAD.top + 9);
      pen.fillText(short(log ? Math.exp(low) : low), PAD.left - 4, height - PAD.bottom);
    }
    for (const { values, colour, faint } of lines) {
      pen.beginPath();
      pen.strokeStyle = colour;
      pen.globalAlpha = faint ? 0.4 : 1;
      pen.lineWidth = 1.6;
      let open = false;
      values.forEach((v, k) => {
        if (!Number.isFinite(v) || (log && v <= 0)) return void (open = false);
        if (open && steps) pen.lineTo(x(t[k]), y(values[k - 1]));
        if (open) pen.lineTo(x(t[k]), y(v));
        else pen.moveTo(x(t[k]), y(v));
        open = true;
      });
      pen.stroke();
    }
    pen.globalAlpha = 1;
    pen.textAlign = "center";
    for (const [text, from, to, value] of only === undefined ? marks : []) {
      const above = y(value) - 4, fits = above - 9 > 0; // a mark at the top goes below its line
      if (x(to) - x(from) > 26) pen.fillText(text, (x(from) + x(to)) / 2, fits ? above : y(value) + 12);
    }
  }
  const head = PAD.left + share * (width - PAD.left - PAD.right);
  pen.strokeStyle = theme.ink;
  pen.globalAlpha = 0.7;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(head, PAD.top);
  pen.lineTo(head, height - PAD.bottom);
  pen.stroke();
  pen.globalAlpha = 1;
  pen.textAlign = "left";
  pen.fillText(short(clock.time(0)), PAD.left, height - 4);
  pen.textAlign = "right";
  pen.fillText(short(clock.time(1)), width - PAD.right, height - 4);
}

/** The share of the film under a point of a line chart. */
export function shareAt(canvas, x) {
  return Math.min(1, Math.max(0, (x - PAD.left) / (canvas.clientWidth - PAD.left - PAD.right)));
}

/** Bars over a range. */
export function drawBars(canvas, bars, [low, high], theme) {
  const page = sheet(canvas);
  if (!page) return;
  const { pen, width, height } = page, inner = width - PAD.left - PAD.right, tall = height - PAD.top - PAD.bottom;
  const most = Math.max(1e-12, ...bars);
  pen.fillStyle = theme.clusters[0];
  bars.forEach((value, k) => {
    const share = Math.sqrt(value / most);
    pen.fillRect(PAD.left + (k * inner) / bars.length, PAD.top + tall * (1 - share), Math.max(1, inner / bars.length - 1), tall * share);
  });
  pen.fillStyle = theme.soft;
  pen.strokeStyle = theme.faint;
  pen.strokeRect(PAD.left + 0.5, PAD.top + 0.5, inner - 1, tall - 1);
  pen.textAlign = "left";
  pen.fillText(short(low), PAD.left, height - 4);
  pen.textAlign = "center";
  pen.fillText(short((low + high) / 2), PAD.left + inner / 2, height - 4);
  pen.textAlign = "right";
  pen.fillText(short(high), width - PAD.right, height - 4);
  pen.fillText(`${Math.round(100 * most)}%`, PAD.left - 4, PAD.top + 9);
}

/** A matrix of bytes (n, n) as an image, rows down. */
export function drawMatrix(canvas, bytes, n, theme) {
  const page = sheet(canvas);
  if (!page) return;
  const { pen, width, height } = page, side = Math.min(width, height);
  const image = new ImageData(n, n), table = heatTable(theme);
  for (let k = 0; k < n * n; k++) image.data.set(table[bytes[k]], 4 * k);
  const small = new OffscreenCanvas(n, n);
  small.getContext("2d").putImageData(image, 0, 0);
  pen.imageSmoothingEnabled = n > side;
  pen.drawImage(small, (width - side) / 2, 0, side, side);
  pen.strokeStyle = theme.faint;
  pen.strokeRect((width - side) / 2 + 0.5, 0.5, side - 1, side - 1);
}

const tables = new Map();

/** 256 colours of the heat scale, from the paper on; square-root so that small attention is seen. */
export function heatTable(theme) {
  if (!tables.has(theme)) {
    const colours = [theme.paper, ...theme.heat];
    tables.set(theme, Array.from({ length: 256 }, (_, k) => [...along(colours, Math.sqrt(k / 255)).map((c) => Math.round(255 * c)), 255]));
  }
  return tables.get(theme);
}

/** Eigenvalues in the complex plane. */
export function drawSpectrum(canvas, values, theme) {
  const page = sheet(canvas);
  if (!page) return;
  const { pen, width, height } = page;
  const reach = 1.15 * Math.max(1, ...values.map(([a, b]) => Math.max(Math.abs(a), Math.abs(b))));
  const unit = Math.min(width, height) / 2 / reach, x = (a) => width / 2 + a * unit, y = (b) => height / 2 - b * unit;
  pen.strokeStyle = theme.faint;
  pen.beginPath();
  pen.moveTo(0, y(0));
  pen.lineTo(width, y(0));
  pen.moveTo(x(0), 0);
  pen.lineTo(x(0), height);
  pen.stroke();
  pen.beginPath();
  pen.arc(x(0), y(0), unit, 0, 2 * Math.PI);
  pen.stroke();
  pen.fillStyle = theme.soft;
  pen.textAlign = "left";
  pen.fillText("1", x(1) + 3, y(0) - 3);
  pen.fillText("i", x(0) + 4, y(1) - 3);
  pen.fillStyle = css(rgb(theme.clusters[0]), values.length > 40 ? 0.5 : 0.85);
  for (const [a, b] of values) {
    pen.beginPath();
    pen.arc(x(a), y(b), values.length > 40 ? 2.5 : 5, 0, 2 * Math.PI);
    pen.fill();
  }
}
