"""The engine's modules made anew from changed source: with a bug planted, or with more places where threads may switch."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mxcore_engine_threaded import engine, lifecycle, plans, pools, scheduler, work

from mxcore.engine import dependency

ORDER = (dependency, plans, pools, work, scheduler, lifecycle, engine)  # as they import each other

#: Methods that look at shared state without the lock.
LOCK_FREE = {
    *("_run_alone", "_join", "_end_alone", "_claim_late", "_deleted_inside", "delete_variable", "_settle", "_leave"),
    *("wait_for_variable", "_sleep", "_run_async", "ended", "parallel_for", "_inline", "here", "stop"),
}


@contextlib.contextmanager
def rebuilt(edit: Callable[[types.ModuleType, str], Any]) -> Iterator[tuple[type, type]]:
    """Give both engines, made of modules whose source (or syntax tree) is what ``edit(module, source)`` returns."""
    with pytest.MonkeyPatch.context() as patch:
        for original in ORDER:
            source = inspect.getsource(original)
            if original is lifecycle:
                source = source.partition("\ndef _before_fork() -> None:")[0]  # forks are the real engine's
            module = types.ModuleType(original.__name__)
            module.__package__ = original.__package__
            patch.setitem(sys.modules, original.__name__, module)
            code = compile(edit(original, source), f"rebuilt {original.__name__}", "exec", dont_inherit=True)
            exec(code, module.__dict__)
        yield module.ThreadedEngine, module.ThreadedEnginePerDevice


class _Touching(ast.NodeTransformer):
    """Put a place where threads may switch before every statement of the methods that look at things without the lock."""

    def __init__(self) -> None:
        self.places = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        if node.name in LOCK_FREE and (
            (node.args.args[:1] and node.args.args[0].arg == "self") or node.name == "ended"
        ):
            for inner in ast.walk(node):
                for field in ("body", "orelse", "finalbody"):
                    lines = getattr(inner, field, None)
                    if isinstance(lines, list) and lines and isinstance(lines[0], ast.stmt):
                        setattr(inner, field, [line for pair in lines for line in (self._touch(), pair)])
        return node

    def _touch(self) -> ast.stmt:
        self.places += 1
        return ast.parse("self._machine.touched()").body[0]


def with_more_places(module: types.ModuleType, source: str) -> Any:
    """For :func:`rebuilt`: real threads switch anywhere; let simulated ones do so where it matters."""
    if module not in (engine, lifecycle, scheduler):
        return source
    tree = _Touching()
    changed = ast.fix_missing_locations(tree.visit(ast.parse(source)))
    assert tree.places > {engine: 90, lifecycle: 5, scheduler: 40}[module], tree.places
    return changed
