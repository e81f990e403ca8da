"""Measure a pretrained model over many texts: similarities, heads and sinks in one pass."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.errors import InputError
from metastable.models.array_model import ArrayModel
from metastable.models.attention_ranks import attention_ranks
from metastable.models.common_texts import few
from metastable.models.controls import Controls, chosen, measure_controls, seeds_of
from metastable.models.load import load
from metastable.models.model import Given, Model, check_layers
from metastable.models.model_cards import given, similarity_card
from metastable.models.one_pass import Pass, measures_of
from metastable.models.run_cost import check_cost, check_memory
from metastable.models.rungs import rung
from metastable.models.stream import Progress
from metastable.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, eq=False, repr=False)
class Probe:
    """What was measured: one dataset per measure, None for those not requested.

    ``similarity``, ``heads`` and ``sinks`` are ``xarray.Dataset`` objects with the axis "layer"; see the ``result``
    methods of ``metastable.models.layer_similarity.Similarity``, ``heads.Heads`` and
    ``attention_sinks.Sinks`` for their variables. ``controls`` holds the same of the controls, None without any.
    The first text is also at hand as a ``Trajectory`` whose time is the layer: ``x``, ``t``, ``attention`` and
    ``observe`` are those of ``trajectory``, and ``ranks`` says how low the rank of the attention maps is; both are
    computed when first used. ``sample`` holds the inputs of which ranks and the ladder are taken.
    """

    model: Model
    layers: int
    texts: int
    tokens: int
    notes: tuple[str, ...]
    seconds: dict[str, float]
    first: Given
    sample: tuple[Given, ...]
    similarity: "xarray.Dataset | None" = None
    heads: "xarray.Dataset | None" = None
    sinks: "xarray.Dataset | None" = None
    controls: Controls | None = None

    def __repr__(self) -> str:
        read = f"{self.texts} text{'s' * (self.texts != 1)}, {self.tokens} tokens"
        return f"Probe({self.model!r}: {read}, {self.layers} layers)"

    def _repr_html_(self) -> str:
        read = f"{self.texts} text{'s' * (self.texts != 1)}, {self.tokens} tokens"
        rows = [("read", read), ("datasets", given(self, ("similarity", "heads", "sinks", "controls")))]
        return similarity_card("Probe", repr(self.model), self.similarity, rows + [("note", n) for n in self.notes[:3]])

    @cached_property
    def trajectory(self) -> Trajectory:
        """The first text's tokens through the layers."""
        return trajectory(self.model, self.first, self.layers, longest=self.model.longest)

    @cached_property
    def ranks(self) -> "xarray.Dataset | None":
        """Ranks of the attention maps of a few inputs (``metastable.models.attention_ranks``), None without maps."""
        given = few(self.sample) if self.model.heads else []
        return attention_ranks(self.model, given, self.layers) if given else None

    @property
    def t(self) -> np.ndarray:
        """The layers, 0 (embedded tokens) to the last."""
        return np.arange(self.layers + 1, dtype=float)

    @property
    def x(self) -> np.ndarray:
        """The first text's tokens (layer, token, coordinate)."""
        return self.trajectory.x

    def attention(self, index: int = -1) -> np.ndarray:
        """The first text's attention (h, n, n) as in ``Trajectory.attention``."""
        return self.trajectory.attention(index)

    @property
    def observe(self) -> Callable[..., Any]:
        """An observable of the first text, as in ``Trajectory.observe``."""
        return self.trajectory.observe


