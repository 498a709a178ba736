"""What the user allows: which distributions may be imported, and which must be there.

Pure: functions of the options' values and the candidates, nothing imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..spec.errors import ConfigError, PluginError
from .candidate import Candidate
from .discovery import normalized

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(.*)")
_CLAUSE = re.compile(r"\s*(~=|==|!=|<=|>=|<|>)\s*([\w.+!-]+)\s*")


def refusal(candidate: Candidate, allowed: Sequence[str] | None, blocked: Sequence[str]) -> tuple[str, str] | None:
    """Why a candidate must not be imported, and what would allow it; None if it may be.

    Parameters
    ----------
    allowed : list of str or None
        Distributions of ``MXCORE_PLUGINS``; None means all.
    blocked : list of str
        Distributions, names or ``dist:name`` of ``MXCORE_PLUGINS_BLOCK``.
    """
    if candidate.builtin:
        return None
    distribution = normalized(candidate.distribution)
    for word in blocked:
        head, _, tail = word.partition(":")
        if word == candidate.name or (normalized(head) == distribution and tail in ("", candidate.name)):
            return (
                f"option plugins.block (MXCORE_PLUGINS_BLOCK) lists '{word}'",
                f"Take it out of the list, or run 'mxcore plugins unblock {word}'.",
            )
    if allowed is not None and distribution not in {normalized(word) for word in allowed}:
        listed = ", ".join(allowed) if allowed else "nothing, so built-ins only"
        return (
            f"option plugins (MXCORE_PLUGINS) allows {listed}",
            f"Add '{candidate.distribution}' to the list, or unset it.",
        )
    return None


def check_required(required: Sequence[str], installed: Mapping[str, str]) -> None:
    """Raise if a required distribution is missing or has another version; all problems in one message.

    Parameters
    ----------
    required : list of str
        ``"dist"`` or ``"dist>=1.0"``; several clauses are joined by a blank: ``"dist>=1.0 <2"``.
    installed : mapping
        Normalised distribution: version.

    Raises
    ------
    PluginError
        Naming every distribution that is not as required, and the command that installs them.
    """
    problems, wanted = [], []
    for requirement in required:
        name, clauses = split_requirement(requirement)
        version = installed.get(normalized(name))
        shown = name + ",".join(operator + number for operator, number in clauses)
        if version is None:
            problems.append(f"'{shown}' is not installed")
        elif not all(_holds(version, operator, number) for operator, number in clauses):
            problems.append(f"'{shown}' is required, {name} {version} is installed")
        else:
            continue
        wanted.append(f"'{shown}'" if clauses else name)
    if problems:
        raise PluginError(
            f"option plugins.required (MXCORE_PLUGINS_REQUIRED) is not met: {'; '.join(problems)}. "
            f"Install with: pip install {' '.join(wanted)}",
            required=list(required),
            problems=problems,
        )


def split_requirement(requirement: str) -> tuple[str, list[tuple[str, str]]]:
    """The distribution and the version clauses of a requirement.

    Examples
    --------
    >>> split_requirement("mxcore-engine-threaded >=0.1 <2")
    ('mxcore-engine-threaded', [('>=', '0.1'), ('<', '2')])
    """
    match = _REQUIREMENT.fullmatch(requirement)
    clauses: list[tuple[str, str]] = []
    rest = match[2] if match else requirement
    while match and rest:
        clause = _CLAUSE.match(rest)
        if clause is None:
            break
        clauses.append((clause[1], clause[2]))
        rest = rest[clause.end() :]
    if match is None or rest:
        raise ConfigError(
            f"option plugins.required (MXCORE_PLUGINS_REQUIRED) has {requirement!r}, which is not a distribution "
            "with versions. Write it like 'mxcore-engine-threaded>=0.1' or 'mxcore-engine-threaded>=0.1 <2'.",
            value=requirement,
        )
    return match[1], clauses


def _holds(version: str, operator: str, number: str) -> bool:
    left, right = _release(version), _release(number)
    width = max(len(left), len(right))
    a, b = left + (0,) * (width - len(left)), right + (0,) * (width - len(right))
    if operator == "~=":
        return a >= b and left[: len(right) - 1] == right[:-1]
    return {"==": a == b, "!=": a != b, "<=": a <= b, ">=": a >= b, "<": a < b, ">": a > b}[operator]


def _release(version: str) -> tuple[int, ...]:
    """The numbers in front: pre-releases count as their release, which is what a lower bound means here."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, match[1].split("."))) if match else (0,)
