"""The user's configuration files: where they are, how they are read, and how one list in them is edited.

Files are INI. Keys of ``[default]`` are option names (``engine = naive``, ``engine.workers = 4``) or environment
names; keys of another section are options below it (``[engine]`` ``workers = 4``). The current directory is never
searched: a library must not change its behaviour because of where it was started.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from .._files import replacing
from ..spec.errors import ConfigError

#: Named in messages about the variable that replaces the search.
CONFIG_VARIABLE = "MXCORE_CONFIG"


def user_file(environ: Mapping[str, str]) -> str:
    """The file in the user's configuration directory (it need not exist)."""
    if sys.platform == "win32" and environ.get("APPDATA"):
        return os.path.join(environ["APPDATA"], "mxcore", "config.ini")
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(_home(environ), ".config")
    return os.path.join(base, "mxcore", "config.ini")


def search(environ: Mapping[str, str]) -> list[str]:
    """Existing files, strongest first: the one of ``MXCORE_CONFIG`` alone, else the user's, then ``~/.mxnetrc``.

    Raises
    ------
    ConfigError
        If ``MXCORE_CONFIG`` names a file that does not exist.
    """
    named = environ.get(CONFIG_VARIABLE)
    if named:
        if not os.path.isfile(named):
            raise ConfigError(
                f"{CONFIG_VARIABLE} names '{named}', which is not a file. Create it or unset {CONFIG_VARIABLE}.",
                where=CONFIG_VARIABLE,
                value=named,
            )
        return [named]
    return [path for path in (user_file(environ), os.path.join(_home(environ), ".mxnetrc")) if os.path.isfile(path)]


def read(path: str) -> dict[str, str]:
    """Return the keys of a file as they stand, those of sections with the section in front.

    Raises
    ------
    ConfigError
        If the file cannot be read or is not INI.
    """
    import configparser  # only who has a file pays for the parser

    parser = configparser.RawConfigParser(default_section="\0none", allow_no_value=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # MXNet names are upper case
    try:
        with open(path, encoding="utf-8") as stream:
            parser.read_file(stream, source=path)
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"the configuration file '{path}' cannot be read: {reason}. "
            "It has to be INI: a line [default], then lines like 'engine = naive'.",
            where=path,
        ) from error
    values: dict[str, str] = {}
    for section in parser.sections():
        for key, value in parser.items(section):
            values[_qualified(section, key)] = value
    return values


def edit_list(path: str, option: str, *, add: str = "", remove: str = "") -> bool:
    """Add a word to, or remove it from, a comma-separated option under ``[default]``; other lines are kept.

    Returns
    -------
    bool
        Whether the file changed.
    """
    from .values import split_list

    present = os.path.isfile(path)
    current = split_list(read(path).get(option, "")) if present else []
    wanted = [word for word in current if word != remove]
    if add and add not in wanted:
        wanted.append(add)
    if wanted == current:
        return False
    lines = []
    if present:
        with open(path, encoding="utf-8") as stream:
            lines = stream.read().splitlines()
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with replacing(path, text=True) as stream:
        stream.write("\n".join(_with_option(lines, option, ",".join(wanted))) + "\n")
    return True


def _qualified(section: str, key: str) -> str:
    return key if section == "default" else f"{section}.{key}"


def _with_option(lines: list[str], option: str, value: str) -> list[str]:
    """Lines with ``option = value`` under ``[default]``, replacing the line that was there."""
    section, header, kept = "", None, []
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("["):
            section = stripped.strip("[]")
        elif option == _qualified(section, re.split("[=:]", stripped)[0].strip()):
            continue
        kept.append(line)
        if stripped == "[default]":
            header = len(kept)
    if header is None:
        kept.append("[default]")
        header = len(kept)
    if value:
        kept.insert(header, f"{option} = {value}")
    return kept


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or environ.get("USERPROFILE") or os.path.expanduser("~")
