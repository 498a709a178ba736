"""Names, lists, defaults, origins, required plugins: what is meant, and what is said when it is not there."""

from __future__ import annotations

import sys
from dataclasses import replace

import fault_plugins as faults
import pytest
from fault_plugins import Distribution, engine

from mxcore.registry import EntryPoint, PluginWarning, State, discovery, quick
from mxcore.registry.discovery import tidy
from mxcore.spec import (
    Availability,
    BackendAmbiguous,
    BackendFailed,
    BackendNotInstalled,
    BackendRecord,
    BackendUnavailable,
    ConfigError,
    PluginError,
)


def test_not_installed_names_the_distribution(make):
    with pytest.raises(BackendNotInstalled) as caught:
        make().create("engine", "threaded")
    assert str(caught.value) == (
        "engine 'threaded' is not installed. Installed engines: naive. "
        "Install it with: pip install mxcore-engine-threaded"
    )
    assert caught.value.distribution == "mxcore-engine-threaded"


def test_inherited_mxnet_engine_type_is_an_explicit_request(make):
    registry = make(MXNET_ENGINE_TYPE="ThreadedEnginePerDevice")
    with pytest.raises(BackendNotInstalled) as caught:
        registry.create("engine")
    assert str(caught.value) == (
        "engine 'threaded_per_device' (asked for by MXNET_ENGINE_TYPE) is not installed. Installed engines: naive. "
        "Install it with: pip install mxcore-engine-threaded"
    )


@pytest.mark.parametrize(
    ("kind", "name", "tail"),
    [
        ("engine", "naiv", "Installed engines: naive. Did you mean 'naive'?"),
        (
            "engine",
            "threadd",
            "Installed engines: naive. Did you mean 'threaded'? Install that with: pip install mxcore-engine-threaded",
        ),
        (
            "storage",
            "zzz",
            "Installed storage managers: direct. Install the distribution that provides it, "
            "or choose another with MXCORE_STORAGE=direct.",
        ),
        ("ops", "cupy", "Installed op libraries: numpy. Install it with: pip install mxcore-ops-cupy"),
    ],
)
def test_unknown_names(make, kind, name, tail):
    with pytest.raises(BackendNotInstalled) as caught:
        make().resolve(kind, name)
    assert str(caught.value).endswith(f" '{name}' is not installed. {tail}")


def test_ambiguous_name_and_its_ways_out(make):
    registry = make(faults.TWIN_A, faults.TWIN_B)
    with pytest.raises(BackendAmbiguous) as caught:
        registry.create("engine", "fast")
    assert str(caught.value) == (
        "two distributions provide engine 'fast': a-engine 1.0, b-engine 0.2. "
        "Say which: 'a-engine:fast' or 'b-engine:fast'."
    )
    assert registry.resolve("engine", "b-engine:fast").distribution == "b-engine"
    assert registry.names("engine") == ["naive", "a-engine:fast", "b-engine:fast"]
    registry._config.set({"plugins.block": ["a-engine"]})
    assert registry.resolve("engine", "fast").distribution == "b-engine"


def test_ambiguity_hurts_only_who_asks(make):
    assert make(faults.TWIN_A, faults.TWIN_B).create("engine", "naive").name == "naive"


def test_built_in_keeps_its_name(make):
    registry = make(engine("naive", "good-shadow"))
    assert registry.resolve("engine", "naive").distribution == "mxcore"
    assert registry.resolve("engine", "good-shadow:naive").distribution == "good-shadow"


def test_list_permits_fallback_and_warns_once(make):
    registry = make(faults.IMPORT)
    for round_ in range(2):
        if round_ == 0:
            with pytest.warns(PluginWarning) as warned:
                backend = registry.create("engine", ["bad_import", "naive"])
        else:
            backend = registry.create("engine", ["bad_import", "naive"])  # warnings are errors here
        assert backend.name == "naive"
    (warning,) = warned
    assert str(warning.message) == (
        "engine 'bad_import' (fault-import 1.0) failed at import: ImportError: libfault.so.1: cannot open shared "
        "object file. Run 'mxcore plugins doctor bad_import' for details, or choose another with MXCORE_ENGINE=naive. "
        "Using engine 'naive', the next in the list bad_import,naive."
    )


