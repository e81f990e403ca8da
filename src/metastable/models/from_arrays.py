"""Measure states and maps that somebody else computed: arrays, files, outputs of other libraries."""

from collections.abc import Sequence
from typing import Any

from metastable.models.array_inputs import as_model
from metastable.models.probe import Probe, probe


def from_arrays(
    states: Any,
    attention: Any = None,
    tokens: Any = None,
    measure: Sequence[str] | None = None,
    special: bool = True,
    bins: int = 100,
    name: str = "arrays",
) -> Probe:
    """Measure given states as ``probe`` measures a model's.

    Parameters
    ----------
    states : array (layer, token, d), list of such, mapping, or path
        Embedded tokens first, then the state after every layer. A list is several texts; an array with four axes is
        texts of one length; a tuple is ``hidden_states`` of ``transformers``, layer by layer with a batch axis. A
        mapping, or an ``.npz`` file, holds "states", "attention" and "tokens" by name (the outputs of ``transformers``
        and a cache of TransformerLens are such mappings), and "states_0", "states_1", ... for several texts.
    attention : array (layer, head, token, token), list of such, optional
        The maps after softmax: map l acts on state l. Without maps, similarities alone are measured.
    tokens : sequence of words or of ids, or a list of such, optional
        What the tokens are; without, every token counts as another.
    measure, special, bins
        As in ``metastable.models.probe``.
    name : str
        What messages call it.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((4, 10, 8))
    >>> found = from_arrays(x)
    >>> found.similarity["mean"].shape, found.trajectory.x.shape
    ((4, 2), (4, 10, 8))
    """
    model = as_model(states, attention, tokens, name)
    return probe(model, model.runs, measure=measure, special=special, bins=bins)
