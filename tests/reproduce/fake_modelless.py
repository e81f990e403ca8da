"""An experiment that found its model gone while it ran."""

from dataclasses import replace

import numpy as np

from metastable.experiments import model_access
from metastable.experiments.base import Data, Work
from tests.reproduce.fakes import Params
from tests.reproduce.fakes import make as _make


def run(params: Params, work: Work) -> Data:
    return {model_access.SKIPPED: np.array("The shelf is empty.")}


EXPERIMENT = replace(
    _make("modelless"),
    run=run,
    judge=lambda params, data: model_access.skipped("It is there.", "nowhere", data),
    draw=lambda params, data: {},
    films=None,
    finding=None,
)