def test_list_whose_names_all_fail_raises_the_first(make):
    registry = make(faults.IMPORT)
    with pytest.raises(BackendFailed, match="bad_import"):
        registry.create("engine", "bad_import,threaded")


def test_creation_failure_steps_down_too(make):
    registry = make(faults.CREATE)
    with pytest.warns(PluginWarning, match="failed at create"):
        assert registry.create("engine", ("bad_create", "naive")).name == "naive"


def test_origin_is_kept(make):
    registry = make(faults.GOOD, MXCORE_ENGINE="good")
    assert registry.resolve("engine").origin == "environment MXCORE_ENGINE"
    with registry._config.context(engine="naive"):
        assert (registry.resolve("engine").name, registry.resolve("engine").origin) == ("naive", "context")
    assert registry.resolve("engine", "naive").origin == "argument"
    assert registry.resolve("engine", "naive", origin="context").origin == "context"
    registry._config.set(engine="naive")
    assert registry.resolve("engine").origin == "set"


def test_default_is_the_greatest_priority_that_is_usable(make):
    registry = make(faults.GOOD, faults.NO_DEVICE, engine("quick", "good-quick", record="priority=10"))
    resolved = registry.resolve("engine")
    assert (resolved.name, resolved.origin) == ("quick", "default")
    states = {one.name: one.state for one in registry.candidates("engine")}
    assert states["no_device"] is State.UNAVAILABLE
    assert states["quick"] is State.AVAILABLE
    registry.create("engine")
    assert {one.name for one in registry.candidates("engine") if one.state is State.ACTIVE} == {"quick"}


def test_options_reach_the_factory_and_its_config_errors_pass(make):
    registry = make(faults.GOOD)
    assert registry.create("engine", "good", workers=2).options == {"workers": 2}

    def picky(workers: int) -> None:
        raise ConfigError("engine.workers is -1. Give a positive number.")

    registry.register("engine", BackendRecord("picky", (1, 0), picky))
    with pytest.raises(ConfigError, match=r"^engine.workers is -1\."):
        registry.create("engine", "picky", workers=-1)


class TestDeviceTypes:
    def ops(self, registry, name, types, available=Availability):
        record = BackendRecord(name, (1, 0), object, available=available, device_types=frozenset(types), priority=1)
        registry.register("ops", record, distribution=f"mxcore-ops-{name}", version="0.3.1")

    def test_nothing_serves_it(self, make):
        with pytest.raises(BackendNotInstalled) as caught:
            make().resolve("ops", device_type="gpu")
        assert str(caught.value) == (
            "device type 'gpu' is not served by any installed op library. "
            "Installed op libraries: numpy (cpu, cpu_pinned, cpu_shared). "
            "Install one with: pip install mxcore-ops-cupy or pip install mxcore-ops-jax"
        )

    def test_served_but_unavailable(self, make):
        registry = make()
        reason = "no CUDA device visible (CUDA_VISIBLE_DEVICES is empty)"
        self.ops(registry, "cupy", {"gpu"}, lambda: Availability(False, reason))
        with pytest.raises(BackendUnavailable) as caught:
            registry.resolve("ops", device_type="gpu")
        assert str(caught.value) == f"device type 'gpu' is served by op library 'cupy', which reports: {reason}."

    def test_general_option_leaves_other_device_types_alone(self, make):
        registry = make(MXCORE_OPS="cupy")
        self.ops(registry, "cupy", {"gpu"})
        assert registry.resolve("ops", device_type="gpu").origin == "environment MXCORE_OPS"
        assert registry.resolve("ops", device_type="cpu").name == "numpy"

    def test_option_of_one_device_type_wins_and_must_serve_it(self, make):
        registry = make(MXCORE_OPS="numpy", MXCORE_OPS__CPU="jax")
        self.ops(registry, "jax", {"cpu", "tpu"})
        assert registry.resolve("ops", device_type="cpu").name == "jax"
        registry._config.set({"ops.gpu": "jax"})
        with pytest.raises(BackendUnavailable) as caught:
            registry.resolve("ops", device_type="gpu")
        assert str(caught.value) == (
            "op library 'jax' (mxcore-ops-jax 0.3.1, asked for by config.set) does not serve device type 'gpu'; "
            "it serves: cpu, tpu. Choose another with MXCORE_OPS__GPU."
        )

    def test_stronger_level_wins_over_the_more_special_name(self, make):
        registry = make(MXCORE_STORAGE__CPU="round")
        registry._config.set(storage="direct")
        assert registry.resolve("storage", device_type="cpu").origin == "set"


