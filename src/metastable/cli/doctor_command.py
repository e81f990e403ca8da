"""metastable doctor."""

from metastable.cli.flags import JSON
from metastable.cli.output import answer


def doctor(*, json: JSON = False) -> int:
    """Say what is installed: versions, devices, caches, and which optional parts are missing and how to get them.

    Exit code 1 if something that every run needs is missing. Its output belongs in every report of a fault.

    Parameters
    ----------
    json
        print one JSON object and nothing else
    """
    from metastable.config.installation import as_lines, examine

    found = examine()
    answer(json, found, as_lines(found))
    return int(bool(found["problems"]))
