"""``mxcore config``, ``mxcore env``, commands of plugins, exit codes."""

from __future__ import annotations

import json

import pytest

from mxcore._version import __version__
from mxcore.cli import main


def test_config_show_keeps_origins_and_what_lost(run, tmp_path):
    (tmp_path / ".mxnetrc").write_text("[default]\nengine = naive\n")
    done = run("config", "show", "engine", "--json", MXNET_ENGINE_TYPE="ThreadedEngine")
    assert done.returncode == 0
    (row,) = json.loads(done.stdout)
    assert row == {
        "option": "engine",
        "value": "threaded",
        "origin": "environment MXNET_ENGINE_TYPE",
        "overrides": [f"naive (file {tmp_path / '.mxnetrc'})"],
        "variable": "MXCORE_ENGINE",
        "error": "",
    }


def test_config_show_lists_all_and_reports_bad_values(run):
    done = run("config", "show", MXCORE_STORAGE__GPU="round", MXCORE_ENGINE__WORKERS="two")
    assert done.returncode == 1
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "environment MXCORE_STORAGE__GPU" in lines["storage.gpu"]
    assert "MXCORE_ENGINE__WORKERS is 'two'" in lines["engine.workers"]
    assert "plugins.strict" in lines


def test_unknown_variable_is_one_line_on_stderr(run):
    done = run("config", "show", "engine", MXCORE_ENGIN="x")
    assert (done.returncode, done.stderr) == (
        0,
        "warning: unknown environment variable MXCORE_ENGIN is ignored. Did you mean MXCORE_ENGINE?\n",
    )


def test_env(run):
    done = run("env", "--json", MXNET_ENGINE_TYPE="NaiveEngine", MXNET_NOTHING="1", OMP_NUM_THREADS="1")
    report = json.loads(done.stdout)
    assert report["versions"]["mxcore"] == __version__
    assert report["environment"] == {"MXNET_ENGINE_TYPE": "NaiveEngine", "MXNET_NOTHING": "1", "OMP_NUM_THREADS": "1"}
    assert report["hints"][-1] == "these MXNet variables mean nothing to mxcore: MXNET_NOTHING"
    assert run("env").stdout.startswith("versions:\n  mxcore:")


def test_command_of_a_plugin(run, tmp_path):
    from fault_plugins import Distribution

    source = """
    @hookimpl
    def mxcore_cli_commands(registrar):
        registrar.command("greet", lambda p: p.add_argument("who"), lambda a: print("hello", a.who) or 1, "be polite")
    """
    Distribution("good-greet", {"mxcore.plugins": {"greet": "good_greet"}}, {"good_greet": source}).install(tmp_path)
    done = run("greet", "world", plugins=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "hello world\n", "")
    done = run("gret", plugins=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith("there is no command 'gret'; did you mean 'greet'?\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 0),
        (["--help"], 0),
        ([], 2),
        (["plugins"], 2),
        (["plugins", "list", "--kind", "x"], 2),
        (["config", "show", "no.such"], 1),
    ],
)
def test_exit_codes(capsys, words, code):
    assert main(words) == code
    assert "".join(capsys.readouterr())