class TestRequired:
    def test_all_problems_in_one_message(self, make):
        registry = make(faults.GOOD, MXCORE_PLUGINS_REQUIRED="good-engine>=2 <3, mxcore-engine-threaded")
        with pytest.raises(PluginError) as caught:
            registry.create("engine", "naive")
        assert str(caught.value) == (
            "option plugins.required (MXCORE_PLUGINS_REQUIRED) is not met: "
            "'good-engine>=2,<3' is required, good-engine 1.0 is installed; 'mxcore-engine-threaded' is not installed. "
            "Install with: pip install 'good-engine>=2,<3' mxcore-engine-threaded"
        )

    @pytest.mark.parametrize("clause", ["", ">=1.0", "==1", "~=1.0", "!=2", ">0.9 <=1.0.0"])
    def test_met(self, make, clause):
        registry = make(faults.GOOD, MXCORE_PLUGINS_REQUIRED=f"Good_Engine{clause}")
        assert registry.create("engine", "naive").name == "naive"

    @pytest.mark.parametrize("clause", [">1.0", "==1.1", "~=1.1", "!=1.0", "<1"])
    def test_not_met(self, make, clause):
        with pytest.raises(PluginError, match=r"good-engine 1\.0 is installed"):
            make(faults.GOOD, MXCORE_PLUGINS_REQUIRED=f"good-engine{clause}").create("engine", "naive")

    def test_nonsense_is_a_config_error(self, make):
        with pytest.raises(ConfigError, match="which is not a distribution with versions"):
            make(MXCORE_PLUGINS_REQUIRED="good-engine=>1").create("engine", "naive")


class TestProgram:
    def test_register_without_packaging(self, make):
        registry = make()
        generation = registry.generation
        registry.register("engine", BackendRecord("mine", (1, 0), faults.Path, priority=3))
        assert registry.generation > generation
        assert registry.default_name("engine") == "mine"
        with pytest.raises(PluginError) as caught:
            registry.register("engine", BackendRecord("mine", (1, 0), faults.Path))
        assert str(caught.value) == ("engine 'mine' is registered already. Unregister it first, or use another name.")
        registry.unregister("engine", "mine")
        assert registry.default_name("engine") == "naive"

    def test_malformed_record(self, make):
        with pytest.raises(PluginError) as caught:
            make().register("engine", BackendRecord("a:b", (1, 0), object))
        assert str(caught.value) == (
            "engine 'a:b' cannot be registered: its name has to be a word without blanks, ':', ',' or '='."
        )

    def test_unknown_kind(self, make):
        with pytest.raises(ConfigError) as caught:
            make().create("engines", "naive")
        assert str(caught.value) == ("there is no kind of backend 'engines'. Kinds: engine, storage, ops, kvstore.")


