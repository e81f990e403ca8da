"""One file per figure or theorem of the two papers; `metastable reproduce` runs them."""

from importlib import import_module
from typing import Any

from metastable.errors import unknown

# name -> file; the order is that of the gallery
EXPERIMENTS: dict[str, str] = {
    "low-rank-attention": "low_rank_attention",
    "boolean-beyond": "boolean_beyond",
    "special-starts": "special_starts",
    "polytope": "polytope",
    "settling-time": "settling_time",
    "hyperplanes": "hyperplanes",
    "flats": "flats",
    "codimension": "codimension",
    "polytope-times-subspace": "polytope_times_subspace",
    "collapse": "collapse",
    "beyond-positive-definite": "beyond_positive_definite",
    "discrete-time": "discrete_time",
    "multi-head": "multi_head",
    "multi-head-sphere": "multi_head_sphere",
    "rank-collapse": "rank_collapse",
    "ginibre": "ginibre",
    "mean-field": "mean_field",
    "mean-field-space": "mean_field_space",
    "density": "infinitely_many",
    "noise": "noise_against_order",
    "normalisation-schemes": "normalisation_schemes",
    "long-context": "long_context",
    "scales": "time_scales",
    "neighbours": "neighbours",
    "neural-collapse": "neural_collapse",
    "limit-geometry": "limit_geometry",
    "single-cluster": "single_cluster",
    "metastable-states": "metastable_states",
    "repulsion-circle": "repulsion_circle",
    "repulsion-sphere": "repulsion_sphere",
    "first-token": "first_token",
    "sinks": "sinks",
    "temperature": "temperature",
    "gradient-flow": "gradient_flow",
    "phase-diagram": "phase_diagram",
    "lifetimes": "lifetimes",
    "causal-leaders": "causal_leaders",
    "instability": "instability",
    "spectra": "eigenvalue_maps",
    "optimal-control": "optimal_control",
    "optimised-mlp": "optimised_mlp",
    "sinks-in-training": "sinks_in_training",
    "model-similarities": "model_similarity",
    "model-heads": "model_heads",
    "model-controls": "model_controls",
    "model-eigenvalues": "model_dynamics",
    "model-spectra": "model_spectra",
    "model-sharing": "model_sharing",
    "model-residual": "model_residual",
    "model-ranks": "model_ranks",
    "model-simplex": "model_simplex",
    "model-eigenspaces": "model_eigenspaces",
    "best-particle-system": "model_best_system",
}


def experiment(name: str) -> Any:
    """The experiment behind a name."""
    if name not in EXPERIMENTS:
        raise unknown("experiment", name, EXPERIMENTS)
    return import_module(f"metastable.experiments.{EXPERIMENTS[name]}").EXPERIMENT
