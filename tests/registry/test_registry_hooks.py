"""Hookspecs are documented; contributions arrive; events reach every plugin, late ones and neighbours of bad ones."""

from __future__ import annotations

import inspect
import logging
import subprocess
import sys

import fault_plugins as faults
import pytest
from fault_plugins import Distribution

from mxcore.registry import KINDS
from mxcore.registry.loader import make_manager
from mxcore.registry.registrar import Registrar
from mxcore.spec import BackendFailed, BackendNotInstalled, BackendRecord, OptionRecord, PluginError, hookspecs

SPECS = [(name, function) for name, function in vars(hookspecs).items() if hasattr(function, hookspecs.MARK)]


@pytest.mark.parametrize(("name", "function"), SPECS, ids=[name for name, _ in SPECS])
def test_every_hook_is_documented_and_known_to_pluggy(name, function):
    text = inspect.getdoc(function)
    for word in ("Runs ", "thread", "raise", "versionadded"):
        assert word in text, f"the docstring of {name} does not say: {word}"
    assert getattr(make_manager().hook, name).spec is not None
    assert name.startswith("mxcore_")


def test_every_kind_has_its_hooks():
    used = {hook for kind in KINDS.values() for hook in kind.hooks}
    assert used <= {name for name, _ in SPECS}
    assert len(SPECS) == 10


EVENTS = """
heard = []

@hookimpl
def mxcore_register_engines(registrar):
    registrar.engine(BackendRecord("{name}", (1, 0), Fake))

@hookimpl
def mxcore_backend_selected(kind, name):
    heard.append((kind, name))
    {extra}

@hookimpl
def mxcore_shutdown():
    heard.append("shutdown")
    {extra}
"""


def test_late_plugins_hear_of_earlier_choices_and_a_bad_listener_hurts_nobody(make, caplog):
    registry = make(
        faults.only_source("a", "good-a", EVENTS.format(name="a", extra="raise OSError('deaf')")),
        faults.only_source("b", "good-b", EVENTS.format(name="b", extra="")),
    )
    with caplog.at_level(logging.ERROR):
        for name in ("naive", "a", "b"):
            registry.create("engine", name)
        registry.shutdown()
    import good_a
    import good_b

    told = [("engine", "naive"), ("engine", "a"), ("engine", "b"), "shutdown"]
    assert good_a.heard == told
    assert good_b.heard == told
    assert "plugin 'good-a:good_a' raised in hook mxcore_shutdown" in caplog.text


def test_contributions_of_general_plugins(make):
    source = """
    from mxcore.spec import OptionRecord
    events = []

    @hookimpl
    def mxcore_register_options(registrar):
        registrar.option(OptionRecord("tracing.depth", int, 4, aliases=("GOOD_DEPTH",)))

    @hookimpl
    def mxcore_register_instruments(registrar):
        registrar.instrument(lambda event, *details: events.append((event, details)), ["push"])

    @hookimpl
    def mxcore_cli_commands(registrar):
        registrar.command("trace", lambda parser: None, lambda arguments: 0, "follow pushes")
    """
    plugin = Distribution("good-trace", {"mxcore.plugins": {"trace": "good_trace"}}, {"good_trace": source})
    registry = make(plugin, GOOD_DEPTH="7")
    registry.load_plugins()
    registry.load_plugins()
    assert [command.help for command in registry.commands.values()] == ["follow pushes"]
    value, origin = registry._config.explain("tracing.depth")
    assert (value, str(origin)) == (7, "environment GOOD_DEPTH")
    assert str(registry._config.layers("tracing.depth")[1].origin) == "plugin default good-trace"
    registry._instruments.emit("push", "dot")
    import good_trace

    assert good_trace.events == [("push", ("dot",))]


