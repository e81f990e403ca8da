"""The tables of a sweep: what [sweep] says besides parameters, and [probe], the settings of a measured model."""

from typing import Annotated, Any

from pydantic import BeforeValidator

from metastable.config.named import split
from metastable.config.settings import Number, Simulate, Table, Times, Whole, setting


def _names(value: Any) -> Any:
    return split(value) if isinstance(value, str) else value


Names = Annotated[str | list[Any] | dict[str, Any] | None, BeforeValidator(_names)]


class SweepTable(Table):
    """What a sweep keeps and how it is run; every other name in [sweep] is a parameter."""

    observe: Names = setting("Sweep", "what to measure, separated by commas: clusters, similarity_share(above=0.999)")
    times: Times | None = setting("Sweep", "how many times to measure at, or which, separated by commas [31]")
    design: str = setting("Sweep", "of parameters that are drawn (0.5..9): random or latin", "grid")
    samples: Whole | None = setting("Sweep", "how many points are drawn")
    design_seed: Whole = setting("Sweep", "seed of the drawn points", 0)
    jobs: Whole | None = setting(
        "Workers", "worker processes; 0: none, in this process [cores for long sweeps, else 0]"
    )
    cluster: str | None = setting("Workers", "Dask: local, or a scheduler's address such as tcp://host:8786")
    limit: Number | None = setting("Workers", "seconds after which a chunk is given up [300, or 30 times the estimate]")
    out: str | None = setting("Output", "folder of the sweep [sweeps/NAME-FINGERPRINT]")


class Probe(Table):
    """A pretrained model whose tokens are observed layer by layer: a sweep's other target."""

    model: str = setting("Probe", "a zoo name, a folder, a file or a hub name")
    texts: str | list[str] = setting("Probe", "texts, or a corpus, file or folder of them [the model's own corpus]")
    text: Whole = setting("Probe", "which of the texts, from 0", 0)
    layers: Whole | None = setting("Probe", "how many layers [the trained depth]")
    longest: Whole = setting("Probe", "texts are cut to so many tokens", 1024)


class SweepFlags(SweepTable, Simulate):
    """The flags of `metastable sweep`: every setting of a run, with one value or several, and those of [sweep]."""
