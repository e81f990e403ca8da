"""The switches by which every engine computes as on a machine with AVX2 and nothing wider."""

import os
from pathlib import Path

_WIDER = ("avx512", "avx10", "amx", "evex512", "avxvnni", "avxifma", "avxneconvert")


def environment() -> dict[str, str]:
    """What to set for the processes of engines; compiled code goes to folders of its own."""
    import llvmlite.binding as llvm

    has = llvm.get_host_cpu_features()
    if not has.get("avx2"):
        raise SystemExit("--narrow needs a processor with AVX2.")
    kept = ",".join(("+" if on and not name.startswith(_WIDER) else "-") + name for name, on in sorted(has.items()))
    home = Path(os.environ.get("METASTABLE_CACHE") or Path.home() / ".cache" / "metastable") / "narrow"
    flags = os.environ.get("XLA_FLAGS", "")
    return {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": kept,
        "NUMBA_CACHE_DIR": str(home / "kernels"),
        "METASTABLE_CACHE": str(home),
        "OPENBLAS_CORETYPE": "Haswell",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "XLA_FLAGS": f"{flags} --xla_cpu_max_isa=AVX2".strip(),
    }
