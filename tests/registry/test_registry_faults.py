"""Every fault becomes a record; the host goes on, and who asks by name is told what, why and what to do."""

from __future__ import annotations

import sys
import warnings

import fault_plugins as faults
import pytest

from mxcore._version import __version__
from mxcore.registry import PluginWarning, Stage, State
from mxcore.spec import BackendBlocked, BackendFailed, BackendIncompatible, BackendUnavailable, ConfigError


def doctor(name: str) -> str:
    return f"Run 'mxcore plugins doctor {name}' for details, or choose another with MXCORE_ENGINE=naive."


CASES = [
    (
        faults.IMPORT,
        Stage.IMPORT,
        ImportError,
        "engine 'bad_import' (fault-import 1.0) failed at import: "
        "ImportError: libfault.so.1: cannot open shared object file. " + doctor("bad_import"),
    ),
    (
        faults.EXIT,
        Stage.IMPORT,
        SystemExit,
        "engine 'exits' (fault-sysexit 1.0) failed at import: SystemExit: no licence. " + doctor("exits"),
    ),
    (
        faults.MISSING,
        Stage.IMPORT,
        ModuleNotFoundError,
        "engine 'missing' (fault-missing 1.0) failed at import: ModuleNotFoundError: "
        "No module named 'fault_module_that_is_not_there'. " + doctor("missing"),
    ),
    (
        faults.REGISTER,
        Stage.REGISTER,
        LookupError,
        "engine 'half' (fault-half 1.0) failed at register: LookupError: second engine not found. " + doctor("half"),
    ),
    (
        faults.PROBE,
        Stage.PROBE,
        OSError,
        "engine 'bad_probe' (fault-probe 1.0) failed at probe: OSError: bus error. " + doctor("bad_probe"),
    ),
    (
        faults.CREATE,
        Stage.CREATE,
        MemoryError,
        "engine 'bad_create' (fault-create 1.0) failed at create: MemoryError: no pages. " + doctor("bad_create"),
    ),
    (
        faults.NOTHING,
        Stage.REGISTER,
        Exception,
        "engine 'nothing' (fault-nothing 1.0) failed at register: PluginError: module 'fault_nothing' registered no "
        "engine named 'nothing' (it registered: nothing). Implement mxcore_register_engines in it, marked with "
        "mxcore.registry.hookimpl. " + doctor("nothing"),
    ),
]


@pytest.mark.parametrize(("fault", "stage", "error", "text"), CASES, ids=[case[0].name for case in CASES])
def test_failure_is_recorded_and_raised_to_who_asks(make, fault, stage, error, text):
    registry = make(fault)
    (name,) = fault.entry_points["mxcore.engines"]
    with pytest.raises(BackendFailed) as caught:
        registry.create("engine", name)
    assert str(caught.value) == text
    assert isinstance(caught.value.__cause__, error)
    assert (caught.value.kind, caught.value.name, caught.value.distribution) == ("engine", name, fault.name)
    (candidate,) = [one for one in registry.candidates("engine") if one.name == name]
    assert candidate.state is State.FAILED
    failure = candidate.failure
    assert (failure.stage, failure.distribution, failure.version) == (stage, fault.name, "1.0")
    assert type(failure.error).__name__ in failure.trace
    assert registry.create("engine", "naive").name == "naive"


def test_contract_violation_names_the_missing_members(make):
    with pytest.raises(BackendFailed) as caught:
        make(faults.CONTRACT).create("engine", "hollow")
    assert "failed at create: TypeError: Hollow lacks bulk, capabilities, delete_variable, " in str(caught.value)


def test_hook_that_does_not_exist_is_a_registration_failure(make):
    registry = make(faults.PENDING)
    with pytest.raises(BackendFailed) as caught:
        registry.resolve("engine", "typo")
    assert caught.value.stage == "register"
    assert "unknown hook 'mxcore_register_engine'" in str(caught.value)


def test_half_registration_is_rolled_back(make):
    registry = make(faults.REGISTER, faults.GOOD)
    with pytest.raises(BackendFailed):
        registry.resolve("engine", "half")
    with pytest.raises(ConfigError, match=r"unknown option 'half\.size'"):
        registry._config.get("half.size")
    (half,) = [one for one in registry.candidates("engine") if one.name == "half"]
    assert half.record is None
    # pluggy has forgotten it too: the next plugin registers, and events reach only that one.
    assert registry.create("engine", "good") is not None


