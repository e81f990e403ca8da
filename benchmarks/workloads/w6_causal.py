"""W6: causal attention of a network's size in float32: 4,096 queries, keys and values in R^64."""

import numpy as np

from benchmarks import peers, versions
from benchmarks.harness import OURS, Case, Engine, Goal, Run, Workload


def cases(quick: bool) -> list[Case]:
    return [Case("causal", {"n": 256 if quick else 4096, "d": 64})]


def setting(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """q, k, v in float32, and beta = d^{-1/2}."""
    q, k, v = np.random.default_rng(0).standard_normal((3, case["n"], case["d"])).astype(np.float32)
    return q, k, v, case["d"] ** -0.5


def _numpy(case: Case, dtype: type) -> Run:
    *arrays, beta = setting(case)
    q, k, v = (a.astype(dtype) for a in arrays)
    block = 256

    def run() -> np.ndarray:
        out = np.empty_like(v)
        for i in range(0, len(q), block):
            end = min(i + block, len(q))
            S = (dtype(beta) * q[i:end]) @ k[:end].T
            S[:, i:end][np.triu_indices(end - i, 1)] = -np.inf
            S -= S.max(axis=1, keepdims=True)
            np.exp(S, out=S)
            out[i:end] = (S @ v[:end]) / S.sum(axis=1, keepdims=True)
        return out

    return run


def metastable(case: Case) -> Run:
    q, k, v, beta = setting(case)
    return lambda: versions.attend(q, k, v, beta=beta, mask="causal").value


def torch_sdpa(case: Case) -> Run:
    torch = peers.need("torch")
    *arrays, beta = setting(case)
    q, k, v = (torch.from_numpy(a)[None, None] for a in arrays)

    def run() -> np.ndarray:
        with torch.inference_mode():
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=beta)[0, 0].numpy()

    return run


def torch_eager(case: Case) -> Run:
    torch = peers.need("torch")
    *arrays, beta = setting(case)
    q, k, v = (torch.from_numpy(a) for a in arrays)
    hidden = torch.ones(len(q), len(q), dtype=torch.bool).triu(1)

    def run() -> np.ndarray:
        with torch.inference_mode():
            return ((beta * (q @ k.T)).masked_fill_(hidden, -torch.inf).softmax(dim=1) @ v).numpy()

    return run


WORKLOAD = Workload(
    title="causal attention, float32",
    cases=cases,
    tolerance=1e-5,
    engines={
        "numpy float64, blocked": Engine(lambda case: _numpy(case, np.float64)),
        OURS: Engine(metastable, "engines.attend"),
        "numpy float32, blocked": Engine(lambda case: _numpy(case, np.float32)),
        "torch eager": Engine(torch_eager, "holds the n x n matrix"),
        "torch SDPA": Engine(torch_sdpa, "is_causal=True"),
    },
    goals=(Goal("speed over torch SDPA's", lambda t: t.faster("causal", "torch SDPA"), 1.0),),
)
