"""Mistakes that no verdict can show although the data do, and why: there the self-check is all that notices.

(experiment, place, mistake) -> the reason.
"""

EXCUSED: dict[tuple[str, str, str], str] = {}
