"""Pictures: one look, one function per kind of picture, arrays in, Figure out; files written whole or not at all.

`PLOTS` names the pictures of a run that `Trajectory.plot` and the command line can draw.
"""

from metastable.errors import doors
from metastable.plots.attention_maps import attention_maps, heatmap
from metastable.plots.clouds import attention_clouds
from metastable.plots.colours import identity_colours
from metastable.plots.density_plots import density_picture
from metastable.plots.draw import PLOTS, Plot, plot
from metastable.plots.eigenvalues import eigenvalues
from metastable.plots.figure_files import save_cells, save_figure, save_preview
from metastable.plots.film import animate
from metastable.plots.histograms import histograms
from metastable.plots.inline_film import Film, film
from metastable.plots.overlay import overlay
from metastable.plots.phase import phase_diagram
from metastable.plots.polytopes import hull_edges, polytope
from metastable.plots.series import agreement, projections, series
from metastable.plots.snapshots import snapshots
from metastable.plots.style import PALETTE, SIZES, paper, slides
from metastable.plots.text_table import table
from metastable.plots.trajectories import trajectories

__all__ = [
    "PALETTE",
    "PLOTS",
    "SIZES",
    "Film",
    "Plot",
    "agreement",
    "animate",
    "attention_clouds",
    "attention_maps",
    "density_picture",
    "eigenvalues",
    "film",
    "heatmap",
    "histograms",
    "hull_edges",
    "identity_colours",
    "overlay",
    "paper",
    "phase_diagram",
    "plot",
    "polytope",
    "projections",
    "save_cells",
    "save_figure",
    "save_preview",
    "series",
    "slides",
    "snapshots",
    "table",
    "trajectories",
]

doors(globals())
