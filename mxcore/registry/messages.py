"""The error texts of the registry: what happened, why, what to do. Every function returns the error to raise.

All of them are asserted word by word in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._version import __version__
from ..spec.errors import (
    BackendAmbiguous,
    BackendBlocked,
    BackendError,
    BackendFailed,
    BackendIncompatible,
    BackendNotInstalled,
    BackendUnavailable,
)
from ..spec.versions import API, Version
from .builtins import KNOWN, KNOWN_DEVICES
from .candidate import Candidate, Failure
from .kinds import KINDS


def who(candidate: Candidate, origin: str = "") -> str:
    """``engine 'x' (dist 1.0)``, with who asked for it where that was not the calling line."""
    inside = f"{candidate.distribution} {candidate.version}".strip()
    asked = _asked(origin)
    details = ", ".join(part for part in (inside, asked) if part)
    return f"{KINDS[candidate.kind].noun} '{candidate.name}'" + (f" ({details})" if details else "")


def not_installed(kind: str, name: str, installed: Sequence[str], close: str | None, origin: str = "") -> BackendError:
    """No distribution provides the name."""
    row = KINDS[kind]
    asked = _asked(origin)
    head = f"{row.noun} '{name}'" + (f" ({asked})" if asked else "")
    text = f"{head} is not installed. Installed {row.plural}: {', '.join(installed) or 'none'}."
    distribution = KNOWN.get((kind, name))
    if distribution:
        text += f" Install it with: pip install {distribution}"
    elif close and (kind, close) in KNOWN and close not in installed:
        distribution = KNOWN[kind, close]
        text += f" Did you mean '{close}'? Install that with: pip install {distribution}"
    elif close:
        text += f" Did you mean '{close}'?"
    else:
        text += f" Install the distribution that provides it, or choose another with {_choose(kind, installed)}."
    return BackendNotInstalled(text, kind=kind, name=name, distribution=distribution, installed=list(installed))


def failed(candidate: Candidate, failure: Failure, others: Sequence[str], origin: str = "") -> BackendError:
    """Import, registration, probe or creation raised; chained by the caller."""
    text = f"{who(candidate, origin)} failed at {failure.stage.value}: {_sentence(failure.summary)} {failure.remedy}"
    others = [other for other in others if other != candidate.name]
    if others:
        text = text.rstrip(".") + f", or choose another with {_choose(candidate.kind, others)}."
    error = BackendFailed(
        text,
        kind=candidate.kind,
        name=candidate.name,
        distribution=candidate.distribution,
        version=candidate.version,
        stage=failure.stage.value,
        trace=failure.trace,
    )
    error.__cause__ = failure.error
    return error


def incompatible(candidate: Candidate, wanted: Version, origin: str = "") -> BackendError:
    """The contract version differs."""
    offered = API[candidate.kind]
    requires = candidate.source.requires if candidate.source else ""
    name, version = candidate.distribution, candidate.version
    if wanted > offered:
        target = f"to {requires}" if requires else f"to one that offers {candidate.kind} API {_dotted(wanted)}"
        remedy = f"Upgrade mxcore {target} or install {name} <{_first_of_series(version)}."
    else:
        target = requires or f"that offers {candidate.kind} API {_dotted(wanted)}"
        remedy = f"Upgrade {name} or install mxcore {target}."
    return BackendIncompatible(
        f"{who(candidate, origin)} needs {candidate.kind} API {_dotted(wanted)}; "
        f"this mxcore ({__version__}) offers {_dotted(offered)}. {remedy}",
        kind=candidate.kind,
        name=candidate.name,
        distribution=name,
        version=version,
        wanted=wanted,
        offered=offered,
    )


def ambiguous(kind: str, name: str, candidates: Sequence[Candidate]) -> BackendError:
    """More than one distribution provides the short name."""
    count = {2: "two", 3: "three", 4: "four"}.get(len(candidates), str(len(candidates)))
    providers = ", ".join(f"{candidate.distribution} {candidate.version}".strip() for candidate in candidates)
    choices = _either([f"'{candidate.qualified}'" for candidate in candidates])
    return BackendAmbiguous(
        f"{count} distributions provide {KINDS[kind].noun} '{name}': {providers}. Say which: {choices}.",
        kind=kind,
        name=name,
        candidates=[candidate.qualified for candidate in candidates],
    )


def blocked(candidate: Candidate, origin: str = "") -> BackendError:
    """The user does not want it imported."""
    return BackendBlocked(
        f"{who(candidate, origin)} is blocked: {candidate.reason}. {candidate.hint}",
        kind=candidate.kind,
        name=candidate.name,
        distribution=candidate.distribution,
        version=candidate.version,
    )


def unavailable(candidate: Candidate, device_type: str | None = None, origin: str = "") -> BackendError:
    """The probe says it cannot be used on this machine."""
    if device_type is not None and candidate.record is not None and candidate.record.device_types:
        asked = _asked(origin)
        head = f"device type '{device_type}' is served by {KINDS[candidate.kind].noun} '{candidate.name}'"
        head += f" ({asked}), which reports" if asked else ", which reports"
    else:
        head = f"{who(candidate, origin)} cannot be used here"
    text = f"{head}: {_sentence(candidate.reason or 'no reason given')}"
    return BackendUnavailable(
        f"{text} {_sentence(candidate.hint)}" if candidate.hint else text,
        kind=candidate.kind,
        name=candidate.name,
        distribution=candidate.distribution,
        reason=candidate.reason,
        hint=candidate.hint,
    )


def unserved(kind: str, device_type: str, candidates: Iterable[Candidate]) -> BackendError:
    """No installed backend is for this device type."""
    row = KINDS[kind]
    serving = [
        f"{one.name} ({', '.join(sorted(one.record.device_types))})"
        for one in candidates
        if one.record is not None and one.record.device_types
    ]
    names = KNOWN_DEVICES.get(device_type, ()) if kind == "ops" else ()
    remedy = (
        "Install one with: " + " or ".join(f"pip install {KNOWN[kind, name]}" for name in names)
        if names
        else f"Use one of their device types, or install {_article(row.noun)} that serves '{device_type}'."
    )
    return BackendNotInstalled(
        f"device type '{device_type}' is not served by any installed {row.noun}. "
        f"Installed {row.plural}: {', '.join(serving) or 'none'}. {remedy}",
        kind=kind,
        name=None,
        device_type=device_type,
    )


def not_serving(candidate: Candidate, device_type: str, origin: str = "") -> BackendError:
    """The backend named is for other device types."""
    types = sorted(candidate.record.device_types) if candidate.record else []
    return BackendUnavailable(
        f"{who(candidate, origin)} does not serve device type '{device_type}'; it serves: {', '.join(types)}. "
        f"Choose another with {KINDS[candidate.kind].variable}__{device_type.upper()}.",
        kind=candidate.kind,
        name=candidate.name,
        device_type=device_type,
    )


def fallback(kind: str, error: BackendError, chosen: str, names: Sequence[str]) -> str:
    """The warning of one step down a list that the user gave."""
    return f"{_sentence(str(error))} Using {KINDS[kind].noun} '{chosen}', the next in the list {','.join(names)}."


def broken_plugins(candidates: Sequence[Candidate]) -> str:
    """The one line about plugins that nobody asked for by name."""
    first = candidates[0]
    if first.failure is not None:
        detail = f"failed at {first.failure.stage.value}: {_sentence(first.failure.summary)}"
    else:
        detail = "was written for another contract version."
    count = len(candidates) - 1
    more = f"{count} more {'plugins have' if count > 1 else 'plugin has'} problems too. They are" if count else "It is"
    return f"{who(first)} {detail} {more} not used. Run 'mxcore plugins doctor' for details."


def _asked(origin: str) -> str:
    """Who asked, when it was not the calling line itself."""
    if not origin or origin.startswith(("argument", "default", "plugin default")):
        return ""
    level, _, detail = origin.partition(" ")
    return (
        f"asked for by {detail}" if detail else {"set": "asked for by config.set"}.get(level, f"asked for by {level}")
    )


def _choose(kind: str, names: Sequence[str]) -> str:
    return f"{KINDS[kind].variable}={names[0]}" if names else KINDS[kind].variable


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _sentence(text: str) -> str:
    text = text.rstrip()
    return text if text.endswith((".", "!", "?", "...")) else text + "."


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


def _first_of_series(version: str) -> str:
    """``2`` for 2.0.1 and ``0.3`` for 0.3.1: earlier releases were written for the earlier contract."""
    parts = version.split(".")
    return ".".join(parts[:2]) if parts[0] == "0" else (parts[0] or version)
