"""Several particle systems that exchange their tokens: copies of a token pull each other together.

x_i^h' = P ( H sum_j A^h_ij V_h x_j^h + kappa (1/H) sum_g x_i^g ),     h = 1, ..., H, on the sphere
"""

from itertools import combinations

import numpy as np

from metastable.backend import Array, jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.equation.geometry import project, unit
from metastable.equation.weights import Weights
from metastable.models.agreement import adjusted_rand
from metastable.solve.methods import RK4
from metastable.solve.stepping import explicit_step


def coupled_velocity(members: Dynamics, x: Array, coupling: Array) -> Array:
    """Velocities (H, n, d) of H systems x (H, n, d); ``members`` is a stack of H one-head dynamics."""
    own = jax.vmap(lambda member, tokens: member.pull(0.0, tokens))(members, x)  # (H, n, d)
    return project(Weights(), jnp.zeros(()), x, len(x) * own + coupling * x.mean(axis=0))


@jax.jit
def coupled_flow(members: Dynamics, x: Array, coupling: Array, dt: Array, steps: Array) -> Array:
    """RK4 steps of many sets of coupled systems, on the sphere again after each; the tokens (b, H, n, d) at the end."""
    velocity = jax.vmap(coupled_velocity, (0, 0, None))

    def step(_: Array, x: Array) -> Array:
        return unit(explicit_step(RK4.tableau, lambda _, y: velocity(members, unit(y), coupling), 0.0, x, dt))

    end: Array = jax.lax.fori_loop(0, steps, step, x)
    return end


def systems(whole: Dynamics) -> Dynamics:
    """The heads of a dynamics as a stack of one-head dynamics, for `jax.vmap`."""
    w = whole.weights
    each = [Dynamics(Weights(w.Q[h], w.K[h], w.V[h]), whole.beta) for h in range(w.heads)]
    stacked: Dynamics = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(a, float) for a in leaves]), *each)
    return stacked


def steps_for(dt: float, coupling: float, t: float) -> int:
    """Enough steps for RK4 to be stable: dt kappa <= 1, and dt at most that of the flow.

    >>> steps_for(0.05, 64.0, 1.0)
    64
    """
    return int(np.ceil(t * max(1.0 / dt, coupling)))


def alike(labels: np.ndarray) -> float:
    """The mean adjusted Rand index of two systems' groupings (H, n): 1 for the same groups, about 0 by chance."""
    pairs = combinations(range(len(labels)), 2)
    return float(np.mean([adjusted_rand(labels[a], labels[b]) for a, b in pairs]))
