"""What importing mxcore costs beyond NumPy; prints one JSON line (milliseconds, fresh interpreters, medians of 7)."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

PROGRAM = """
import time, sys
import numpy
start = time.perf_counter()
{body}
print((time.perf_counter() - start) * 1e3, int("importlib.metadata" in sys.modules))
"""
BODIES = {
    "bare": "import mxcore",
    "used": "import mxcore as mx; mx.gluon.nn.Dense; mx.nd.ones((2, 2)) + 1",
}


def main() -> None:
    """Measure each body and print."""
    out: dict[str, object] = {}
    scanned = False
    # An installed package has its bytecode; a setting against writing it would measure the compiler.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for name, body in BODIES.items():
        times = []
        for _ in range(7):
            text = subprocess.run(
                [sys.executable, "-c", PROGRAM.format(body=body)], capture_output=True, text=True, check=True, env=env
            ).stdout.split()
            times.append(float(text[0]))
            scanned = scanned or (name == "bare" and text[1] == "1")
        out[name] = statistics.median(times)
    out["scanned"] = scanned
    print(json.dumps(out))


if __name__ == "__main__":
    main()
