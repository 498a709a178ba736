"""What the documents claim is run: the README's program, and the pages' coverage of hooks and rooms."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_program_of_the_readme_trains():
    text = (ROOT / "README.md").read_text()
    program = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert program
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program[1], "README.md", "exec"), {})
    word, accuracy = printed.getvalue().split()
    assert word == "accuracy" and float(accuracy) > 0.95
    assert len([line for line in program[1].splitlines() if line.strip()]) <= 12


def test_the_readme_names_the_two_commands():
    text = (ROOT / "README.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for command in ("demo", "test"):
        assert f"make {command}" in text and re.search(rf"^{command}:", makefile, re.MULTILINE)


def test_contributing_names_every_room():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for room in sorted(p.name for p in (ROOT / "mxcore").iterdir() if (p / "__init__.py").exists()):
        if room not in ("gluon", "cli", "numpy", "io", "test_utils"):
            assert f"`{room}`" in text or f"mxcore/{room}`" in text, f"CONTRIBUTING.md does not say what {room} is for"


def test_authors_page_names_every_hook_group():
    from mxcore.registry import KINDS

    text = (ROOT / "docs" / "authors" / "plugins.md").read_text()
    for kind in KINDS.values():
        assert kind.group in text, f"docs/authors/plugins.md does not name {kind.group}"


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name)
def test_links_lead_somewhere(path):
    if path.name == "operators.md" and path.parent.name == "reference":
        pytest.skip("generated")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"
