"""Tables and JSON on standard output."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any


def add_json(parser: argparse.ArgumentParser) -> None:
    """Give a command its ``--json`` switch."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def print_json(value: Any) -> None:
    """Print a value as one JSON document."""
    print(json.dumps(value, indent=2, sort_keys=True, default=str))


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print rows under a header, columns as wide as their widest cell; columns without any value are left out."""
    shown = [column for column in columns if any(row.get(column) not in (None, "", []) for row in rows)]
    cells = [[_text(row.get(column)) for column in shown] for row in rows]
    widths = [max(len(column), *(len(line[i]) for line in cells)) for i, column in enumerate(shown)]
    for line in ([column.upper() for column in shown], *cells):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def print_fields(fields: Mapping[str, Any], indent: str = "") -> None:
    """Print ``name: value`` lines, those without a value left out."""
    width = max((len(name) for name in fields), default=0) + 1
    for name, value in fields.items():
        if value not in (None, "", [], {}):
            print(f"{indent}{(name + ':').ljust(width)} {_text(value)}")


def _text(value: Any) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
