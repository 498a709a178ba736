"""Options: precedence with origins, MXNet's names, files, and values that cannot be."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

import pytest

from mxcore.config import Config, ConfigWarning
from mxcore.config.files import edit_list, user_file
from mxcore.config.options import CORE_OPTIONS, MXNET_NAMES, environment_name, option_name
from mxcore.spec import ConfigError, OptionRecord


@pytest.fixture
def config(tmp_path):
    """``config(**environ)`` with a home of its own."""

    def make(**environ: str) -> Config:
        return Config(environ={"HOME": str(tmp_path), **environ})

    return make


def test_precedence_every_level_over_the_next(config, tmp_path):
    (tmp_path / ".mxnetrc").write_text("[default]\nengine = from_rc\n")
    path = Path(user_file({"HOME": str(tmp_path)}))
    path.parent.mkdir(parents=True)
    path.write_text("[default]\nengine = from_user\n")
    options = config(MXCORE_ENGINE="from_env", MXNET_ENGINE_TYPE="NaiveEngine")
    options.declare(OptionRecord("engine", CORE_OPTIONS[0].kind, "from_plugin"), distribution="d")
    options.set(engine="from_set")
    with options.context(engine="from_context"):
        assert str(options.explain("engine", argument="from_argument").origin) == "argument"
        found = [(setting.value, str(setting.origin)) for setting in options.layers("engine")]
    assert found == [
        ("from_context", "context"),
        ("from_set", "set"),
        ("from_env", "environment MXCORE_ENGINE"),
        ("naive", "environment MXNET_ENGINE_TYPE"),
        ("from_user", f"file {path}"),
        ("from_rc", f"file {tmp_path / '.mxnetrc'}"),
        ("from_plugin", "plugin default d"),
        (None, "default"),
    ]
    assert options.get("engine") == "from_set"
    options.set(engine=None)
    assert options.get("engine") == "from_env"


def test_named_file_replaces_the_search(config, tmp_path):
    (tmp_path / ".mxnetrc").write_text("[default]\nengine = rc\n")
    named = tmp_path / "mine.ini"
    named.write_text("[default]\nstorage.gpu = round\n[engine]\nworkers = 4\n")
    options = config(MXCORE_CONFIG=str(named))
    assert (options.get("engine"), options.get("storage.gpu"), options.get("engine.workers")) == (None, "round", 4)
    missing = tmp_path / "none.ini"
    with pytest.raises(ConfigError) as caught:
        config(MXCORE_CONFIG=str(missing)).get("engine")
    assert str(caught.value) == (
        f"MXCORE_CONFIG names '{missing}', which is not a file. Create it or unset MXCORE_CONFIG."
    )


def test_current_directory_is_not_searched(config, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".mxnetrc").write_text("[default]\nengine = trap\n")
    (elsewhere / "config.ini").write_text("[default]\nengine = trap\n")
    monkeypatch.chdir(elsewhere)
    assert config().get("engine") is None


def test_files_take_mxnet_names(config, tmp_path):
    (tmp_path / ".mxnetrc").write_text("[default]\nMXNET_ENGINE_TYPE = ThreadedEngine\nMXNET_UNKNOWN = 1\n")
    assert config().get("engine") == "threaded"


def test_file_that_is_not_ini(config, tmp_path):
    (tmp_path / ".mxnetrc").write_text("engine = naive\n")
    with pytest.raises(ConfigError) as caught:
        config().get("engine")
    text = str(caught.value)
    assert text.startswith(f"the configuration file '{tmp_path / '.mxnetrc'}' cannot be read: File contains no section")
    assert text.endswith("It has to be INI: a line [default], then lines like 'engine = naive'.")


@pytest.mark.parametrize(
    ("variable", "text", "option", "value"),
    [
        ("MXNET_ENGINE_TYPE", "NaiveEngine", "engine", "naive"),
        ("MXNET_ENGINE_TYPE", "ThreadedEngine", "engine", "threaded"),
        ("MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice", "engine", "threaded_per_device"),
        ("MXNET_GPU_MEM_POOL_TYPE", "Round", "storage.gpu", "round"),
        ("MXNET_GPU_MEM_POOL_TYPE", "Unpooled", "storage.gpu", "unpooled"),
        ("MXNET_CPU_WORKER_NTHREADS", "3", "engine.workers", 3),
        ("MXNET_GPU_MEM_POOL_RESERVE", "10", "pool.reserve", 10),
        ("MXCORE_ENGINE__WORKERS", "8", "engine.workers", 8),
        ("MXCORE_OPS", "cupy, numpy", "ops", ("cupy", "numpy")),
        ("MXCORE_OPS__FAKE_DEVICE", "jax", "ops.fake_device", "jax"),
        ("MXCORE_PLUGINS", "", "plugins", []),
        ("MXCORE_PLUGINS_BLOCK", "a,b", "plugins.block", ["a", "b"]),
        ("MXCORE_PLUGINS__BLOCK", "a", "plugins.block", ["a"]),
        ("MXCORE_STRICT_PLUGINS", "On", "plugins.strict", True),
        ("MXCORE_STRICT_PLUGINS", "no", "plugins.strict", False),
        ("MXCORE_ENGINE", " ", "engine", None),
    ],
)
def test_environment(config, variable, text, option, value):
    found, origin = config(**{variable: text}).explain(option)
    assert found == value
    assert str(origin) == ("default" if value is None else f"environment {variable}")


@pytest.mark.parametrize(
    ("variable", "text", "option", "message"),
    [
        (
            "MXNET_ENGINE_TYPE",
            "NaivEngine",
            "engine",
            "MXNET_ENGINE_TYPE is 'NaivEngine', which is not one of MXNet's values: NaiveEngine, ThreadedEngine, "
            "ThreadedEnginePerDevice. Did you mean NaiveEngine?",
        ),
        (
            "MXNET_ENGINE_TYPE",
            "naive",
            "engine",
            "MXNET_ENGINE_TYPE is 'naive', which is not one of MXNet's values: NaiveEngine, ThreadedEngine, "
            "ThreadedEnginePerDevice. Other values go into MXCORE_ENGINE.",
        ),
        (
            "MXCORE_STRICT_PLUGINS",
            "maybe",
            "plugins.strict",
            "MXCORE_STRICT_PLUGINS is 'maybe', which cannot be a value of option 'plugins.strict'. "
            "Give 1, true, yes, on, 0, false, no or off.",
        ),
        (
            "MXNET_CPU_WORKER_NTHREADS",
            "two",
            "engine.workers",
            "MXNET_CPU_WORKER_NTHREADS is 'two', which cannot be a value of option 'engine.workers'. Give an integer.",
        ),
    ],
)
def test_bad_variable_is_named(config, variable, text, option, message):
    options = config(**{variable: text})
    assert options.get("pool.reserve") is None, "a bad variable hurts only its own option"
    with pytest.raises(ConfigError) as caught:
        options.get(option)
    assert str(caught.value) == message


def test_unknown_variable_warns_once_with_the_closest_name(config):
    options = config(MXCORE_ENGIN="naive", MXCORE_STRICT_PLUGIN="1", MXCORE_ENGINE__SPIN="1", MXNET_FOO="1")
    with pytest.warns(ConfigWarning) as warned:
        options.get("engine")
    assert sorted(str(warning.message) for warning in warned) == [
        "unknown environment variable MXCORE_ENGIN is ignored. Did you mean MXCORE_ENGINE?",
        "unknown environment variable MXCORE_STRICT_PLUGIN is ignored. Did you mean MXCORE_STRICT_PLUGINS?",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options.refresh()
        options.get("engine")
    assert options.ignored_mxnet_variables() == ["MXNET_FOO"]
    with pytest.warns(ConfigWarning, match="MXCORE_ENGINE__SPIN is ignored"):
        options.judge("engine")


def test_unknown_key_of_a_file_warns(config, tmp_path):
    (tmp_path / ".mxnetrc").write_text("[default]\nplugins.blok = a\n")
    with pytest.warns(ConfigWarning, match=r"unknown option 'plugins\.blok' in .* Did you mean plugins\.block\?"):
        config().get("engine")


def test_unknown_option(config):
    with pytest.raises(ConfigError) as caught:
        config().get("engin")
    assert str(caught.value) == "unknown option 'engin'. Did you mean 'engine'?"
    with pytest.raises(ConfigError, match=r"^unknown option 'zzz'\. 'mxcore config show' lists the options\.$"):
        config().set(zzz=1)


def test_environment_is_read_at_first_use_and_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    options = Config()
    monkeypatch.setenv("MXCORE_ENGINE", "first")
    assert options.get("engine") == "first"
    monkeypatch.setenv("MXCORE_ENGINE", "second")
    assert options.get("engine") == "first"
    options.refresh()
    assert options.get("engine") == "second"


def test_set_is_all_or_nothing_and_typed(config):
    options = config()
    with pytest.raises(ConfigError) as caught:
        options.set(engine="naive", engine__workers="many")
    assert str(caught.value) == (
        "option 'engine.workers' is 'many', which cannot be a value of option 'engine.workers'. Give an integer."
    )
    assert options.get("engine") is None
    options.set({"engine.workers": 2}, storage={"cpu": "round", "gpu": ["naive", "round"]})
    assert options.get("engine.workers") == 2
    assert options.get("storage.gpu") == ("naive", "round")
    for wrong in (True, 1.5, ["a"]):
        with pytest.raises(ConfigError, match="Give an integer"):
            options.set(engine__workers=wrong)
    with pytest.raises(ConfigError, match="Give a name or a list of names"):
        options.set(engine=3)


def test_context_nests_and_stays_in_its_thread(config):
    options, seen = config(), []
    with options.context(engine="outer", engine__workers=1):
        with options.context(engine="inner"):
            assert (options.get("engine"), options.get("engine.workers")) == ("inner", 1)
        assert options.get("engine") == "outer"
        thread = threading.Thread(target=lambda: seen.append(options.get("engine")))
        thread.start()
        thread.join()
    assert seen == [None]
    assert options.get("engine") is None


def test_choices(config):
    options = config()
    options.declare(OptionRecord("mode", str, "a", choices=("a", "b")))
    with pytest.raises(ConfigError, match=r"option 'mode' is 'c', .* Give one of a, b\.$"):
        options.set(mode="c")


def test_generation_grows_with_changes(config):
    options = config()
    seen = [options.generation]
    options.set(engine="naive")
    seen.append(options.generation)
    options.refresh()
    seen.append(options.generation)
    assert seen == sorted(set(seen))


def test_child_processes_inherit_the_choices(config):
    options = config()
    options.set(engine="naive", engine__workers=2)
    with options.context({"ops": ["cupy", "numpy"]}):
        environ = options.child_environment()
    assert environ == {"MXCORE_ENGINE": "naive", "MXCORE_ENGINE__WORKERS": "2", "MXCORE_OPS": "cupy,numpy"}
    child = config(**environ)
    assert (child.get("engine"), child.get("engine.workers"), child.get("ops")) == ("naive", 2, ("cupy", "numpy"))


def test_names_and_variables_are_each_others_inverse():
    for record in CORE_OPTIONS:
        if not record.name.endswith("*"):
            assert option_name(environment_name(record.name)) == record.name
            assert record.doc.endswith(".")


def test_mxnet_names_lead_to_declared_options(config):
    options = config()
    for option, _ in MXNET_NAMES.values():
        options.get(option)


class TestEditing:
    def test_other_lines_are_kept(self, tmp_path):
        path = tmp_path / "sub" / "config.ini"
        assert edit_list(path, "plugins.block", add="a")
        path.write_text("# mine\n" + path.read_text() + "engine = naive\n\n[engine]\nworkers = 2\n")
        assert edit_list(path, "plugins.block", add="b")
        assert not edit_list(path, "plugins.block", add="b")
        assert path.read_text() == ("# mine\n[default]\nplugins.block = a,b\nengine = naive\n\n[engine]\nworkers = 2\n")
        assert edit_list(path, "plugins.block", remove="a")
        assert edit_list(path, "plugins.block", remove="b")
        assert path.read_text() == "# mine\n[default]\nengine = naive\n\n[engine]\nworkers = 2\n"
        assert [entry.name for entry in path.parent.iterdir()] == ["config.ini"]

    def test_section_form_is_replaced(self, tmp_path):
        path = tmp_path / "config.ini"
        path.write_text("[plugins]\nblock: a\n")
        edit_list(path, "plugins.block", add="b")
        assert path.read_text() == "[plugins]\n[default]\nplugins.block = a,b\n"
