"""Write the operator reference from the records: ``docs/reference/operators.md`` (``make docs``)."""

from __future__ import annotations

import pathlib

from mxcore import operators
from mxcore.dispatch.functions import signature_of

HERE = pathlib.Path(__file__).resolve().parent


def main() -> None:
    """Write the page."""
    lines = ["# Operators", "", "Generated from the operator records by `make docs`.", ""]
    for record in sorted(operators.records(), key=lambda r: r.name.lower()):
        if record.name.startswith("_") and not any(not a.startswith("_") for a in record.aliases):
            continue
        lines += [f"## {record.name}", "", f"`{record.name}{signature_of(record)}`", ""]
        if record.aliases:
            lines += ["Also: " + ", ".join(f"`{a}`" for a in record.aliases), ""]
        lines += ["```text", record.doc.strip(), "```", ""]
    target = HERE / "reference" / "operators.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join(lines))
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