class TestMetadata:
    def entry(self, value: str, distribution: str = "d") -> EntryPoint:
        return EntryPoint("mxcore.engines", "fast", value, distribution, "1.0")

    def test_identical_duplicates_are_dropped(self):
        assert len(tidy([self.entry("m"), self.entry("m"), self.entry("m", "D")])) == 1

    def test_contradiction_is_a_metadata_failure(self, make):
        registry = make()
        registry._entry_points = lambda: [self.entry("m"), self.entry("n")]
        with pytest.raises(BackendFailed) as caught:
            registry.resolve("engine", "fast")
        assert str(caught.value) == (
            "engine 'fast' (d 1.0) failed at metadata: PluginError: it declares 'fast' twice in group "
            "'mxcore.engines': m and n. Install it again with: pip install --force-reinstall d, "
            "or choose another with MXCORE_ENGINE=naive."
        )

    def test_broken_neighbours_do_not_hide_the_others(self, make, tmp_path):
        registry = make(faults.GOOD)
        (tmp_path / "empty-1.dist-info").mkdir()
        (tmp_path / "binary-1.dist-info").mkdir()
        (tmp_path / "binary-1.dist-info" / "entry_points.txt").write_bytes(b"[mxcore.engines]\n\xff\xfe = x\n")
        assert registry.resolve("engine", "good").distribution == "good-engine"

    def test_quick_reader_agrees_with_importlib(self, make, tmp_path, monkeypatch):
        make(*faults.EVERYTHING)
        extra = tmp_path / "later"
        extra.mkdir()
        engine("good", "good-engine", version="9.9").install(extra)  # hidden by the first copy
        egg = extra / "Good_Egg.egg-info"
        egg.mkdir()
        (egg / "PKG-INFO").write_text("Name: Good.Egg\nVersion: 3\n\nVersion: 4\n")
        (egg / "entry_points.txt").write_text(
            "[other]\na = b\n[mxcore.ops]\n# none\negg=m:f [cuda]\n\n[console]\nc=d\n"
        )
        (extra / "nameless-1.dist-info").mkdir()
        (extra / "nameless-1.dist-info" / "METADATA").write_text("Name: nameless\n")
        (extra / "nameless-1.dist-info" / "entry_points.txt").write_text("[mxcore.engines]\nn = m\n")
        monkeypatch.setattr(sys, "path", [str(tmp_path), str(extra), str(tmp_path / "gone"), *sys.path])
        quick_ones = tidy(quick.read())
        thorough = [replace(entry, load=None) for entry in discovery.thorough()]
        assert [replace(entry, value=entry.value.partition(" [")[0]) for entry in thorough] == quick_ones
        names = {(entry.distribution, entry.version, entry.name, entry.value) for entry in quick_ones}
        assert {("Good.Egg", "3", "egg", "m:f"), ("good-engine", "1.0", "good", "good_engine")} <= names
        assert next(entry for entry in quick_ones if entry.name == "n").problem == "its metadata has no version"

    def test_strange_installations_are_left_to_importlib(self, tmp_path, monkeypatch):
        archive = tmp_path / "lib.zip"
        archive.write_bytes(b"")
        monkeypatch.setattr(sys, "path", [*sys.path, str(archive)])
        assert quick.read() is None
        assert isinstance(discovery.scan(), list)

        class Finder:
            @staticmethod
            def find_spec(*arguments):
                return None

            @staticmethod
            def find_distributions(context):
                return []

        monkeypatch.setattr(sys, "path", sys.path[:-1])
        assert quick.read() is not None
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
        assert quick.read() is None

    def test_one_module_for_two_names_is_loaded_once(self, make):
        source = """
        loads = []
        @hookimpl
        def mxcore_register_engines(registrar):
            loads.append(1)
            for name in ("one", "two"):
                registrar.engine(BackendRecord(name, (1, 0), Fake))
        """
        pair = Distribution("good-pair", {"mxcore.engines": {"one": "good_pair", "two": "good_pair"}})
        pair.modules["good_pair"] = source
        registry = make(pair)
        registry.create("engine", "one")
        registry.create("engine", "two")
        import good_pair

        assert good_pair.loads == [1]
