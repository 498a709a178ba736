"""list, show, examine and block plugins"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from ..config import process_config
from ..config.files import CONFIG_VARIABLE, edit_list, user_file
from ..registry import KINDS, Candidate, process_registry
from ..registry.discovery import normalized
from ..registry.probe import Report, examine
from ..spec.errors import BackendNotInstalled
from ..spec.versions import API
from .render import add_json, print_fields, print_json, print_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    action = actions.add_parser("list", help="what is installed, from metadata only; imports nothing")
    action.add_argument("--kind", choices=list(KINDS))
    add_json(action)
    action.set_defaults(run=_list)

    action = actions.add_parser("show", help="what one plugin says of itself (loaded in a process of its own)")
    _add_name(action)
    action.set_defaults(run=_show)

    action = actions.add_parser("doctor", help="load, probe and create plugins, each in a process of its own")
    _add_name(action, optional=True)
    action.set_defaults(run=_doctor)

    for verb, text in (("block", "never import it"), ("unblock", "allow it again")):
        action = actions.add_parser(verb, help=f"{text} (writes the user's configuration file)")
        action.add_argument("name", metavar="NAME", help="a distribution, a name, or distribution:name")
        add_json(action)
        action.set_defaults(run=_block, verb=verb)


def _add_name(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    parser.add_argument(
        "name", metavar="NAME", nargs="?" if optional else None, help="a name, a distribution, or distribution:name"
    )
    parser.add_argument("--kind", choices=list(KINDS))
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=30.0, help="per plugin (default: 30)")
    add_json(parser)


def _list(arguments: argparse.Namespace) -> int:
    rows = [_row(candidate) for candidate in process_registry().candidates(arguments.kind)]
    if arguments.json:
        print_json(rows)
    elif rows:
        print_table(rows, ("kind", "name", "distribution", "version", "api", "needs mxcore", "state"))
    return 0


def _row(candidate: Candidate) -> dict[str, Any]:
    source = candidate.source
    return {
        "kind": candidate.kind,
        "name": candidate.name,
        "distribution": candidate.distribution,
        "version": candidate.version,
        "api": ".".join(map(str, API[candidate.kind])) if candidate.builtin else None,
        "needs mxcore": source.requires if source else "",
        "entry point": source.value if source else None,
        "state": "built-in" if candidate.builtin else candidate.state.value,
        "reason": candidate.reason,
    }


def _show(arguments: argparse.Namespace) -> int:
    reports = [
        examine(candidate, timeout_s=arguments.timeout, create=False, environ=process_config().child_environment())
        for candidate in _matching(arguments.name, arguments.kind)
    ]
    options = [record for record in process_config().records() if record.name.split(".")[0] in KINDS]
    documents = [
        {
            **_summary(report),
            **report.record,
            "options": [option.name for option in options if option.name.startswith(f"{report.kind}.")],
        }
        for report in reports
    ]
    if arguments.json:
        print_json(documents)
    else:
        for document in documents:
            print_fields(document)
            print()
    return int(any(report.status in ("failed", "incompatible", "crashed", "hangs") for report in reports))


def _doctor(arguments: argparse.Namespace) -> int:
    registry, environ = process_registry(), process_config().child_environment()
    named = arguments.name is not None
    candidates = _matching(arguments.name, arguments.kind) if named else registry.candidates(arguments.kind)
    reports = []
    for candidate in candidates:
        report = examine(candidate, timeout_s=arguments.timeout, environ=environ)
        reports.append(report)
        if not arguments.json:
            _print_report(report)
    if arguments.json:
        print_json([{**_summary(report), "trace": report.trace, "output": report.output} for report in reports])
    problems = sum(report.problem or (named and report.status in ("blocked", "unavailable")) for report in reports)
    if not arguments.json:
        print(f"{len(reports)} examined, {problems} with problems.")
    return int(problems > 0)


def _summary(report: Report) -> dict[str, Any]:
    return {
        "kind": report.kind,
        "name": report.name,
        "distribution": report.distribution,
        "version": report.version,
        "status": report.status,
        "stage": report.stage,
        "message": report.message,
        "import_s": report.import_s,
        "imports": report.imports,
        "remarks": report.remarks,
        "problem": report.problem,
    }


def _print_report(report: Report) -> None:
    mark = "problem" if report.problem else "ok"
    noun = KINDS[report.kind].noun
    print(f"[{mark}] {noun} '{report.name}' ({report.distribution} {report.version}): {_status(report)}")
    for line in (report.message, *report.remarks):
        if line:
            print(f"    {line}")
    for title, text in (("traceback", report.trace), ("output", report.output)):
        if text:
            print(f"    {title}:")
            print("\n".join(f"        {line}" for line in text.rstrip().splitlines()))


def _status(report: Report) -> str:
    if report.status == "failed":
        return f"failed at {report.stage}"
    words = {"active": "works", "registered": "loads"}
    return words.get(report.status, report.status)


def _matching(name: str, kind: str | None) -> list[Candidate]:
    """Candidates by name, qualified name or distribution, over all kinds unless one is given."""
    registry = process_registry()
    everything = registry.candidates(kind)
    found = [one for one in everything if name in (one.name, one.qualified)]
    found = found or [one for one in everything if normalized(one.distribution) == normalized(name)]
    if not found and kind is not None:
        registry.find(kind, name)  # raises, saying what to install
    if not found:
        for one in KINDS:
            try:
                registry.find(one, name)
            except BackendNotInstalled as error:
                if getattr(error, "distribution", None):
                    raise
        installed = ", ".join(dict.fromkeys(one.name for one in everything))
        raise BackendNotInstalled(f"no plugin is named '{name}'. Installed: {installed}.", kind=None, name=name)
    return found


def _block(arguments: argparse.Namespace) -> int:
    name, verb = arguments.name, arguments.verb
    everything = process_registry().candidates()
    mine = [one for one in everything if name in (one.name, one.qualified) or normalized(name) == one.distribution]
    if verb == "block" and mine and all(one.builtin for one in mine):
        print(f"mxcore: '{name}' is built in and cannot be blocked.", file=sys.stderr)
        return 1
    path = os.environ.get(CONFIG_VARIABLE) or user_file(os.environ)
    add, remove = (name, "") if verb == "block" else ("", name)
    changed = edit_list(path, "plugins.block", add=add, remove=remove)
    process_config().refresh()
    if arguments.json:
        print_json({"name": name, "file": path, "changed": changed})
    else:
        state = "blocked" if verb == "block" else "not blocked"
        print(f"'{name}' is {state}" + (f" (written to {path})" if changed else " already"))
    return 0
