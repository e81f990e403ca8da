"""The command line: thin commands over the package.

Add a command: a function in a file of its own, and a line in COMMANDS. Files are loaded when their command is called,
so `metastable --help` never waits for JAX.

Exit codes: 0 done, 1 a verdict failed, 2 bad input (also: a disk or a device that refuses), 70 a fault of metastable
itself, 130 interrupted (129, 143: by SIGHUP, SIGTERM), 141 the reader of a pipe has gone.

Everywhere: --quiet (nothing but errors), --traceback (Python's own), and `metastable --install-completion [SHELL]`.
"""

import errno
import inspect
import logging
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING

from metastable.cli.interrupts import Interrupted, exit_code, interrupted, leave, listening
from metastable.cli.streams import flushed, open_streams, say
from metastable.errors import InputError, Misuse, nearest, unknown

if TYPE_CHECKING:
    import cyclopts

__all__ = ["COMMANDS", "main"]

# name -> (where its function is, what it does)
COMMANDS: dict[str, tuple[str, str]] = {
    "simulate": (
        "metastable.cli.simulate_command:simulate",
        "Run tokens through the dynamics, and leave a record and pictures.",
    ),
    "sweep": (
        "metastable.cli.sweep_command:sweep",
        "Run over many values of parameters, on cores or a cluster, into one table.",
    ),
    "plot": ("metastable.cli.plot_command:plot", "Draw a picture of a record."),
    "animate": ("metastable.cli.plot_command:animate", "Write a record as a film, or as a page that plays it."),
    "reproduce": (
        "metastable.cli.reproduce_command:reproduce",
        "Run the papers' experiments: verdicts, figures, one gallery.",
    ),
    "check": (
        "metastable.cli.check_command:check",
        "Put the theory to one triple (Q, K, V): hypotheses, prediction, verdict.",
    ),
    "model": (
        "metastable.cli.model_command:model",
        "Measure a pretrained model: similarity, heads, sinks, spectra, the ladder.",
    ),
    "compare": (
        "metastable.cli.compare_command:compare",
        "Put measured models, or a model and its controls, side by side on one page.",
    ),
    "hunt": ("metastable.cli.hunt_command:hunt", "Search for a violation of a conjecture, and verify what is found."),
    "explore": ("metastable.cli.explore_command:explore", "Open the laboratory in the browser."),
    "list": (
        "metastable.cli.list_command:listing",
        "Name what there is: parts, families, methods, observables, plots.",
    ),
    "config": (
        "metastable.cli.config_command:config",
        "Print the settings a run would have, and where they come from.",
    ),
    "doctor": (
        "metastable.cli.doctor_command:doctor",
        "Say what is installed, what is missing, and how to get it.",
    ),
}
_HELP = "The laboratory for clustering in transformers: tokens as particles under self-attention."
_EVERYWHERE = (
    "Everywhere: --quiet prints nothing but errors (and --json), --traceback shows Python's own traceback. "
    "`metastable --install-completion` completes commands and flags in bash, zsh and fish. `metastable config` names "
    "the environment variables."
)
_TRACEBACK, _QUIET = "METASTABLE_TRACEBACK", "METASTABLE_QUIET"
_COMPLETION = "--install-completion"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; what users see of an error is one sentence on stderr."""
    alone, given = argv is None, list(sys.argv[1:] if argv is None else argv)  # alone: the process is this command's
    detailed = "--traceback" in given or bool(os.environ.get(_TRACEBACK))
    quiet = "--quiet" in given
    given = [word for word in given if word not in ("--traceback", "--quiet")]
    open_streams()
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it has much to say about a HOME that cannot be written
    with listening(lambda left: _last_words(left, given)), _variable(_QUIET, "1" if quiet else None):
        try:
            code = _install_completion(given[1:]) if given[:1] == [_COMPLETION] else _run(given)
            return code if flushed() else 141
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # of the help, whose reader has gone
                return 141
            raise
        except KeyboardInterrupt as error:
            return _complain_of_interruption(error, given, alone)
        except Exception as error:
            if interrupted(error):
                return _complain_of_interruption(error, given, alone)
            if detailed:
                raise
            return _complain(error)


@contextmanager
def _variable(name: str, value: str | None) -> Iterator[None]:
    """Set an environment variable for a while, so that workers see it too; None leaves it as it is."""
    before = os.environ.get(name)
    if value is not None:
        os.environ[name] = value
    try:
        yield
    finally:
        if value is not None:
            os.environ.pop(name)
            os.environ.update({} if before is None else {name: before})


def _app(explained: str = "") -> "cyclopts.App":
    """All commands; the one that is ``explained`` shows its whole docstring instead of one line."""
    import cyclopts

    from metastable import __version__

    app = cyclopts.App(
        name="metastable",
        help=_HELP,
        help_epilogue=_EVERYWHERE,
        version=f"metastable {__version__}",
        help_format="plaintext",
        suppress_keyboard_interrupt=False,  # Ctrl-C is answered by `main`, also while a command is being loaded
    )
    app["--help"].group = app["--version"].group = "Options"
    for name, (home, does) in COMMANDS.items():
        app.command(home, name=name, help=_prose(home) if name == explained else does)
    return app


def _prose(home: str) -> str:
    """What a command's docstring says before its parameters, a line for each paragraph: terminals break them."""
    module, _, name = home.partition(":")
    said = inspect.getdoc(getattr(import_module(module), name)) or ""
    return "\n\n".join(" ".join(part.split()) for part in said.partition("\nParameters\n")[0].split("\n\n"))