def probe(
    name: Any,
    texts: Any = None,
    layers: int | None = None,
    measure: Sequence[str] | None = None,
    special: bool = True,
    bins: int = 100,
    longest: int = 1024,
    resume: str | Path | None = None,
    progress: Progress | None = None,
    tokenizer: Any = None,
    control: str | Sequence[str] = (),
    seeds: int | Sequence[int] = 3,
) -> Probe:
    """Run texts through a model and measure how its tokens cluster and where its heads look.

    Parameters
    ----------
    name : str, Path, torch module, arrays or Model
        What ``metastable.models.load`` takes, or what it returned.
    texts : str or iterable of str, of token ids, of pictures or of arrays
        One text, or many; they are read one by one and may be a generator (a deep run is announced with what all take
        where they have a length, or a ``__length_hint__``). A vision model reads pictures (files, Pillow
        pictures, arrays), a model of sound arrays of its input features; given states, and a cache of
        TransformerLens, have their texts.
    layers : int, optional
        How many layers to run; the trained depth when left out. A model that shares its weights (ALBERT) can be run
        deeper than it was trained, by applying its block again.
    measure : sequence of {"similarity", "heads", "sinks"}, optional
        What to measure; everything that the model shows when left out.
    special : bool
        False leaves special tokens such as [CLS] out of similarities and head correlations (never out of sinks).
    bins : int
        Bins of the cosine histogram on [-1, 1].
    longest : int
        Texts are cut to this many tokens, or to the model's own limit if that is lower; ``notes`` says so.
    resume : path, optional
        A state file, written every ten seconds and at the end; with the same arguments a later call resumes from it.
    progress : function, optional
        Called with (texts done, texts in all or None) after every text.
    tokenizer : optional
        How a model that is already in memory reads text: a tokenizer of ``transformers``, for example.
    control : sequence of {"init", "shuffle", "tokens"}
        What to measure beside the model, on the same texts (``metastable.models.controls``): the architecture freshly
        initialised, with shuffled weights, or reading random tokens. Every control and seed is one more pass, with a
        state file of its own; texts given as a generator are kept in memory.
    seeds : int or sequence of int
        How many seeds of each control, or which.

    Examples
    --------
    >>> from metastable.models import probe, zoo
    >>> found = probe("reactions-albert", zoo.reactions()[:8], layers=96)  # doctest: +SKIP
    >>> float(found.similarity["share_above"].sel(layer=96, kind="raw", threshold=0.99)) > 0.01  # doctest: +SKIP
    True
    """
    model = name if isinstance(name, Model) else load(name, tokenizer=tokenizer)
    if texts is None and not isinstance(model, ArrayModel):
        raise InputError(f"What is {model.name!r} to read? Give texts, token ids, pictures or arrays.")
    texts = model.runs if texts is None and isinstance(model, ArrayModel) else texts
    depth = _depth(model, layers)
    limit = min(_whole("longest", longest), model.longest)
    wanted, left_out = measures_of(model, measure)
    plan = Pass(depth, limit, wanted, special, _whole("bins", bins))
    names, numbers = chosen(control), seeds_of(seeds)
    passes = 1 + len(names) * len(numbers)
    given: Iterable[Any] = [texts] if isinstance(texts, str) else list(texts) if names else texts
    if depth > model.depth:
        count = length_hint(given)
        given, first_text = _peeked(given)
        reading = model.read(first_text, limit)
        check_cost(model, reading.given if reading else [0], plan, count, passes)
    path = None if resume is None else Path(resume)

    def told(passed: int) -> Progress | None:
        if progress is None or passes == 1:
            return progress
        return lambda done, total: progress(passed * (total or 0) + done, total and passes * total)

    tally, found = plan.run(model, given, path, told(0))
    controls = None
    if isinstance(given, Sequence) and names:
        controls = measure_controls(
            model, given, names, numbers, limit, lambda other, read, at, k: plan.run(other, read, at, told(k))[1], path
        )
    notes = (*model.notes, *left_out, *tally.notes(limit), *(controls.notes if controls else ()))
    first = tuple(tally.first) if isinstance(tally.first, list) else tally.first
    seconds, sample = tally.seconds, tuple(tally.sample)
    return Probe(model, depth, tally.texts, tally.tokens, notes, seconds, first, sample, **found, controls=controls)


def _peeked(texts: Iterable[Any]) -> tuple[Iterable[Any], Any]:
    """The texts, and the first of them; an iterator is put together again."""
    if isinstance(texts, Sequence):
        return texts, texts[0] if texts else ()
    rest = iter(texts)
    first = next(rest, ())
    return chain([first], rest), first


