"""Pretrained transformers, measured with the same tools as the simulations."""

from metastable.models.load import Model, load

__all__ = ["Model", "load"]
