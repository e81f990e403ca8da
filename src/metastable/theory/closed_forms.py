"""Every exact solution, scalar equation and rate the package knows, in one place.

The numbers in the names' docstrings refer to the two papers; each function is tested against an independent
integrator or against multi-precision arithmetic.

| what | names |
| --- | --- |
| equal angles on the sphere | equiangular_rate, equiangular_time, equiangular_path, prelayernorm_rates |
| equal angles, normalisation schemes | scheme_rates, scheme_path |
| two tokens, two clusters | two_cluster_rate, two_cluster_time, two_cluster_log_time |
| causal attention | first_token_path, causal_second_token_rate, causal_second_token_time |
| linear rates | consensus_rates, causal_consensus_rates, mode_growth_rate, noise_threshold, fastest_mode |
| energy | interaction_energy, energy_rate, rotational_imbalance, largest_energy, uniform_energy |
| chance | hemisphere_probability, cap_mass, strong_centers, parked_centers_circle |
| random matrices | ginibre_dominant_positive_2d |
| R^d | rescaled, unscaled, uniform_attention_path, uniform_attention_rescaled_path, collapse_covariance |
| the line | two_token_line_rate, two_token_line_limit |
| discrete time | discrete_step, discrete_rescaled_step, hardmax_contraction |
"""

from metastable.errors import doors
from metastable.theory.equiangular import (
    equiangular_path,
    equiangular_rate,
    equiangular_time,
    prelayernorm_rates,
)
from metastable.theory.euclidean_forms import (
    collapse_covariance,
    discrete_rescaled_step,
    discrete_step,
    ginibre_dominant_positive_2d,
    rescaled,
    two_token_line_limit,
    two_token_line_rate,
    uniform_attention_path,
    uniform_attention_rescaled_path,
    unscaled,
)
from metastable.theory.scheme_forms import SCHEMES, scheme_path, scheme_rates
from metastable.theory.sphere_forms import (
    RENYI_PARKING_CONSTANT,
    cap_mass,
    causal_consensus_rates,
    consensus_rates,
    energy_rate,
    fastest_mode,
    first_token_path,
    hardmax_contraction,
    hemisphere_probability,
    interaction_energy,
    largest_energy,
    mode_growth_rate,
    noise_threshold,
    parked_centers_circle,
    rotational_imbalance,
    strong_centers,
    uniform_energy,
)
from metastable.theory.two_clusters import (
    causal_second_token_rate,
    causal_second_token_time,
    two_cluster_log_time,
    two_cluster_rate,
    two_cluster_time,
)

__all__ = [
    "RENYI_PARKING_CONSTANT",
    "SCHEMES",
    "cap_mass",
    "causal_consensus_rates",
    "causal_second_token_rate",
    "causal_second_token_time",
    "collapse_covariance",
    "consensus_rates",
    "discrete_rescaled_step",
    "discrete_step",
    "energy_rate",
    "equiangular_path",
    "equiangular_rate",
    "equiangular_time",
    "fastest_mode",
    "first_token_path",
    "ginibre_dominant_positive_2d",
    "hardmax_contraction",
    "hemisphere_probability",
    "interaction_energy",
    "largest_energy",
    "mode_growth_rate",
    "noise_threshold",
    "parked_centers_circle",
    "prelayernorm_rates",
    "rescaled",
    "rotational_imbalance",
    "scheme_path",
    "scheme_rates",
    "strong_centers",
    "two_cluster_log_time",
    "two_cluster_rate",
    "two_cluster_time",
    "two_token_line_limit",
    "two_token_line_rate",
    "uniform_attention_path",
    "uniform_attention_rescaled_path",
    "uniform_energy",
    "unscaled",
]

doors(globals())
