"""Fewer tokens and longer times: weighted tokens that stand for those that have met, and leaps over plateaus."""

from metastable.errors import doors
from metastable.reduced.coalesce import Coalesced, coalesce
from metastable.reduced.leap import Leap, follow, leap

__all__ = ["Coalesced", "Leap", "coalesce", "follow", "leap"]

doors(globals())
