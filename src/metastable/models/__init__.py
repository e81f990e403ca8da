"""Pretrained transformers, measured with the same tools as the simulations.

The functions have the names of the files they live in; torch and transformers are imported when they are first used.
"""

from metastable.models.first_token import sinks
from metastable.models.heads import heads
from metastable.models.ladder import Ladder, ladder
from metastable.models.load import load
from metastable.models.pretrained import Model
from metastable.models.probe import Probe, probe, trajectory
from metastable.models.spectra import Spectra, spectra
from metastable.models.texts import texts

__all__ = [
    "Ladder",
    "Model",
    "Probe",
    "Spectra",
    "heads",
    "ladder",
    "load",
    "probe",
    "sinks",
    "spectra",
    "texts",
    "trajectory",
]
