"""The pools by name, through the host, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from mxcore_storage_pooled.pool import PooledStorage

SHOW = """
import mxcore as mx
from mxcore.dispatch import runtime
from mxcore.registry import process_registry
{use}
pool = runtime.current().storage(mx.cpu()) if {use!r} else process_registry().create("storage", device_type="cpu")
if pool.name == "direct":
    print("direct")
else:
    from mxcore.testing.fake_device import FakeDevice
    pool.serve("gpu", lambda device: FakeDevice(1 << 40))
    print(pool.name, *(pool.alloc({nbytes}, d).capacity for d in (mx.cpu(), mx.gpu())), pool._arena(mx.cpu()).settings.reserve)
"""


def show(use: str = "", nbytes: int = 5000, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SHOW.format(use=use, nbytes=nbytes)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def test_direct_stays_the_default() -> None:
    assert show() == "direct"
    assert show("mx.nd.ones(2)") == "direct"


@pytest.mark.parametrize("name", ["naive", "round", "unpooled", "best_fit"])
def test_pools_by_name(name: str) -> None:
    expected = PooledStorage(name).alloc(5000, "cpu").capacity
    assert show(f"mx.use(storage={{'cpu': '{name}'}})") == f"{name} {expected} {expected} 5"


@pytest.mark.parametrize(
    ("environment", "nbytes", "shown"),
    [
        ({"MXNET_CPU_MEM_POOL_TYPE": "Round"}, 5000, "round 8192 8192 5"),
        ({"MXNET_CPU_MEM_POOL_TYPE": "Unpooled"}, 5000, "unpooled 5000 5000 5"),
        # A GPU's variables concern GPUs, a CPU's the CPU, and ours both.
        ({"MXCORE_STORAGE": "naive", "MXNET_GPU_MEM_POOL_PAGE_SIZE": "8192"}, 5, "naive 4096 8192 5"),
        ({"MXCORE_STORAGE": "naive", "MXNET_CPU_MEM_POOL_PAGE_SIZE": "8192"}, 5, "naive 8192 4096 5"),
        ({"MXCORE_STORAGE": "naive", "MXNET_CPU_POOL_PAGE_SIZE": "8192"}, 5, "naive 8192 4096 5"),
        ({"MXCORE_STORAGE": "naive", "MXCORE_POOL__PAGE_SIZE": "8192"}, 5, "naive 8192 8192 5"),
        ({"MXCORE_STORAGE": "naive", "MXCORE_POOL__GPU__PAGE_SIZE": "64"}, 5, "naive 4096 64 5"),
        ({"MXCORE_STORAGE": "naive", "MXNET_CPU_MEM_POOL_RESERVE": "30"}, 5, "naive 4096 4096 30"),
        ({"MXCORE_STORAGE": "naive", "MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE": "10000"}, 10001, "naive 12288 20000 5"),
        (
            {"MXCORE_STORAGE": "round", "MXNET_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF": "20"},
            3 << 20,
            "round 4194304 3145728 5",
        ),
        (
            {"MXCORE_STORAGE": "round", "MXNET_CPU_MEM_POOL_ROUND_LINEAR_CUTOFF": "20"},
            3 << 20,
            "round 3145728 4194304 5",
        ),
    ],
)
def test_options_of_the_environment(environment: dict[str, str], nbytes: int, shown: str) -> None:
    assert show("", nbytes, **environment) == shown


def test_values_that_cannot_be_are_errors_at_the_first_request() -> None:
    assert "option 'pool.reserve' is 200" in show(MXCORE_STORAGE="naive", MXCORE_POOL__RESERVE="200")
    assert "needs a power of two" in show(MXCORE_STORAGE="round", MXNET_CPU_MEM_POOL_PAGE_SIZE="5000")


def test_the_light_module_is_light() -> None:
    code = "import sys, mxcore_storage_pooled.plugin; print({'numpy', 'mxcore_storage_pooled.pool'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
