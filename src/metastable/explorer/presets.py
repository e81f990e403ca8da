"""One click each: the papers' figures and every experiment of the gallery, with a sentence on what to watch.

The papers' texts show or name Figs 1 to 8 of the first, and 1 to 8, 10, 11 and 13 to 15 of the second.

A preset is a state (see `steering`) and a look. Experiments on pretrained models open the page of models instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_CAUSAL = {"mask": "causal"}
_CUBE = {"n": 40, "geometry": "rescaled", "beta": 1.0}
_V6 = "[[0.64709742, 0.81911926], [0.61210449, 0.63263484]]"
_V7 = "[[0.92761287, 0.94333073, 0.3827744], [0.94333073, 0.59991396, 0.47825472], [0.3827744, 0.47825472, 0.46668605]]"
_V13 = "[[0.2362413, 0.0599536, 0.40506019], [0.81321448, 0.49948705, 0.33754772], [0.2160645, 0.38505272, 0.14588075]]"
_V14 = (
    "[[0.18608476, 0.34391026, 0.13905949], [0.35244288, 0.6694859, 0.39992145], [0.46685606, 0.17094454, 0.42092308]]"
)


@dataclass(frozen=True)
class Preset:
    """A state to start from.

    ``experiments`` are names of `metastable.experiments.EXPERIMENTS` it stands for; ``page`` is where it opens.
    """

    key: str
    title: str
    source: str
    watch: str
    state: Mapping[str, Any] = field(default_factory=dict)
    experiments: tuple[str, ...] = ()
    look: Mapping[str, Any] = field(default_factory=dict)
    page: str = "/"


FIRST, SECOND = "Clustering in transformers", "The emergence of clusters"

PRESETS: tuple[Preset, ...] = (
    Preset("one-cluster", "One cluster at β = 1", f"{FIRST}, Fig. 3",
           "All tokens end in one point: the first token, in red, which never moves.",
           {**_CAUSAL, "beta": 1.0}, ("single-cluster",)),
    Preset("metastable", "Several clusters at β = 9", f"{FIRST}, Fig. 4",
           "Tokens gather in a handful of clusters that then hardly move: a metastable state.",
           {**_CAUSAL, "beta": 9.0}, ("metastable-states",)),
    Preset("metastable-long", "A metastable state ends", f"{FIRST}, sec. 4.2.2",
           "With logarithmic time the clusters of β = 9 merge one by one: look at the steps of their number.",
           {"mask": "full", "beta": 9.0, "t": 400.0}, (), {"log": True}),
    Preset("temperature", "Clusters over β", f"{FIRST}, Figs 3 and 4",
           "Move β: more clusters where attention is sharper. Nothing special happens at one value.",
           {**_CAUSAL, "beta": 4.0}, ("temperature",)),
    Preset("repulsion-circle", "Repulsion on the circle", f"{FIRST}, Fig. 5",
           "V = -I: tokens spread over the circle instead of clustering.",
           {**_CAUSAL, "d": 2, "beta": 1.0, "V": "-1", "t": 15.0}, ("repulsion-circle",)),
    Preset("repulsion-sphere", "Repulsion on the sphere", f"{FIRST}, Fig. 6",
           "The same on the sphere: every token flees those before it.",
           {**_CAUSAL, "beta": 9.0, "V": "-1", "t": 15.0}, ("repulsion-sphere",)),
    Preset("first-token", "The first token's path", f"{FIRST}, Fig. 8",
           "With a random V the first token, in red, moves alone, and the others follow where it goes.",
           {**_CAUSAL, "beta": 1.0, "V": "ginibre", "t": 12.0}, ("first-token",), {"trails": True}),
    Preset("sinks", "Is the first token a sink?", f"{FIRST}, sec. 5",
           "Colour by attention received: early tokens receive more because more tokens see them.",
           {**_CAUSAL, "beta": 3.0}, ("sinks",), {"colour": "attention"}),
    Preset("gradient-flow", "Attention climbs an energy", f"{FIRST}, sec. 3",
           "The energy panel only rises, because V = Q = K = I and everybody sees everybody.",
           {"normalise": "unnormalised", "beta": 2.0, "t": 30.0}, ("gradient-flow",)),
    Preset("model-eigenvalues", "A real head's eigenvalues", f"{FIRST}, Fig. 7",
           "Particles moved by the three leading eigenvalues of a head of a trained model.",
           {**_CAUSAL, "beta": 1.0, "V": "model:reactions-albert/head=4/top=3"}, ("model-eigenvalues",)),
    Preset("line", "Leaders on the line", f"{SECOND}, Figs 2 and 3",
           "The left-most and right-most tokens end with everybody's attention: the matrix becomes Boolean, of rank 2.",
           {**_CUBE, "d": 1, "t": 5.0}, ("low-rank-attention",)),
    Preset("low-rank-high", "Low rank in eighty dimensions", f"{SECOND}, Fig. 11",
           "The same in d = 80 with V = MMᵀ: watch the attention matrix lose all but a few columns.",
           {**_CUBE, "d": 80, "V": "psd", "initial": "cube(side=1)", "t": 11.0}),
    Preset("keys", "Attention in the plane", f"{SECOND}, Fig. 4",
           "Few tokens lead, and the attention matrix keeps only their columns.",
           {**_CUBE, "n": 20, "d": 2, "V": "psd", "Q": "psd", "initial": "cube(side=1)", "t": 10.0},
           (), {"links": True}),
    Preset("polytope", "Tokens tend to a polytope", f"{SECOND}, Figs 1 and 5",
           "V = I: rescaled tokens go to the vertices of a convex polytope, drawn in green.",
           {**_CUBE, "t": 8.0}, ("polytope",)),
    Preset("polytope-plane", "A polygon in the plane", f"{SECOND}, Theorem 3.1",
           "The same in the plane: drag a corner before the start and watch the polygon follow.",
           {**_CUBE, "d": 2, "t": 8.0}),
    Preset("hyperplanes", "Three parallel lines", f"{SECOND}, Fig. 6",
           "A simple leading eigenvalue: tokens end on at most three parallel lines.",
           {**_CUBE, "d": 2, "V": _V6, "t": 12.0}, ("hyperplanes",)),
    Preset("hyperplanes-space", "Three parallel planes", f"{SECOND}, Fig. 13",
           "The same in space: three planes, whose normal is the leading left eigenvector of V.",
           {**_CUBE, "V": _V13, "t": 14.0}),
    Preset("hyperplanes-growing", "Planes while everything grows", f"{SECOND}, Fig. 14",
           "All eigenvalues of V have positive real part: still planes, and tokens go on spreading inside them.",
           {**_CUBE, "V": _V14, "t": 14.0}),
    Preset("codimension", "Beyond one direction", f"{SECOND}, Fig. 7a",
           "Two growing directions: tokens gather on few parallel lines of codimension 2 (conjecture 4.2).",
           {**_CUBE, "V": _V7, "t": 10.0}, ("codimension",)),
    Preset("codimension-high", "A hundred dimensions", f"{SECOND}, Figs 7b and 15",
           "d = 128 seen on its principal axes, V sparse with no eigenvalue inside the unit circle: watch the cosines.",
           {**_CUBE, "n": 128, "d": 128, "V": "sparse-symmetric", "initial": "cube(side=0.5)", "t": 15.0}),
    Preset("polytope-subspace", "A polytope times a subspace", f"{SECOND}, Fig. 8",
           "V = diag(1, 1, -1/2): corners of a polygon in two directions, spreading for ever in the third.",
           {**_CUBE, "V": "1,1,-0.5", "t": 6.0}, ("polytope-times-subspace",)),
    Preset("collapse", "Negative values collapse", f"{SECOND}, Theorem C.5",
           "V = -I in space: everything tends to the origin, slowly, like 1/t.",
           {"n": 40, "geometry": "euclidean", "beta": 1.0, "V": "-1", "t": 40.0}, ("collapse",), {"log": True}),
    Preset("indefinite", "Without a positive QᵀK", f"{SECOND}, Remark 2",
           "Q^T K is no longer positive definite; the theorem panel says which hypothesis fails, and by how much.",
           {**_CUBE, "Q": "1,1,-1", "t": 6.0}, ("beyond-positive-definite",)),
    Preset("layers", "Layers instead of time", f"{SECOND}, eq. (3) and Remark 4",
           "Discrete layers with dt = 1, as a transformer steps: the same polytope.",
           {**_CUBE, "method": "layers", "t": 10.0, "dt": 1.0}, ("discrete-time",)),
    Preset("heads", "Several heads", f"{SECOND}, section 6",
           "Four heads with their own Q and K: tokens come to rest at means of leaders; no theorem covers it.",
           {**_CUBE, "geometry": "euclidean", "heads": 4, "Q": "psd", "V": "0.25", "t": 6.0}, ("multi-head",)),
    Preset("ginibre", "A random value matrix", f"{SECOND}, sec. 4",
           "Change the seed: about how often is a random V good? The theorem panel answers for each draw.",
           {**_CUBE, "V": "ginibre", "t": 6.0}, ("ginibre",)),
    Preset("mean-field", "The flow of measures", f"{SECOND}, mean field",
           "Many tokens on a line: raise n and the picture stays the same, only finer.",
           {**_CUBE, "n": 200, "d": 1, "initial": "cube(side=1)", "t": 3.0}, ("mean-field",)),
    Preset("neighbours", "Opinions: a neighbour of attention", f"{SECOND}, related work",
           "Bounded confidence (Hegselmann and Krause): opinions listen to those near them, and several groups remain.",
           {"d": 1, "geometry": "euclidean", "score": "bounded", "beta": 1.0, "initial": "cube(side=5)", "t": 12.0},
           ("neighbours",)),
    Preset("limits", "The limits at a glance", f"{SECOND}, Table 1",
           "Move V's eigenvalues and read the panel: which theorem applies, and what limit it predicts.",
           {**_CUBE, "V": "1,0.4,-0.3", "t": 10.0}, ("limit-geometry",)),
    Preset("boolean-beyond", "Boolean attention beyond the line", f"{SECOND}, sec. 2",
           "V turns in the plane: who leads changes as tokens rotate, and attention still sharpens.",
           {**_CUBE, "n": 20, "d": 2, "V": "1+1j,1-1j", "initial": "cube(side=1)", "t": 8.0},
           ("boolean-beyond",)),
    Preset("special-starts", "Starts that chance never hits", f"{SECOND}, Theorems 2.1 and 3.1",
           "Drag tokens at time 0 to one line, to the middle of a side or to the origin: exceptions of the theorems.",
           {**_CUBE, "n": 7, "d": 2, "t": 12.0}, ("special-starts",)),
    Preset("settling-time", "How soon is it settled?", f"{SECOND}, Remark 3",
           "A small cloud takes long before it sharpens: compare initial = cube(side=5) beside it.",
           {**_CUBE, "initial": "cube(side=0.5)", "t": 12.0}, ("settling-time",), {"log": True}),
    Preset("flats", "Clustering to flats", f"{SECOND}, sec. 4",
           "The limit is a clustering to at most three flats: rotate until you look along the planes.",
           {**_CUBE, "V": _V13, "t": 12.0, "seed": 2}, ("flats",)),
    Preset("heads-sphere", "Several heads on the sphere", f"{SECOND}, section 6",
           "Four heads with their own Q, summed on the sphere: clusters still form.",
           {"heads": 4, "Q": "psd", "V": "0.25", "beta": 2.0, "t": 20.0}, ("multi-head-sphere",)),
    Preset("rank-collapse", "Rank collapse", "Dong et al. 2021",
           "Layers of attention: cosines of pairs gather at 1, the cloud collapses to one direction.",
           {"n": 32, "d": 16, "beta": 1.0, "method": "layers", "dt": 1.0, "t": 24.0}, ("rank-collapse",)),
    Preset("mean-field-space", "The flow of measures in space", f"{SECOND}, appendix A",
           "Many tokens on the sphere: change the seed, and the picture hardly changes.",
           {"n": 256, "beta": 3.0, "t": 10.0}, ("mean-field-space",)),
    Preset("neural-collapse", "Are clusters a simplex?", f"{SECOND}, discussion",
           "In eight dimensions: do the clusters sit at equal angles, as class means do in neural collapse?",
           {"d": 8, "beta": 9.0, "t": 15.0}, ("neural-collapse",)),
    Preset("phase-diagram", "The phase diagram", f"{FIRST}, sec. 4",
           "One column of the phase diagram; 'Sweep from here' draws the whole of it.",
           {"n": 32, "d": 8, "beta": 4.0, "t": 30.0}, ("phase-diagram",)),
    Preset("lifetimes", "How long does a pair of clusters last?", f"{FIRST}, sec. 4.2.2",
           "Few clusters, prepared: with larger beta they stand exponentially longer.",
           {"n": 16, "initial": "clusters", "beta": 5.0, "t": 300.0}, ("lifetimes",), {"log": True}),
    Preset("causal-leaders", "Leaders of causal attention", f"{FIRST}, causal clusters",
           "On the circle at large beta: early tokens far from the others become the centres of clusters.",
           {**_CAUSAL, "n": 128, "d": 2, "beta": 32.0, "t": 20.0}, ("causal-leaders",)),
    Preset("instability", "Which mode breaks first", "linear stability on the circle",
           "Many even tokens on the circle: the number of clusters that appear first grows with beta.",
           {"n": 96, "d": 2, "beta": 8.0, "t": 30.0}, ("instability",)),
    Preset("spectra", "Eigenvalues steer the clusters", f"{FIRST}, eigenvalues of V",
           "Move the two eigenvalues: real ones cluster or repel, a complex pair turns everything round.",
           {"n": 16, "d": 2, "beta": 1.0, "V": "1+1j,1-1j", "t": 30.0}, ("spectra",), {"trails": True}),
    Preset("optimal-control", "A V that turns", f"{SECOND}, section 6",
           "An antisymmetric V carries a cloud round the circle unchanged: the dearest constant way to move a token.",
           {"n": 12, "d": 2, "beta": 1.0, "V": "1j,-1j", "t": 3.0}, ("optimal-control",), {"trails": True}),
    Preset("optimised-mlp", "What an MLP must resist", f"{FIRST}, future work",
           "Three prepared clouds merge by attention alone: the experiment learns an MLP that keeps them apart.",
           {"n": 12, "initial": "clusters", "beta": 1.0, "t": 8.0}, ("optimised-mlp",)),
    Preset("sinks-in-training", "Before training: no sink", f"{FIRST}, sec. 5",
           "Colour by attention received: the causal mask alone favours early tokens, and no one of them specially.",
           {**_CAUSAL, "n": 32, "d": 16, "beta": 1.0, "method": "layers", "dt": 1.0, "t": 3.0},
           ("sinks-in-training",), {"colour": "attention"}),
    Preset("density", "Many tokens, almost a density", "mean field",
           "2,000 tokens on the circle: change the seed, and the picture stays. ms.density has infinitely many.",
           {"n": 2000, "d": 2, "beta": 2.0, "initial": "cap(angle=2.5)", "t": 6.0}, ("density",)),
    Preset("noise", "Noise against clusters", "beyond the papers",
           "A little noise: clusters still form, and wander; enough of it dissolves them.",
           {"beta": 9.0, "noise": 0.08, "t": 30.0}, ("noise",)),
    Preset("common-noise", "One noise for all tokens", "beyond the papers",
           "The same noise moves everybody: it brings tokens together, where noise of their own would part them.",
           {"beta": 1.0, "noise": 1.0, "noise_kind": "common", "t": 15.0}),
    Preset("normalisation-schemes", "Pre-LN instead of the sphere", "normalisation schemes",
           "Norms grow and tokens slow down: compare geometry = sphere, peri-ln, ngpt, depth-scaled beside it.",
           {"beta": 2.0, "geometry": "pre-ln", "t": 30.0}, ("normalisation-schemes",), {"log": True}),
    Preset("long-context", "A long context at beta = c log n", "long contexts",
           "512 tokens in 32 dimensions at beta = 1.5 log n: raise beta a little, and everybody looks at itself alone.",
           {"n": 512, "d": 32, "beta": 9.4, "t": 20.0}, ("long-context",)),
    Preset("scales", "Three scales of time", "moderate interaction",
           "Logarithmic time: tokens fall onto a circle, gather in clusters there, and the clusters merge much later.",
           {"n": 256, "beta": 12.0, "V": "1,1,-1", "t": 400.0}, ("scales",), {"log": True}),
    Preset("sinkhorn", "Doubly stochastic attention", "Sinkformers",
           "Rows and columns both sum to one: nobody can be a sink.",
           {"normalise": "sinkhorn", "beta": 6.0, "n": 48}),
    Preset("model-similarities", "A real model's tokens", f"{FIRST}, Fig. 1",
           "The tokens of a trained model through its layers, with the histogram of their cosines.",
           experiments=("model-similarities", "model-controls", "model-residual", "model-simplex"), page="/models"),
    Preset("model-heads", "A real model's heads", f"{FIRST}, Fig. 2",
           "Attention head by head, and the attention that the first token receives.",
           experiments=("model-heads", "model-ranks", "model-eigenspaces"), page="/models"),
    Preset("model-spectra", "A real head's value matrix", f"{SECOND}, Fig. 10",
           "The spectrum panel shows the eigenvalues of one head's V: is the leading one real, simple and positive?",
           {**_CUBE, "V": "model:reactions-albert/head=4/top=8", "d": 8, "t": 6.0}, ("model-spectra",)),
    Preset("model-sharing", "Shared and unshared weights", "both papers' models",
           "Choose reactions-bert instead of reactions-albert: the same text, unshared layers.",
           experiments=("model-sharing",), page="/models"),
    Preset("best-particle-system", "The best particle system", "both papers' models",
           "The ladder of a model: how far its own weights as particles are from it; the experiment fits better ones.",
           experiments=("best-particle-system",), page="/models"),
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One step of the tour."""

    title: str
    text: str
    state: Mapping[str, Any]
    look: Mapping[str, Any] = field(default_factory=dict)


