"""Bytes that ``pip install mxcore`` puts on disk besides NumPy: a wheel in a fresh environment. Prints one JSON line."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: What a fresh environment and NumPy bring themselves.
APART = ("numpy", "pip", "setuptools", "_distutils_hack", "distutils-precedence", "_virtualenv", "__pycache__")


def main() -> None:
    """Install into a temporary folder and add up file sizes."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "site"
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), str(ROOT)],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        parts: dict[str, int] = {}
        for entry in target.iterdir():
            if entry.name.startswith(APART) or entry.name == "bin":
                continue
            files = [entry] if entry.is_file() else [f for f in entry.rglob("*") if f.is_file()]
            parts[entry.name] = sum(f.stat().st_size for f in files)
    print(
        json.dumps(
            {
                "bytes": sum(parts.values()),
                "parts": ", ".join(f"{k} {v / 1e6:.2f}" for k, v in sorted(parts.items()) if v > 10000),
            }
        )
    )


if __name__ == "__main__":
    main()
