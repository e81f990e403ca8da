"""Pretrained transformers, measured with the same tools as the simulations.

Torch and transformers are imported when they are first used.
"""

from metastable.errors import doors
from metastable.models.from_arrays import from_arrays
from metastable.models.ladder import Ladder, ladder
from metastable.models.load import load
from metastable.models.model import Model
from metastable.models.probe import Probe, heads, probe, sinks, trajectory
from metastable.models.spectra import Spectra, spectra
from metastable.models.texts import texts

__all__ = [
    "Ladder",
    "Model",
    "Probe",
    "Spectra",
    "from_arrays",
    "heads",
    "ladder",
    "load",
    "probe",
    "sinks",
    "spectra",
    "texts",
    "trajectory",
]

doors(globals())
