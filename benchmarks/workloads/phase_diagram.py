"""The published phase diagram: the share of pairs that have met, over beta and time, n = 32 tokens on the circle.

Its step is x -> N(x + 0.1 softmax(beta x x^T) x), its statistics the share of pairs i != j with <x_i, x_j> > 0.999,
in float64. Ours runs whole, in chunks, and keeps the shares alone; peers run the first betas.
"""

import numpy as np

from benchmarks import peers
from benchmarks.harness import OURS, Case, Engine, Goal, Outcome, Run, Workload

DT, MET = 0.1, 0.999


def cases(quick: bool) -> list[Case]:
    runs, betas = (32, 3) if quick else (2048, 90)
    steps, saves = (30, 20) if quick else (300, 200)
    return [Case("diagram", {"n": 32, "d": 2, "runs": runs, "betas": betas, "steps": steps, "saves": saves})]


def setting(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Betas, the same tokens for every beta, and the steps after which pairs are counted."""
    steps = np.ceil(np.linspace(0, case["steps"], case["saves"]) - 1e-9).astype(int)
    return np.linspace(0.1, 9.0, case["betas"]), peers.sphere((case["runs"], case["n"], 2)), np.maximum(steps, 1)


def metastable(case: Case) -> Run:
    import metastable as ms

    betas, x0, steps = setting(case)
    dynamics = ms.Dynamics(beta=np.repeat(betas, case["runs"]))
    tokens = np.tile(x0, (case["betas"], 1, 1))
    met = {"met": lambda run: run.observe("similarity_share", above=MET)}

    def run() -> np.ndarray:
        kept = ms.observe_many(dynamics, tokens, met, t=case["steps"] * DT, dt=DT, method="layers", save=steps * DT)
        return kept["met"].values.reshape(len(steps), len(betas), -1).mean(axis=2).T  # (betas, saves)

    return run


def published(case: Case) -> Run:
    """The published step and statistics in torch, one batch of all runs, for the first betas."""
    torch = peers.need("torch")
    betas, x0, steps = setting(case)
    part = max(1, case["betas"] // 45)
    apart = ~torch.eye(case["n"], dtype=torch.bool).expand(case["runs"], -1, -1)

    def shares(beta: float) -> list[float]:
        M, found = torch.from_numpy(x0), []
        wanted = set(steps.tolist())
        for k in range(1, case["steps"] + 1):
            S = torch.matmul(M, M.transpose(1, 2))
            S *= beta
            moved = torch.matmul(torch.nn.functional.softmax(S, dim=2), M)
            moved *= DT
            moved += M
            M = torch.nn.functional.normalize(moved, dim=2)
            if k in wanted:
                pairs = torch.matmul(M, M.transpose(1, 2))[apart]
                found.append(float((pairs > MET).sum() / len(pairs)))
        return found

    def run() -> Outcome:
        with torch.inference_mode():
            return Outcome(np.array([shares(float(beta)) for beta in betas[:part]]), share=part / len(betas))

    return run


def numpy_loop(case: Case) -> Run:
    betas, x0, steps = setting(case)
    i, j = np.triu_indices(case["n"], 1)

    def run() -> Outcome:
        x, found, wanted = x0, [], set(steps.tolist())
        for k in range(1, case["steps"] + 1):
            x = peers.unit(x + DT * peers.numpy_attend(x, betas[0]))
            if k in wanted:
                found.append(((x @ x.swapaxes(1, 2))[:, i, j] > MET).mean())
        return Outcome(np.array([found]), share=1 / len(betas))

    return run


WORKLOAD = Workload(
    title="the published phase diagram, d = 2",
    cases=cases,
    tolerance=1e-5,
    engines={
        "published step in torch": Engine(published, "statistics included"),
        OURS: Engine(metastable, "ms.simulate, 256 runs at a time, shares kept", once=True),
        "numpy": Engine(numpy_loop, "vectorised loop"),
    },
    goals=(
        Goal("faster per run than the published step", lambda t: t.faster("diagram", "published step in torch"), 2.5),
        Goal("memory", lambda t: t.row("diagram", OURS).megabytes, 2048.0, False, " MB"),
    ),
)
