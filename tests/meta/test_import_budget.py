"""What ``import mxcore`` may and may not do."""

from __future__ import annotations

import subprocess
import sys


def loaded_after(program: str) -> set[str]:
    text = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return set(text.split())


def test_import_is_light():
    loaded = loaded_after("import mxcore")
    assert "pluggy" not in loaded and "importlib.metadata" not in loaded
    assert not {m for m in loaded if m.startswith(("mxcore.gluon", "mxcore.ndarray", "mxcore.operators"))}


def test_built_ins_need_no_metadata_and_no_pluggy():
    loaded = loaded_after(
        "import mxcore as mx; mx.use(engine='naive', ops='numpy', storage='direct'); mx.nd.ones(2) + 1"
    )
    assert "pluggy" not in loaded and "importlib.metadata" not in loaded
    assert "scipy" not in loaded and "matplotlib" not in loaded


def test_every_public_name_resolves():
    program = "import mxcore\nfor n in mxcore.__all__: getattr(mxcore, n)"
    loaded_after(program)