def _install_completion(words: Sequence[str]) -> int:
    """Write the completion script of a shell where that shell looks for it."""
    shells = ("bash", "zsh", "fish")
    shell = words[0] if words else os.path.basename(os.environ.get("SHELL", ""))
    if shell not in shells:
        raise unknown("shell", shell, shells)
    path = _app().install_completion(shell=shell)
    loaded = "" if shell == "fish" else f" (a line in ~/.{shell}rc loads it)"
    print(f"Completion for {shell}: {path}. Open a new terminal to use it{loaded}.")
    return 0


def _run(given: list[str]) -> int:
    import cyclopts

    app = _app(given[0] if given and {"--help", "-h"} & set(given) else "")
    if given and not given[0].startswith("-") and given[0] not in COMMANDS:
        raise unknown("command", given[0], COMMANDS)
    try:
        code = app(given, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        raise InputError(_sentence(error, given)) from error
    return int(code or 0)


def _sentence(error: Exception, given: Sequence[str]) -> str:
    """The message of cyclopts, longer where it is too short to help."""
    import cyclopts

    text = " ".join(str(error).split())
    if isinstance(error, cyclopts.UnknownOptionError) and error.argument_collection:
        word = error.token.keyword or error.token.value
        near = nearest(word, [name for one in error.argument_collection for name in one.names])
        text = f"Unknown option: {word}." + (f" Did you mean {near}?" if near else "")
    if isinstance(error, cyclopts.UnusedCliTokensError):
        return f"{text.rstrip('.')}; a command takes what its --help lists, and settings as flags (--n 64)."
    if text.endswith("?"):
        return text
    command = f"metastable {given[0]}" if given and given[0] in COMMANDS else "metastable"
    return f"{text.rstrip('.')}; `{command} --help` lists what there is."


def _complain_of_interruption(error: BaseException, given: Sequence[str], alone: bool) -> int:
    """What is on disk, and the command that goes on."""
    _last_words(str(error) if isinstance(error, Interrupted) else None, given)
    if alone:
        leave()
    return exit_code()


def _last_words(left: str | None, given: Sequence[str]) -> None:
    plain = "Interrupted; nothing was written: run the same command again"
    say(f"metastable: {left or plain} (metastable {shlex.join(given)}).")


def _complain(error: BaseException) -> int:
    """One sentence on stderr, and the exit code."""
    code, text = 2, _refusal(error)
    if isinstance(error, OSError):
        with suppress(OSError):
            flushed()  # or Python complains at the end about what it could not write
    if isinstance(error, BrokenPipeError):
        return 141
    if text is None:
        known = error.__cause__ if isinstance(error, Misuse) and error.__cause__ is not None else error
        first = (str(known).splitlines() or [""])[0]
        code, text = (
            70,
            (
                f"Something went wrong inside metastable ({type(known).__name__}: {first}); please report it with the "
                "output of the same command and --traceback."
            ),
        )
    say(f"metastable: {text}")
    return code


def _refusal(error: BaseException) -> str | None:
    """The sentence for what a user or the machine is the cause of; None for a fault of metastable itself."""
    if isinstance(error, InputError):
        return None if isinstance(error, Misuse) else str(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "This run does not fit in memory; lower n, runs or save."
    if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT, errno.EBADF, errno.EPIPE):
        where = f" ({str(error.filename)[:80]!r})" if error.filename is not None else ""
        return f"The system refuses: {error.strerror}{where}; choose another file or folder, or free what is short."
    if isinstance(error, (RuntimeError, AssertionError)):
        from metastable.backend import no_device

        return no_device()
    return None