TOUR: tuple[Step, ...] = (
    Step(
        "Tokens are particles",
        "Every dot is a token on the sphere. A layer of attention moves each towards a weighted mean of those it sees. "
        "Press play.",
        {"n": 64, "beta": 1.0, "t": 8.0},
        {"share": 0.0},
    ),
    Step(
        "Everything clusters",
        "With β = 1 attention is almost even, and all tokens meet in one point. The step line under the scene counts "
        "clusters.",
        {"n": 64, "beta": 1.0, "t": 15.0},
    ),
    Step(
        "Sharper attention, more clusters",
        "At β = 9 tokens listen only to those near them: several clusters form, and stay.",
        {"n": 64, "beta": 9.0, "t": 15.0},
    ),
    Step(
        "They only seem to stay",
        "Logarithmic time to t = 400: clusters merge one after the other. The state in between is metastable.",
        {"n": 64, "beta": 9.0, "t": 400.0},
        {"log": True},
    ),
    Step(
        "A decoder looks back only",
        "Causal attention: the first token, in red, sees nobody else and never moves. All others end up with it.",
        {"n": 64, "beta": 4.0, "mask": "causal", "t": 30.0},
    ),
    Step(
        "Values can repel",
        "V = -I turns attraction into repulsion. The spectrum panel shows V's eigenvalues at -1.",
        {"n": 64, "beta": 4.0, "V": "-1", "mask": "causal"},
    ),
    Step(
        "Without the sphere: a polytope",
        "In space, rescaled tokens go to the corners of a polytope (Theorem 3.1). The panel says which hypotheses "
        "hold; the limit is drawn in green.",
        {"n": 40, "geometry": "rescaled", "beta": 1.0, "t": 8.0},
    ),
    Step(
        "One direction wins: planes",
        "Other eigenvalues, another limit: at most three parallel planes (Theorem 4.1). Now move β, V or the seed "
        "yourself.",
        {"n": 40, "geometry": "rescaled", "beta": 1.0, "V": _V13, "t": 14.0},
    ),
)


def preset(key: str) -> Preset | None:
    """The preset with this key."""
    return next((one for one in PRESETS if one.key == key), None)