def test_operators_come_by_namespace(make):
    source = """
    from types import SimpleNamespace

    @hookimpl
    def mxcore_register_operators(registrar):
        registrar.operator(SimpleNamespace(name="nms"))
    """
    plugin = Distribution("good-vision", {"mxcore.operators": {"vision": "good_vision"}}, {"good_vision": source})
    registry = make(plugin)
    assert registry.operator_namespaces() == ["vision"]
    assert "good_vision" not in sys.modules
    assert [definition.name for definition in registry.operators("vision")] == ["nms"]
    with pytest.raises(BackendNotInstalled, match=r"Did you mean 'vision'\?"):
        registry.operators("visio")


def test_option_of_another_type_fails_the_plugin_and_declares_nothing(make):
    source = """
    @hookimpl
    def mxcore_register_options(registrar):
        registrar.option(OptionRecord("fresh.option", int, 1))
        registrar.option(OptionRecord("engine.workers", str, "many"))

    @hookimpl
    def mxcore_register_engines(registrar):
        registrar.engine(BackendRecord("clash", (1, 0), Fake))
    """
    registry = make(faults.only_source("clash", "fault-clash", source))
    with pytest.raises(
        BackendFailed, match=r"option 'engine\.workers' is declared with type int; fault-clash declares"
    ):
        registry.resolve("engine", "clash")
    assert "fresh.option" not in {record.name for record in registry._config.records()}


class TestRegistrar:
    @pytest.mark.parametrize(
        ("record", "why"),
        [
            (BackendRecord("e", (1,), object), "its api is (1,) instead of (major, minor)"),
            (BackendRecord("e", (1, 0), None), "its factory cannot be called"),
            (BackendRecord("e", (1, 0), object, available=None), "its available cannot be called"),
            (BackendRecord("e", (1, 0), object, device_types="cpu"), "its device_types is a string"),
            (BackendRecord("", (1, 0), object), "its name has to be a word"),
            ("e", "it has to be a BackendRecord"),
        ],
    )
    def test_malformed_records(self, record, why):
        with pytest.raises(PluginError) as caught:
            Registrar("dist").engine(record)
        assert why in str(caught.value)
        assert str(caught.value).startswith("dist registers ")
        assert str(caught.value).endswith("Correct the plugin's registration.")

    def test_twice(self):
        registrar = Registrar("dist")
        registrar.engine(BackendRecord("e", (1, 0), object))
        with pytest.raises(PluginError) as caught:
            registrar.engine(BackendRecord("e", (1, 0), object))
        assert str(caught.value) == "dist registers engine 'e' twice. Register each name once."

    def test_op_library_without_device_types(self):
        registrar = Registrar("dist")
        with pytest.raises(PluginError, match="names no device types"):
            registrar.op_library(BackendRecord("o", (1, 0), object))
        assert registrar.backends["ops"] == {}

    def test_things_that_are_not_what_they_should_be(self):
        registrar = Registrar("dist")
        with pytest.raises(PluginError, match="it has no name"):
            registrar.operator(object())
        with pytest.raises(PluginError, match="it cannot be called"):
            registrar.instrument(3, ["push"])
        with pytest.raises(PluginError, match=r"there is no event 'psh'\. Events: push, begin"):
            registrar.instrument(print, ["psh"])
        with pytest.raises(PluginError, match="it has to be an OptionRecord"):
            registrar.option("x")
        registrar.option(OptionRecord("x", int, 1))
        assert [option.name for option in registrar.options] == ["x"]


def test_built_ins_scan_nothing_and_import_no_pluggy():
    program = """
import sys, os
from mxcore.registry import process_registry, discovery
def forbidden(*arguments):
    raise AssertionError("metadata were scanned")
discovery.scan = discovery.thorough = forbidden
registry = process_registry()
registry._entry_points = forbidden
for kind, name in (("engine", "naive"), ("storage", "direct"), ("ops", "numpy")):
    registry.create(kind, name)
costly = ("pluggy", "importlib.metadata", "mxcore.registry.loader", "argparse", "configparser")
print([name for name in costly if name in sys.modules])
"""
    environ = {"HOME": "/nowhere", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
