"""One open page of the explorer: its state, and what happens when the state changes."""

from collections.abc import Callable, Mapping
from typing import Any

from nicegui import events, ui

from metastable.errors import InputError
from metastable.explorer.page_shell import call
from metastable.explorer.steering import (
    DEFAULTS,
    LABELS,
    State,
    eigenvalues_of,
    eigenvalues_text,
    moved_of,
    moved_text,
    settings_of,
    tidy,
    to_query,
)


class Session:
    """One open page: its state, and the controls that show it."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.client = ui.context.client  # scripts reach the page also when the button that asked is gone
        self.setters: dict[str, Callable[[Any], None]] = {}
        self.on_matrix: Callable[[], None] = lambda: None  # V or d changed: its sliders must follow
        self.quiet = False
        self.comparing: tuple[str, str] | None = None
        self.card: ui.element | None = None
        self.ready = False

    # --- changes --------------------------------------------------------------------------------------------------

    def change(self, name: str, value: Any) -> None:
        """A control was moved."""
        if self.quiet or value is None:
            return
        try:
            state = tidy({**self.state, name: value})
        except InputError as error:
            self.say(str(error))
            return
        if name in ("n", "d", "geometry", "initial", "seed"):
            state.pop("moved", None)
        if name == "d" and "," in str(state.get("V", "")) and "[" not in str(state.get("V", "")):
            state["V"] = eigenvalues_text(eigenvalues_of(state["V"], int(value))) or "identity"
        before, self.state = self.state, state
        if name in ("d", "V") or before.get("V") != state.get("V"):
            self.on_matrix()
            self.set_quietly({"V": state.get("V", "identity")})
        self.show()

    def apply(self, state: Mapping[str, Any], look: Mapping[str, Any], play: bool = True) -> None:
        """Another state as a whole: a preset, a step of the tour."""
        self.state = tidy(state)
        self.set_quietly({**DEFAULTS, **self.state})
        self.on_matrix()
        self.show()
        self.run(call("lab.stage", dict(look), play))

    def reseed(self) -> None:
        """Other tokens, looked at in the same way, from the start."""
        seed = (self.state.get("seed", 0) + 1) % 100
        self.set_quietly({"seed": seed})
        self.change("seed", seed)
        self.run("lab.again()")

    def quietly(self, act: Callable[[], None]) -> None:
        """Do something to the controls without taking it for a change."""
        self.quiet, before = True, self.quiet
        try:
            act()
        finally:
            self.quiet = before

    def set_quietly(self, values: Mapping[str, Any]) -> None:
        """Show values in the controls without taking them for changes."""
        known = {name: value for name, value in values.items() if name in self.setters}

        def put() -> None:
            for name, value in known.items():
                self.setters[name](value)

        self.quietly(put)

    def show(self) -> None:
        """Ask for the run of the state, and of its companion."""
        if not self.ready:
            return
        self.run(call("lab.show", "a", to_query(self.state)))
        if self.comparing:
            name, value = self.comparing
            try:
                other = tidy({**self.state, name: value})
                settings_of(other)
            except InputError as error:
                self.say(str(error))
                return
            self.run(f"lab.comparing = {call('String', f'{name}:{value}')}")
            label, own = LABELS.get(name, name), {**DEFAULTS, **self.state}[name]
            mine = f"{own:g}" if isinstance(own, float) else own
            self.run(call("lab.compare", to_query(other), f"B: {label} = {value}", f"A: {label} = {mine}"))

    def compare(self, name: str | None, value: str) -> None:
        """Show a second run that differs in one setting, or none."""
        self.comparing = (name, value) if name and value != "" else None
        if self.comparing is None:
            self.run("lab.comparing = ''")
            self.run(call("lab.compare", "", "", ""))
        self.show()

    def moved(self, event: events.GenericEventArguments) -> None:
        """A token was moved by hand in the scene."""
        token, value = int(event.args["token"]), [float(v) for v in event.args["value"]]
        moved = {**moved_of(self.state.get("moved", "")), token: value}
        self.change("moved", moved_text(dict(list(moved.items())[-64:])))

    def say(self, text: str) -> None:
        """A sentence under the scene."""
        if self.ready:
            self.run(call("lab.message", text, True))

    def run(self, script: str) -> None:
        """Run a script in this page."""
        self.client.run_javascript(f"if (window.lab) {{ {script} }}")
