// Icons of the player, drawn on a 24 x 24 grid.

const PATHS = {
  play: "M7 4.5v15l12.5-7.5z",
  pause: "M6.5 4.5h4v15h-4zM13.5 4.5h4v15h-4z",
  start: "M5 5h2.6v14H5zM19.5 5v14L9 12z",
  back: "M15.5 5v14L6 12zM17 5h2v14h-2z",
  on: "M8.500 5v14l9.500-7zM5 5h2v14H5z",
  home: "M12 4l8.500 7.200-1.300 1.500L18 11.700V20h-5v-5h-2v5H6v-8.300l-1.200 1-1.300-1.500z",
  help: "M11 16.500h2.200v2.200H11zM12 5c2.600 0 4.300 1.500 4.300 3.700 0 2.800-3 3.200-3 5.800h-2.300c0-3.500 2.900-3.800 2.900-5.700 0-1-.7-1.700-1.900-1.700-1.300 0-2.100.8-2.200 2.100H7.500C7.600 6.600 9.300 5 12 5z",
  full: "M4 4h6v2H6v4H4zM14 4h6v6h-2V6h-4zM4 14h2v4h4v2H4zM18 14h2v6h-6v-2h4z",
};

/** An icon as text of SVG. */
export function icon(name) {
  return `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${PATHS[name]}"/></svg>`;
}
