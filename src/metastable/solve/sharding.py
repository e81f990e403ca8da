"""One run on several devices: tokens laid out over them, everything else by JAX's own partitioner."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.errors import InputError


def shard_tokens(x0: Any, devices: Sequence[Any] | None = None) -> Any:
    """Tokens (..., n, d) with n shared out evenly over devices; give them to `metastable.flow`.

    Each device then moves its own tokens: it needs the keys of all, which are exchanged once per evaluation (n d
    numbers), and holds n / devices rows of scores. Results are those of one device up to rounding.

    Parameters
    ----------
    x0 : array (..., n, d)
    devices : sequence of jax devices, optional
        All of them by default. On a CPU several can be made with
        ``XLA_FLAGS=--xla_force_host_platform_device_count=4``.

    Examples
    --------
    >>> import metastable as ms
    >>> x = shard_tokens(ms.initial.sphere(8, 3))
    >>> ms.flow(ms.Dynamics(), x, [1.0]).shape
    (1, 8, 3)
    """
    chosen = list(jax.devices() if devices is None else devices)
    x = jnp.asarray(x0)
    if x.ndim < 2 or x.shape[-2] % len(chosen):
        raise InputError(
            f"Tokens of shape {tuple(x.shape)} cannot be shared out evenly over {len(chosen)} devices; "
            "n must be a multiple of their number."
        )
    mesh = jax.sharding.Mesh(np.array(chosen), ("tokens",))
    layout = jax.sharding.PartitionSpec(*[None] * (x.ndim - 2), "tokens", None)
    return jax.device_put(x, jax.sharding.NamedSharding(mesh, layout))