def test_failure_is_remembered_until_refresh(make, tmp_path):
    registry = make(faults.IMPORT)
    for _ in range(2):
        with pytest.raises(BackendFailed) as caught:
            registry.resolve("engine", "bad_import")
    first = caught.value.__cause__
    with pytest.raises(BackendFailed) as again:
        registry.resolve("engine", "bad_import")
    assert again.value.__cause__ is first, "the module was imported once"
    source = (tmp_path / "fault_import.py").read_text()
    (tmp_path / "fault_import.py").write_text(source.replace("raise ImportError", "str"))
    registry.refresh()
    assert registry.resolve("engine", "bad_import").name == "bad_import"


def test_wrong_contract_version_is_refused_before_the_factory_runs(make):
    registry = make(faults.TOO_NEW, faults.TOO_OLD)
    with pytest.raises(BackendIncompatible) as caught:
        registry.create("engine", "x")
    assert str(caught.value) == (
        f"engine 'x' (dist 2.0.1) needs engine API 2.0; this mxcore ({__version__}) offers 1.1. "
        "Upgrade mxcore to >=2,<3 or install dist <2."
    )
    with pytest.raises(BackendIncompatible) as caught:
        registry.create("engine", "old")
    assert str(caught.value) == (
        f"engine 'old' (fault-old 0.3.1) needs engine API 0.9; this mxcore ({__version__}) offers 1.1. "
        "Upgrade fault-old or install mxcore that offers engine API 0.9."
    )
    assert {one.state for one in registry.candidates("engine") if not one.builtin} == {State.INCOMPATIBLE}


def test_unavailable_says_the_reason_and_the_hint(make):
    with pytest.raises(BackendUnavailable) as caught:
        make(faults.NO_DEVICE).create("engine", "no_device")
    assert str(caught.value) == (
        "engine 'no_device' (good-no-device 1.0) cannot be used here: no accelerator found. Plug one in."
    )


def test_default_ignores_every_fault_with_one_warning(make):
    registry = make(*faults.IN_PROCESS, faults.GOOD, faults.NO_DEVICE)
    with pytest.warns(PluginWarning) as warned:
        assert registry.default_name("engine") == "naive"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert registry.create("engine").name == "naive"
        registry.default_name("engine")
    (warning,) = warned
    assert str(warning.message) == (
        "engine 'bad_import' (fault-import 1.0) failed at import: ImportError: libfault.so.1: cannot open shared "
        "object file. 7 more plugins have problems too. They are not used. Run 'mxcore plugins doctor' for details."
    )


def test_strict_raises_what_the_default_would_ignore(make):
    registry = make(faults.IMPORT, MXCORE_STRICT_PLUGINS="1")
    with pytest.raises(BackendFailed, match="bad_import"):
        registry.create("engine")


def test_keyboard_interrupt_is_the_users(make):
    registry = make(faults.engine("stop", "fault-interrupt", "raise KeyboardInterrupt"))
    with pytest.raises(KeyboardInterrupt):
        registry.resolve("engine", "stop")


@pytest.mark.parametrize("word", ["fault-kill", "fault_kill", "kills", "fault-kill:kills"])
def test_blocked_is_never_imported(make, word):
    registry = make(faults.KILL, MXCORE_PLUGINS_BLOCK=word)
    with pytest.raises(BackendBlocked) as caught:
        registry.create("engine", "kills")
    assert str(caught.value) == (
        f"engine 'kills' (fault-kill 1.0) is blocked: option plugins.block (MXCORE_PLUGINS_BLOCK) lists '{word}'. "
        f"Take it out of the list, or run 'mxcore plugins unblock {word}'."
    )
    assert registry.create("engine").name == "naive"
    assert "fault_kill" not in sys.modules
    assert [one.state for one in registry.candidates("engine")][1] is State.BLOCKED


def test_allow_list(make):
    registry = make(faults.GOOD, faults.KILL, MXCORE_PLUGINS="good-engine")
    assert registry.resolve("engine", "good").distribution == "good-engine"
    with pytest.raises(BackendBlocked) as caught:
        registry.create("engine", "kills")
    assert str(caught.value) == (
        "engine 'kills' (fault-kill 1.0) is blocked: option plugins (MXCORE_PLUGINS) allows good-engine. "
        "Add 'fault-kill' to the list, or unset it."
    )


def test_empty_allow_list_means_built_ins_only(make):
    registry = make(faults.GOOD, MXCORE_PLUGINS="")
    assert registry.default_name("engine") == "naive"
    with pytest.raises(BackendBlocked, match=r"allows nothing, so built-ins only\. Add 'good-engine'"):
        registry.create("engine", "good")


def test_installed_faults_do_not_hurt_who_asks_for_a_built_in(make):
    registry = make(faults.KILL, faults.HANG, faults.CRASH)
    assert registry.create("engine", "naive").name == "naive"
    assert {one.state for one in registry.candidates() if not one.builtin} == {State.DISCOVERED}
