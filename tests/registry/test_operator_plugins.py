"""Operators from a plugin: ``mx.nd.<entry point>.<operator>``."""

from __future__ import annotations

import os
import subprocess
import sys

from fault_plugins import Distribution

SOURCE = """
@hookimpl
def mxcore_register_operators(registrar):
    from mxcore.oplib import kernel
    from mxcore.operators import operator

    @kernel("cubes_cube", numpy=True)
    def cube(x):
        return x * x * x

    registrar.operator(
        operator("cubes_cube", "data", infer=lambda a, x: x, gradient=(lambda F, g, y, x: g * x * x * 3.0,), doc="Cube.")
    )
"""
PROGRAM = """
import mxcore as mx
x = mx.nd.array([1.0, 2.0])
x.attach_grad()
assert not hasattr(mx.nd, "nosuch")
with mx.autograd.record():
    y = mx.nd.cubes.cube(x)
y.backward()
print(y.asnumpy().tolist(), x.grad.asnumpy().tolist(), mx.nd.cubes.cubes_cube is mx.nd.cubes.cube)
"""


def test_a_namespace_of_operators(tmp_path):
    Distribution("cube-operators", {"mxcore.operators": {"cubes": "cube_module"}}, {"cube_module": SOURCE}).install(
        tmp_path
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.stdout.strip() == "[1.0, 8.0] [3.0, 12.0] True", done.stderr
