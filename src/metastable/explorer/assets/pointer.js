// Mouse, pen and fingers on the scene: rotate or shift, zoom, ask a token its name, move a token.

const SLIP = 3; // pixels that a click may slip: less is no drag, and a touch asks the token its name

/** Attach to a player. With `player.options.draggable`, tokens at the first time can be moved. */
export function listen(player) {
  const stage = player.canvas, held = new Map();
  let moved = -1, gap = 0, from = null; // `from` until the pointer has left the place where it took a token

  const spot = (event) => {
    const box = stage.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const spread = () => {
    const [a, b] = [...held.values()];
    return Math.hypot(a[0] - b[0], a[1] - b[1]);
  };

  stage.addEventListener("pointerdown", (event) => {
    held.set(event.pointerId, spot(event));
    stage.setPointerCapture(event.pointerId);
    player.root.focus({ preventScroll: true });
    const atStart = player.clock && player.clock.share === 0;
    moved = player.options.draggable && atStart && held.size === 1 ? player.tokenAt(...spot(event)) : -1;
    from = spot(event);
    if (held.size === 2) gap = spread();
  });

  stage.addEventListener("pointermove", (event) => {
    const now = spot(event), before = held.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch") player.tip(...now);
      return;
    }
    held.set(event.pointerId, now);
    if (held.size === 2) {
      const wide = spread();
      player.zoom(wide / (gap || wide));
      gap = wide;
    } else if (moved >= 0) {
      if (from && Math.hypot(now[0] - from[0], now[1] - from[1]) > SLIP) from = null;
      if (!from) drag(player, moved, now);
    } else turn(player, now[0] - before[0], now[1] - before[1]);
  });

  const release = (event) => {
    if (!held.delete(event.pointerId)) return;
    if (moved >= 0 && !from) player.emit("moved", { token: moved, position: player.scene.position(moved, { k: 0, u: 0 }) });
    else if (event.pointerType === "touch") player.tip(...spot(event));
    moved = -1;
  };
  stage.addEventListener("pointerup", release);
  stage.addEventListener("pointercancel", release);
  stage.addEventListener("pointerleave", () => held.size || player.tip(-1e4, -1e4));

  stage.addEventListener("wheel", (event) => {
    // a page must still scroll over the player: zoom only once it has been used
    if (!event.ctrlKey && !player.root.contains(document.activeElement)) return;
    event.preventDefault();
    player.zoom(Math.exp(-0.0012 * event.deltaY));
  }, { passive: false });
}

function turn(player, dx, dy) {
  if (!player.run) return;
  const { camera, canvas, ratio } = player.scene;
  if (player.run.flat) {
    camera.shift[0] += (2 * dx * ratio) / canvas.width;
    camera.shift[1] -= (2 * dy * ratio) / canvas.height;
  } else camera.turn(0.4 * dx, 0.4 * dy);
  player.request();
  player.emit("look", player.looks());
}

function drag(player, i, [x, y]) {
  const p = player.lift(x, y, i), { tokens } = player.run;
  tokens.set(p, 3 * i);
  player.scene.fill("tokens", tokens);
  player.request();
}
