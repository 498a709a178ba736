"""every option, its value, and where the value came from"""

from __future__ import annotations

import argparse
from typing import Any

from ..config import process_config
from ..config.options import environment_name
from ..spec.errors import ConfigError
from .render import add_json, print_json, print_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    action = actions.add_parser("show", help="values with their origins, and what lost to them")
    action.add_argument("names", metavar="OPTION", nargs="*", help="only these")
    add_json(action)
    action.set_defaults(run=_show)


def _show(arguments: argparse.Namespace) -> int:
    config = process_config()
    names = arguments.names or config.names()
    rows = [_row(name) for name in names]
    if arguments.json:
        print_json(rows)
    else:
        print_table(rows, ("option", "value", "origin", "overrides", "error"))
    return int(any(row["error"] for row in rows))


def _row(name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"option": name, "value": None, "origin": "", "overrides": [], "error": ""}
    try:
        held, *lost = process_config().layers(name)
    except ConfigError as error:
        row["error"] = str(error)
        return row
    row.update(value=held.value, origin=str(held.origin), variable=environment_name(name))
    row["overrides"] = [f"{one.value} ({one.origin})" for one in lost if one.value is not None]
    return row
