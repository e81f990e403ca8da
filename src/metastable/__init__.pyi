"""Types of the public names, which `__init__.py` imports on first use."""

from metastable import engines as engines
from metastable import initial as initial
from metastable import learning as learning
from metastable import models as models
from metastable import observables as observables
from metastable import plots as plots
from metastable import reduced as reduced
from metastable import sweeps as sweeps
from metastable import theory as theory
from metastable.continuum.density import density as density
from metastable.continuum.laws import Density as Density
from metastable.equation import blocks as blocks
from metastable.equation import geometry as geometry
from metastable.equation import masks as masks
from metastable.equation import noises as noises
from metastable.equation import normalise as normalise
from metastable.equation import positions as positions
from metastable.equation import scores as scores
from metastable.equation import weights as weights
from metastable.equation.blocks import Block as Block
from metastable.equation.dynamics import Dynamics as Dynamics
from metastable.equation.geometry import Geometry as Geometry
from metastable.equation.masks import Mask as Mask
from metastable.equation.noises import Noise as Noise
from metastable.equation.normalise import Normalisation as Normalisation
from metastable.equation.scores import Score as Score
from metastable.equation.weights import Weights as Weights
from metastable.errors import InputError as InputError
from metastable.learning.fitting import fit as fit
from metastable.solve import methods as methods
from metastable.solve.flow import flow as flow
from metastable.solve.observe import observe_many as observe_many
from metastable.solve.simulate import simulate as simulate
from metastable.solve.two_runs import compare as compare
from metastable.sweeps.sweeping import sweep as sweep
from metastable.theory.checking import check as check
from metastable.trajectory import Trajectory as Trajectory
from metastable.trajectory import load as load

__version__: str
