"""The steering column: sliders, choices and matrices, made from the table of controls."""

import json
import math
from typing import Any

from nicegui import events, ui

from metastable.explorer import presets
from metastable.explorer.lab_session import Session
from metastable.explorer.steering import (
    CONTROLS,
    DEFAULTS,
    LABELS,
    MATRICES,
    Control,
    eigenvalues_of,
    eigenvalues_text,
    tidy,
)

# a preset with the figure it is, which the chosen one shows in the sentence below
_OPTION = """<q-item v-bind="props.itemProps"><q-item-section><q-item-label>{{ props.opt.label }}</q-item-label>
<q-item-label class="lab-from">{{ %s[props.opt.value] }}</q-item-label></q-item-section></q-item>"""
THROTTLE = 0.03  # seconds between two events of a moving slider


class Column:
    """The controls of one page."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.eigen: ui.element | None = None
        session.on_matrix = self.show_eigenvalues

    def build(self) -> None:
        """The steering column."""
        with ui.element("div").classes("lab-side lab-steer"):
            self._preset_menu()
            for group in dict.fromkeys(control.group for control in CONTROLS):
                with ui.element("section").classes("lab-group").props(f'aria-label="{group}"'):
                    ui.html(f"<h2>{group}</h2>", sanitize=False)
                    for control in CONTROLS:
                        if control.group == group:
                            self._choice(control) if control.options else self._slider(control)
                    if group == "Attention":
                        self._matrices()
            self._companion()

    def _preset_menu(self) -> None:
        titles = {one.key: one.title for one in presets.PRESETS}
        with ui.element("section").classes("lab-group"):
            choice = ui.select(titles, label="Presets", on_change=self._preset)
            choice.props("dense outlined options-dense data-control=preset").classes("lab-wide")
            choice.add_slot("option", _OPTION % json.dumps([one.source for one in presets.PRESETS]))
            self.watch = ui.label("Choose a preset, or move anything.").classes("lab-watch")

    def _preset(self, event: events.ValueChangeEventArguments) -> None:
        found = presets.preset(str(event.value))
        if found is None or self.session.quiet:
            return
        self.watch.set_text(f"{found.watch} ({found.source})")
        if found.page != "/":
            ui.navigate.to(found.page)
            return
        self.session.apply(found.state, found.look)

    def _slider(self, control: Control) -> None:
        low, high = (math.log10(v) if control.log else v for v in (control.low, control.high))
        value = {**DEFAULTS, **self.session.state}[control.name]
        whole = isinstance(DEFAULTS[control.name], int)

        def inward(shown: float) -> float:
            return min(high, max(low, math.log10(max(shown, 1e-12)) if control.log else shown))

        def outward(place: float) -> float:
            number = 10**place if control.log else place
            return round(number) if whole else float(f"{number:.3g}")

        with ui.element("div").classes("lab-control").props(f'title="{control.help}"'):
            ui.label(control.label).classes("lab-name")
            number = ui.number(value=value, format=None).props(
                f'dense borderless input-class=lab-number aria-label="{control.label}" data-control={control.name}'
            )
            slider = ui.slider(min=low, max=high, step=control.step, value=inward(value))
            slider.props(f'dense aria-label="{control.label}" data-slider={control.name}')

        def from_slider(event: events.GenericEventArguments) -> None:
            if not self.session.quiet:
                shown = outward(float(event.args))
                self.session.quietly(lambda: number.set_value(shown))
                self.session.change(control.name, shown)

        def from_number(event: events.ValueChangeEventArguments) -> None:
            if not self.session.quiet and event.value is not None:
                self.session.quietly(lambda: slider.set_value(inward(float(event.value))))
                self.session.change(control.name, event.value)

        slider.on("update:model-value", from_slider, throttle=THROTTLE)
        number.on_value_change(from_number)
        self.session.setters[control.name] = lambda v: (number.set_value(v), slider.set_value(inward(float(v))), None)[
            -1
        ]

    def _choice(self, control: Control) -> None:
        value = {**DEFAULTS, **self.session.state}[control.name]
        options = list(dict.fromkeys([*control.options, value]))
        with ui.element("div").classes("lab-control lab-pick").props(f'title="{control.help}"'):
            ui.label(control.label).classes("lab-name")
            select = ui.select(options, value=value, on_change=lambda e: self.session.change(control.name, e.value))
            select.props(f'dense options-dense borderless aria-label="{control.label}" data-control={control.name}')

        def put(new: Any) -> None:
            if new not in select.options:
                select.set_options([*select.options, new])
            select.set_value(new)

        self.session.setters[control.name] = put

    def _matrices(self) -> None:
        for name in ("V", "Q", "K"):
            word = LABELS[name]
            help_ = "identity, a number, eigenvalues 1,0.5 or 1+2j,1-2j, a family such as 0.5*goe, rows [[1,0],[0,1]]"
            with ui.element("div").classes("lab-control lab-pick").props(f'title="{help_}"'):
                ui.label(word).classes("lab-name")
                field = ui.input(value=str({**DEFAULTS, **self.session.state}[name]), autocomplete=_suggestions())
                field.props(f'dense borderless debounce=400 aria-label="{word}" data-control={name}')
                field.on_value_change(lambda e, n=name: self.session.change(n, str(e.value).strip() or "identity"))
                self.session.setters[name] = field.set_value
                if name == "V":
                    with ui.element("div").classes("lab-chips"):
                        for label, text in MATRICES.items():
                            if text:
                                chip = ui.element("button").classes("lab-chip").props("type=button")
                                chip.on("click", lambda t=text: self.session.change("V", t))
                                with chip:
                                    ui.label(label)
                        head = ui.element("button").classes("lab-chip").props("type=button")
                        head.on("click", lambda: self.session.change("V", "model:reactions-albert/head=4/top=3"))
                        with head:
                            ui.label("real head")
            if name == "V":
                self.eigen = ui.element("div").classes("lab-eigen")
                self.show_eigenvalues()

    def show_eigenvalues(self) -> None:
        """Sliders of V's eigenvalues; two that turn together are a complex pair."""
        if self.eigen is None:
            return
        full = {**DEFAULTS, **self.session.state}
        values = eigenvalues_of(str(full["V"]), int(full["d"]))
        self.eigen.clear()
        with self.eigen:
            k = 0
            while k < len(values):
                pair = k + 1 < len(values) and values[k].imag != 0
                self._eigenvalue(values, k, "λ" + "₁₂₃₄₅₆₇₈"[k] + ("," + "₁₂₃₄₅₆₇₈"[k + 1] if pair else ""), pair)
                k += 2 if pair else 1
            if values and len(values) > 1:
                turn = ui.element("button").classes("lab-chip").props("type=button")
                turning = values[0].imag != 0
                turn.on("click", lambda: self._pair(values))
                with turn:
                    ui.label("λ₁, λ₂ real" if turning else "λ₁, λ₂ a complex pair")

    def _eigenvalue(self, values: list[complex], k: int, label: str, pair: bool) -> None:
        def moved(part: str, number: float) -> None:
            re, im = values[k].real, values[k].imag
            re, im = (number, im) if part == "re" else (re, number)
            values[k] = complex(re, im)
            if pair:
                values[k + 1] = complex(re, -im)
            self.session.state = tidy({**self.session.state, "V": eigenvalues_text(values)})
            self.session.set_quietly({"V": self.session.state.get("V", "identity")})
            self.session.show()

        for part, word in (("re", f"Re {label}" if pair else label), ("im", f"Im {label}"))[: 2 if pair else 1]:
            with ui.element("div").classes("lab-control"):
                ui.label(word).classes("lab-name")
                shown = ui.label(f"{getattr(values[k], 'real' if part == 're' else 'imag'):.2f}").classes("lab-value")
                low = -2.0 if part == "re" else 0.05
                slider = ui.slider(min=low, max=3.0 if part == "im" else 2.0, step=0.05,
                                   value=values[k].real if part == "re" else abs(values[k].imag))  # fmt: skip
                slider.props(f'dense aria-label="{word}" data-slider=eigen-{part}-{k}')

                def slid(event: events.GenericEventArguments, p: str = part, box: ui.label = shown) -> None:
                    box.set_text(f"{float(event.args):.2f}")
                    moved(p, float(event.args))

                slider.on("update:model-value", slid, throttle=THROTTLE)

    def _pair(self, values: list[complex]) -> None:
        if values[0].imag:
            values[0] = values[1] = complex(values[0].real)
        else:
            values[0], values[1] = complex(values[0].real, 1.0), complex(values[0].real, -1.0)
        self.session.change("V", eigenvalues_text(values))

    def _companion(self) -> None:
        """The controls of the second run."""
        with ui.element("section").classes("lab-group").props('aria-label="Compare"'):
            ui.html("<h2>Compare</h2>", sanitize=False)
            names = {"": "one run", **LABELS}
            chosen, value = self.session.comparing or ("", "")
            pick = ui.select(names, value=chosen, label="differs in").props(
                "dense outlined options-dense data-control=compare"
            )
            other = ui.input("value in B", value=value).props("dense outlined debounce=400 data-control=compare-value")
            for one in (pick, other):
                one.classes("lab-wide")
            pick.on_value_change(lambda: self.session.compare(pick.value, str(other.value).strip()))
            other.on_value_change(lambda: self.session.compare(pick.value, str(other.value).strip()))


def _suggestions() -> list[str]:
    return [text for text in MATRICES.values() if text] + [
        "1,0.5,-0.5",
        "1+2j,1-2j,0.5",
        "model:reactions-albert/head=4/top=3",
    ]
