"""Plugins that go wrong in every way, written as installed distributions (dist-info and modules) into a folder."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from mxcore.registry import KINDS

_LIGHT = """
from mxcore.registry import hookimpl
from mxcore.spec import Availability, BackendRecord, Engine, OptionRecord

class Fake:
    def __init__(self, **options):
        self.options = options

for member in dir(Engine) + list(Engine.__annotations__):
    if not member.startswith("_"):
        setattr(Fake, member, lambda self, *arguments, **more: None)
Fake.push = lambda self, fn, *arguments, **more: fn()
"""


@dataclass
class Distribution:
    """One installed distribution; ``modules`` maps file name to source (after the light prelude)."""

    name: str
    entry_points: dict[str, dict[str, str]]
    modules: dict[str, str] = field(default_factory=dict)
    version: str = "1.0"
    requires: tuple[str, ...] = ()

    def install(self, folder: Path) -> None:
        info = folder / f"{self.name.replace('-', '_')}-{self.version}.dist-info"
        info.mkdir(parents=True)
        lines = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self.version}"]
        lines += [f"Requires-Dist: {requirement}" for requirement in self.requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        text = ""
        for group, names in self.entry_points.items():
            text += f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in names.items())
        (info / "entry_points.txt").write_text(text)
        for module, source in self.modules.items():
            (folder / f"{module}.py").write_text(_LIGHT + textwrap.dedent(source))


def engine(
    name: str,
    distribution: str,
    source: str = "",
    *,
    api: str = "(1, 0)",
    record: str = "",
    factory: str = "Fake",
    version: str = "1.0",
    requires: tuple[str, ...] = (),
) -> Distribution:
    """A distribution with one engine whose module is ``source`` followed by an ordinary registration."""
    module = distribution.replace("-", "_")
    hook = f"""
@hookimpl
def mxcore_register_engines(registrar):
    registrar.engine(BackendRecord("{name}", {api}, {factory}, {record}))
"""
    body = textwrap.dedent(source) + hook
    return Distribution(distribution, {KINDS["engine"].group: {name: module}}, {module: body}, version, requires)


def only_source(name: str, distribution: str, source: str) -> Distribution:
    """A distribution with one engine whose module is ``source`` and nothing else."""
    module = distribution.replace("-", "_")
    return Distribution(distribution, {"mxcore.engines": {name: module}}, {module: source})


GOOD = engine("good", "good-engine", record="priority=-5")
IMPORT = engine("bad_import", "fault-import", 'raise ImportError("libfault.so.1: cannot open shared object file")')
EXIT = engine("exits", "fault-sysexit", 'import sys\nsys.exit("no licence")')
MISSING = Distribution("fault-missing", {"mxcore.engines": {"missing": "fault_module_that_is_not_there"}})
REGISTER = only_source(
    "half",
    "fault-half",
    """
    @hookimpl
    def mxcore_register_options(registrar):
        registrar.option(OptionRecord("half.size", int, 3))

    @hookimpl
    def mxcore_register_engines(registrar):
        registrar.engine(BackendRecord("half", (1, 0), Fake))
        raise LookupError("second engine not found")
    """,
)
PROBE = engine("bad_probe", "fault-probe", "def probe():\n    raise OSError('bus error')", record="available=probe")
CREATE = engine("bad_create", "fault-create", "def make():\n    raise MemoryError('no pages')", factory="make")
CONTRACT = engine("hollow", "fault-contract", "class Hollow: pass", factory="Hollow")
TOO_NEW = engine("x", "dist", api="(2, 0)", version="2.0.1", requires=("mxcore>=2,<3",), factory="1 / 0 and Fake")
TOO_NEW.modules["dist"] = TOO_NEW.modules["dist"].replace("1 / 0 and Fake", "lambda: 1 / 0")
TOO_OLD = engine("old", "fault-old", api="(0, 9)", version="0.3.1")
PENDING = only_source("typo", "fault-typo", "@hookimpl\ndef mxcore_register_engine(registrar): pass")
NOTHING = only_source("nothing", "fault-nothing", "def mxcore_register_engines(registrar): 1 / 0  # not marked")
NO_DEVICE = engine(
    "no_device",
    "good-no-device",
    "def probe():\n    return Availability(False, 'no accelerator found', 'Plug one in')",
    record="available=probe, priority=50",
)
TWIN_A = engine("fast", "a-engine", version="1.0")
TWIN_B = engine("fast", "b-engine", version="0.2")
HEAVY = engine("heavy", "fault-heavy", "import fault_heavy_library")
HEAVY.modules["fault_heavy_library"] = ""
HANG = engine("hangs", "fault-hang", "import threading\nthreading.Event().wait()")
KILL = engine("kills", "fault-kill", "import os\nprint('last words', flush=True)\nos._exit(3)")
CRASH = engine("crashes", "fault-crash", "import os\ndef make():\n    os.kill(os.getpid(), 11)", factory="make")

#: Survivable inside the host.
IN_PROCESS = (IMPORT, EXIT, MISSING, REGISTER, PROBE, CREATE, CONTRACT, TOO_NEW, TOO_OLD, PENDING, NOTHING)
EVERYTHING = (*IN_PROCESS, GOOD, NO_DEVICE, TWIN_A, TWIN_B, HEAVY, HANG, KILL, CRASH)
MINE = frozenset(distribution.name for distribution in EVERYTHING)
