"""metastable explore."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from metastable.cli.interrupts import interruptible
from metastable.errors import InputError


def explore(
    folder: Annotated[
        Path, Parameter(help="the folder whose records can be opened [here]", show_default=False)
    ] = Path(),
    /,
    *,
    port: Annotated[int | None, Parameter(group="Server", show_default=False)] = None,
    host: Annotated[str, Parameter(group="Server", show_default=False)] = "127.0.0.1",
    remote: Annotated[bool, Parameter(negative="", group="Server", show_default=False)] = False,
    show: Annotated[bool, Parameter(negative="--no-show", group="Server", show_default=False)] = True,
) -> int:
    """Open the laboratory in the browser: steer runs, see them live, play records and models.

    Parameters
    ----------
    port
        port to listen on [8421, or the next free one]
    host
        address to listen on; any but this machine's own needs --remote [127.0.0.1]
    remote
        let other machines in: a token is made, and only those who bring it are answered
    show
        open a browser (--no-show: do not)
    """
    if not folder.is_dir():
        raise InputError(f"There is no folder {str(folder)!r}; give the one whose records are to be shown.")
    if host not in ("127.0.0.1", "localhost") and not remote:
        raise InputError(f"--host {host} lets other machines in; say so with --remote, and a token is made.")
    try:
        from metastable.explorer import server
    except ImportError as error:
        raise InputError(
            f"The explorer needs its extra ({error.name} is missing): pip install 'metastable[explore]'."
        ) from error
    left = "The explorer has stopped; records are as they were, and open pages go on when it is back: start it again"
    with interruptible(lambda: left):
        server.serve(folder, port, host, server.new_token() if remote else None, show)
    return 0
