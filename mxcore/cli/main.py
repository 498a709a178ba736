"""Parsing the command line and handing over to the command.

Commands of plugins are loaded only when a command that is not built in is asked for.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from .._version import __version__
from ..config import did_you_mean
from ..registry import process_registry
from ..spec.errors import MXCoreError
from . import environment, plugins, settings

FINE, PROBLEM, USAGE = 0, 1, 2

_BUILT_IN = {"plugins": plugins, "config": settings, "env": environment}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        Without the program's name; ``sys.argv[1:]`` by default.

    Returns
    -------
    int
        0 fine, 1 a problem was found, 2 wrong usage.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _plain_warnings():
            parser = _parser()
            if words and not words[0].startswith("-") and words[0] not in _BUILT_IN:
                _add_plugin_command(parser, words[0])
            parsed = parser.parse_args(words)
            if not hasattr(parsed, "run"):
                parser.print_help()
                return USAGE
            return int(parsed.run(parsed) or FINE)
    except MXCoreError as error:
        print(f"mxcore: {error}", file=sys.stderr)
        return PROBLEM
    except SystemExit as end:  # argparse: help, version, usage
        return end.code if isinstance(end.code, int) else USAGE


class _plain_warnings:
    """Print warnings as one line each, without the line of code they come from."""

    def __enter__(self) -> None:
        self.previous = warnings.formatwarning
        warnings.formatwarning = lambda message, *where, **more: f"warning: {message}\n"

    def __exit__(self, *error: Any) -> None:
        warnings.formatwarning = self.previous


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mxcore", description="Plugins, options and environment of mxcore.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"mxcore {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    parser.set_defaults(commands=commands)
    for name, module in _BUILT_IN.items():
        summary = (module.__doc__ or "").splitlines()[0]
        module.configure(commands.add_parser(name, help=summary, description=summary, allow_abbrev=False))
    return parser


def _add_plugin_command(parser: argparse.ArgumentParser, name: str) -> None:
    registry = process_registry()
    registry.load_plugins()
    command = registry.commands.get(name)
    if command is None:
        closest = did_you_mean(name, [*_BUILT_IN, *registry.commands])
        hint = f"did you mean '{closest}'?" if closest else "see 'mxcore --help'"
        parser.error(f"there is no command '{name}'; {hint}")
    child = parser.get_default("commands").add_parser(name, help=command.help, description=command.help)
    command.configure(child)
    child.set_defaults(run=command.run)
