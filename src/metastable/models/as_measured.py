"""How a ``transformers`` module is run while it is measured; its owner gets it back as it was."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

_PLAIN = ("_attn_implementation", "_experts_implementation")  # fused kernels show no maps, and are not for float64


@contextmanager
def as_measured(whole: Any) -> Iterator[None]:
    """Plain attention and experts, evaluation mode, and one ALiBi in Falcon, inside."""
    modules = list(whole.modules())
    trained = [module for module in modules if module.training]
    configs = {id(c): c for module in modules if (c := vars(module).get("config")) is not None}.values()
    before = [(config, name, getattr(config, name)) for config in configs for name in _PLAIN if hasattr(config, name)]
    with ExitStack() as undo:
        undo.callback(_set, before, trained)
        for config, name, _ in before:
            setattr(config, name, "eager")
        for module in trained:
            module.training = False
        for module in modules:
            if _counts_twice(module):
                undo.callback(module.register_forward_pre_hook(_without_alibi, with_kwargs=True).remove)
        yield


def _set(before: list[tuple[Any, str, Any]], trained: list[Any]) -> None:
    for config, name, value in before:
        setattr(config, name, value)
    for module in trained:
        module.training = True


def _counts_twice(module: Any) -> bool:
    """Falcon's plain attention adds ALiBi to scores whose mask holds it already; its fused attention does not."""
    return type(module).__name__ == "FalconAttention" and bool(module.config.alibi)


def _without_alibi(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, kwargs | {"alibi": 0.0 * kwargs["alibi"]}