def heads(
    name: Any,
    texts: Iterable[Any],
    layers: int | None = None,
    special: bool = True,
    resume: str | Path | None = None,
    progress: Progress | None = None,
) -> "xarray.Dataset":
    """Correlations and groups of attention heads over many texts, and the heat map of the first text.

    The options are those of ``metastable.models.probe``; the result is its ``heads`` dataset.

    Examples
    --------
    >>> from metastable.models import heads, zoo
    >>> found = heads("reactions-albert", zoo.reactions()[:20])  # doctest: +SKIP
    >>> found["correlation"].sizes["layer"]  # doctest: +SKIP
    12
    """
    found = probe(
        name, texts, layers=layers, special=special, measure=("heads",), resume=resume, progress=progress
    ).heads
    assert found is not None
    return found


def sinks(
    name: Any,
    texts: Iterable[Any],
    layers: int | None = None,
    resume: str | Path | None = None,
    progress: Progress | None = None,
) -> "xarray.Dataset":
    """Attention mass on first, separator and punctuation tokens, per layer and head, with its baselines.

    The options are those of ``metastable.models.probe``; the result is its ``sinks`` dataset.

    Examples
    --------
    >>> from metastable.models import sinks, zoo
    >>> found = sinks("reactions-albert", zoo.reactions()[:20])  # doctest: +SKIP
    >>> bool(found["excess"].sel(kind="first").max() > 1)  # doctest: +SKIP
    True
    """
    found = probe(name, texts, layers=layers, measure=("sinks",), resume=resume, progress=progress).sinks
    assert found is not None
    return found


def _depth(model: Model, layers: int | None) -> int:
    if layers is None:
        return model.depth
    depth = _whole("layers", layers)
    check_layers(model, depth)
    return depth


def _whole(name: str, value: int) -> int:
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise InputError(f"{name} must be a whole number >= 1, not {value!r}.")
    return int(value)


def trajectory(
    name: Any,
    text: Any,
    layers: int | None = None,
    longest: int = 1024,
    maps: bool = True,
) -> Trajectory:
    """One text's tokens through the layers of a model, as a ``Trajectory`` whose time is the layer.

    State l is ``hidden_states[l]`` of the library, and ``attention(l)`` is the map that acts on it, that of layer
    l + 1. A model that shares its weights comes as ``dynamics``, which computes the maps when they are requested; of
    other models the maps are stored (unless ``maps`` is False), and the last state shows the last map again. The text
    is cut to ``longest`` tokens, or to the model's own limit if that is lower.

    Examples
    --------
    >>> from metastable.models.probe import trajectory
    >>> run = trajectory("reactions-albert", "CCO.CC(=O)O>>CCOC(C)=O", layers=24)  # doctest: +SKIP
    >>> run.x.shape  # doctest: +SKIP
    (25, 23, 256)
    """
    model = name if isinstance(name, Model) else load(name)
    depth = _depth(model, layers)
    reading = model.read(text, min(_whole("longest", longest), model.longest))
    if reading is None:
        raise InputError("There is no text to read: the text given is empty.")
    states: list[np.ndarray] = []
    stored: list[np.ndarray] = []

    def store_map(layer: int, A: np.ndarray) -> None:
        if maps and not model.shared:  # otherwise a thousand layers of maps would fill the memory
            stored.append(A.copy())

    def store_state(layer: int, x: np.ndarray) -> None:
        if layer == 0:
            size = 2.5 * 8.0 * (depth + 1) * x.size  # states as they come, and together
            check_memory(f"The states of {depth} layers", size, "give fewer layers")
        states.append(x.copy())

    model.watch(reading.given, depth, store_state, store_map)
    made = {"model": model.name, "method": "layers", "discrete": True, "dt": 1.0, "dtype": model.dtype}
    return Trajectory(
        t=np.arange(depth + 1, dtype=float),
        x=np.stack(states).astype(np.float64),  # (layers + 1, n, d)
        dynamics=rung(model, 4, len(states[0]), depth) if model.shared else None,
        provenance=made | ({"ids": list(reading.given)} if isinstance(reading.given, list) else {}),
        kept_attention=np.stack([*stored, stored[-1]]) if stored else None,  # (layers + 1, h, n, n)
    )
