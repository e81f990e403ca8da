// Colours that stay apart under deuteranopia and protanopia; red is kept for the first token.

const LIGHT = ["#0072B2", "#E69F00", "#009E73", "#AA4499", "#56B4E9", "#8C5A2B", "#332288", "#A3A500"];
const DARK = ["#4AA6E0", "#F2B134", "#2FC39A", "#DB83CC", "#9AD4F7", "#CD9663", "#A79BF5", "#CFD24A"];
const VIRIDIS = ["#440154", "#472D7B", "#3B528B", "#2C728E", "#21918C", "#28AE80", "#5EC962", "#ADDC30", "#E4E419"];
const HEAT_LIGHT = ["#DCE9F5", "#A9CCE6", "#5BA0CF", "#1F6FB2", "#0B3F80", "#061F47"];
const HEAT_DARK = ["#1B2735", "#1F4368", "#2A70AC", "#57A5DE", "#A9D6F5", "#F0F9FF"];

/** What each theme draws with; `lone` is a token outside every cluster. */
export const THEMES = {
  light: { paper: "#FFFFFF", ink: "#222222", soft: "#8A8A8A", faint: "#D5D9DE", lone: "#8A8A8A", first: "#D7261E",
           clusters: LIGHT, heat: HEAT_LIGHT, limit: "#0F7B6C", toward: ["#FFFFFF", "#000000"], rim: "#FFFFFF" },
  dark: { paper: "#14181D", ink: "#E6E9ED", soft: "#8D97A3", faint: "#333C46", lone: "#8D97A3", first: "#FF6B61",
          clusters: DARK, heat: HEAT_DARK, limit: "#4FD6BE", toward: ["#FFFFFF", "#14181D"], rim: "#14181D" },
};

/** "#RRGGBB" as three numbers from 0 to 1. */
export function rgb(hex) {
  return [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16) / 255);
}

function mixed(a, b, weight) {
  return a.map((value, k) => value * (1 - weight) + b[k] * weight);
}

/** A colour along a list of colours, for a share from 0 to 1. */
export function along(colours, share) {
  const place = Math.min(Math.max(share, 0), 1) * (colours.length - 1);
  const k = Math.min(Math.floor(place), colours.length - 2);
  return mixed(rgb(colours[k]), rgb(colours[k + 1]), place - k);
}

/** The colour of the cluster with this rank; beyond the palette, lighter and darker turns of it. */
export function clusterColour(theme, rank) {
  if (rank >= 255) return rgb(theme.lone);
  const turn = Math.floor(rank / theme.clusters.length) % 4;
  const [weight, toward] = [[0, 0], [0.45, 0], [0.35, 1], [0.65, 0]][turn];
  return mixed(rgb(theme.clusters[rank % theme.clusters.length]), rgb(theme.toward[toward]), weight);
}

/** Rows of a 256 x 3 texture: clusters by rank, places along the sequence, amounts of attention. */
export function paletteTexture(theme) {
  const pixels = new Uint8Array(256 * 3 * 4);
  for (let k = 0; k < 256; k++) {
    const rows = [clusterColour(theme, k), along(VIRIDIS, (k / 255) * 0.94), along(theme.heat, k / 255)];
    rows.forEach((colour, row) => pixels.set([...colour.map((c) => Math.round(255 * c)), 255], 4 * (256 * row + k)));
  }
  return pixels;
}

/** CSS text of a colour. */
export function css(colour, alpha = 1) {
  return `rgba(${colour.map((c) => Math.round(255 * c)).join(",")},${alpha})`;
}
