"""Random programs for engines: the same program serially and on an engine must end bit-equal.

A program is a list of actions on variables with an integer and a float state: functions with 0 to 19 reads and 1 to 3
writes (duplicates and overlaps included), failures, overwrites, deletions, reusable operations, asynchronous and
nested functions, waits, priorities, bulks, restarts, on request parallel loops. Whatever order an engine chooses, the
contract fixes every value, every version, every error and which functions ran. `Program` works these out serially while
it draws the actions; :func:`run_program` executes them on an engine, pushed by one thread or by several, and compares.

A failure names its seed and prints the command that repeats it::

    python -m mxcore.testing.engine_programs --engine seeded --programs 2000 --ops 50-200
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import queue
import random
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..registry import process_registry
from ..spec.engine import EngineCapability, FnProperty
from ..spec.errors import BackendError, EngineError

__all__ = ["Difference", "Program", "ProgramError", "find_engine", "main", "run_program"]

_MASK = (1 << 61) - 1
_LANES = 2  # nested functions have variables of their own, in lanes: see Program._draw_nest
_PRIVATE = 3

Cell = tuple[int, float]


class ProgramError(Exception):
    """Raised by a function of a program that is meant to fail; ``ident`` is the function's number."""

    def __init__(self, ident: int) -> None:
        super().__init__(f"function {ident} of the program fails")
        self.ident = ident


class Difference(AssertionError):
    """The engine did something else than the contract says."""


def compute(ident: int, values: Sequence[Cell], count: int) -> list[Cell]:
    """Return ``count`` states from the states read: any change of a value or of an order shows, to the last bit."""
    number, real = ident, 0.25
    for whole, part in values:
        number = (number * 1000003 ^ whole) & _MASK
        real = real * 0.625 + part
    return [
        ((number + j) * 0x9E3779B97F4A7C15 & _MASK, real * 0.75 + (number & 0xFFFF) / (7 + j)) for j in range(count)
    ]


class Action:
    """One action, with what the contract says will come of it.

    Attributes
    ----------
    kind : str
        ``push``, ``async``, ``operation``, ``nest``, ``delete``, ``stale`` (a push on a deleted variable), ``wait``,
        ``wait_all``, ``restart``, ``bulk``, ``parallel``.
    inputs, outputs : tuples of int
        Variables read and written, without duplicates; ``reads`` and ``writes`` are what is handed to the engine.
    error : int or None
        The function (by number) whose error the action ends with.
    raised : tuple of int
        Functions that fail on their own in this action.
    pieces : int
        Items of the parallel loop that the function, or the action itself, runs; 0: none.
    """

    __slots__ = (
        "child",
        "device",
        "error",
        "expected",
        "fails",
        "ident",
        "inputs",
        "kind",
        "lane",
        "mode",
        "outputs",
        "pieces",
        "priority",
        "prop",
        "raised",
        "reads",
        "value",
        "writes",
    )

    def __init__(self, kind: str, ident: int) -> None:
        self.kind = kind
        self.ident = ident
        self.inputs: tuple[int, ...] = ()
        self.outputs: tuple[int, ...] = ()
        self.reads: tuple[int, ...] = ()
        self.writes: tuple[int, ...] = ()
        self.prop = FnProperty.NORMAL
        self.priority = 0
        self.device: str | None = None
        self.fails = False
        self.mode = 0
        self.error: int | None = None
        self.raised: tuple[int, ...] = ()
        self.expected: tuple[Cell, int] | None = None
        self.child: Action | None = None
        self.lane = 0
        self.value = 0
        self.pieces = 0

    def __repr__(self) -> str:
        return f"{self.ident}: {self.kind} {list(self.reads)} -> {list(self.writes)}"


class _Serial:
    """The contract, executed serially: the oracle."""

    def __init__(self) -> None:
        self.cells: dict[int, Cell] = {}
        self.versions: dict[int, int] = {}
        self.errors: dict[int, int | None] = {}
        self.ran: list[int] = []
        self.released: dict[int, Cell] = {}

    def add(self, variable: int) -> None:
        self.cells[variable] = (variable, variable / 3)
        self.versions[variable] = 0
        self.errors[variable] = None

    def inherited(self, action: Action) -> int | None:
        return next((e for v in action.inputs if (e := self.errors[v]) is not None), None)

    def run(self, action: Action, extra: Sequence[Cell] = ()) -> bool:
        """Execute one function; return whether it was called."""
        inherited = self.inherited(action)
        called = inherited is None or action.prop in (FnProperty.NO_SKIP, FnProperty.DELETE_VARIABLE)
        error = inherited
        action.raised = ()
        if called:
            self.ran.append(action.ident)
            if action.fails:
                error = action.ident
                action.raised = (action.ident,)
            else:
                values = [self.cells[v] for v in action.inputs]
                values += extra
                for variable, cell in zip(action.outputs, compute(action.ident, values, len(action.outputs))):
                    self.cells[variable] = cell
        for variable in action.outputs:
            self.versions[variable] += 1
            self.errors[variable] = error
        action.error = error
        return called


class Program:
    """A random program and everything that the contract says about it.

    Parameters
    ----------
    seed : int
        Draws all of it.
    ops : int
        How many actions.
    variables : int or None
        How many variables (None: drawn, 5 to 40).
    failures : float
        Chance that a function fails.
    reads : tuple of int or None
        Least and largest number of variables that a function reads (None: mostly few, at most 19).
    parallel : float
        Chance that a function runs a parallel loop.
    """

    def __init__(
        self,
        seed: int,
        ops: int,
        variables: int | None = None,
        failures: float = 0.04,
        reads: tuple[int, int] | None = None,
        parallel: float = 0.0,
    ) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.failures = failures
        self.reads = reads
        self.parallel = parallel
        self.serial = _Serial()
        self.idents = 0
        count = variables or self.random.randint(5, 40)
        self.names = count  # number of the next variable
        self.live = list(range(count))
        self.initial = list(self.live)
        self.tokens = [-1 - lane for lane in range(_LANES)]
        self.private = [[-100 - lane * 10 - i for i in range(_PRIVATE)] for lane in range(_LANES)]
        self.hidden = [*self.tokens, *(variable for lane in self.private for variable in lane)]
        for variable in [*self.live, *self.hidden]:
            self.serial.add(variable)
        self.operations = [self._draw_function("operation", plain=True) for _ in range(3)]
        self.actions: list[Action] = []
        self.bulk = False
        while len(self.actions) < ops:
            self._draw()
        if self.bulk:
            self._add("bulk")

    # -- drawing -------------------------------------------------------------------------------------------------

    def _ident(self) -> int:
        self.idents += 1
        return self.idents

    def _add(self, kind: str) -> Action:
        action = Action(kind, self._ident())
        self.actions.append(action)
        return action

    def _draw_function(self, kind: str, plain: bool = False) -> Action:
        draw = self.random
        action = Action(kind, self._ident())
        live = self.live
        chance = draw.random()
        if self.reads is not None:
            count = draw.randint(*self.reads)
        elif chance < 0.25:
            count = 0
        elif chance < 0.85:
            count = draw.randint(1, 4)
        else:
            count = draw.randint(2, 19)
        reads = draw.sample(live, min(count, len(live)))
        writes = draw.sample(live, min(draw.choice((1, 1, 1, 2, 3)), len(live)))
        if not plain and draw.random() < 0.5:  # heal something, or hardly anything would run after a while
            failed = [v for v in live if self.serial.errors[v] is not None]
            if failed:
                writes = list(dict.fromkeys([draw.choice(failed), *writes]))[:3]
                reads = [] if draw.random() < 0.7 else reads
        if draw.random() < 0.25 and reads:
            reads.append(draw.choice(writes))
        if draw.random() < 0.1:
            reads += draw.choices(reads, k=2) if reads else []
            writes += draw.choices(writes, k=1)
        action.reads, action.writes = tuple(reads), tuple(writes)
        action.inputs, action.outputs = tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))
        action.priority = draw.choice((0, 0, 0, -3, 5, 100))
        action.device = draw.choice((None, None, "first", "second"))
        chance = draw.random()
        if chance < 0.08:
            action.prop = FnProperty.NO_SKIP
        elif chance < 0.3:
            action.prop = draw.choice((FnProperty.CPU_PRIORITIZED, FnProperty.COPY_TO_GPU, FnProperty.ASYNC))
        action.fails = not plain and draw.random() < self.failures
        if self.parallel and draw.random() < self.parallel:
            action.pieces = draw.randint(2, 9)
        return action

    def _draw(self) -> None:
        draw, chance = self.random, self.random.random()
        if chance < 0.50:
            action = self._draw_function("push")
            self.actions.append(action)
            self.serial.run(action)
        elif chance < 0.68:
            action = self._draw_function("async")
            action.mode = draw.randrange(4)  # see _Run._async
            self.actions.append(action)
            self.serial.run(action)
        elif chance < 0.74:
            model = draw.choice(self.operations)
            if all(v in self.serial.cells for v in (*model.inputs, *model.outputs)):
                action = self._copy(model)
                self.actions.append(action)
                self.serial.run(action)
        elif chance < 0.80:
            self._draw_nest()
        elif chance < 0.85:
            self._draw_delete()
        elif chance < 0.93:
            action = self._add("wait")
            action.value = draw.choice(self.live)
            action.error = self.serial.errors[action.value]
            action.expected = (self.serial.cells[action.value], self.serial.versions[action.value])
        elif chance < 0.95:
            self._add("wait_all")
        elif chance < 0.97:
            action = self._add("bulk")
            self.bulk = not self.bulk
            action.value = draw.choice((2, 15)) if self.bulk else 0
        elif chance < 0.98:
            self._add("restart")
        elif self.parallel:
            self._add("parallel").pieces = draw.randint(0, 9)

    def _copy(self, model: Action) -> Action:
        """A run of an operation: its function is the same each time, so it has the same number."""
        action = Action("operation", model.ident)
        action.inputs, action.outputs, action.reads, action.writes = (
            model.inputs,
            model.outputs,
            model.reads,
            model.writes,
        )
        action.prop, action.priority, action.device = model.prop, self.random.randint(-5, 5), model.device
        action.pieces = model.pieces
        return action

    def _draw_delete(self) -> None:
        draw = self.random
        action = self._add("delete")
        action.value = victim = draw.choice(self.live)
        action.fails = draw.random() < self.failures
        action.raised = (action.ident,) if action.fails else ()
        action.error = action.ident if action.fails else None
        self.live.remove(victim)
        self.serial.ran.append(action.ident)
        self.serial.released[victim] = self.serial.cells.pop(victim)
        del self.serial.versions[victim], self.serial.errors[victim]
        fresh = self.names
        self.names += 1
        self.live.append(fresh)
        self.serial.add(fresh)
        action.lane = fresh
        if draw.random() < 0.3:
            self._add("stale").value = victim

    def _draw_nest(self) -> None:
        """A function that pushes another one, on variables that only its lane uses.

        Where a nested push falls among the pushes of the main program depends on the engine, so it may touch no
        variable of theirs. All outer functions of a lane write the lane's token, so the inner ones are ordered.
        """
        draw = self.random
        lane = draw.randrange(_LANES)
        outer = self._draw_function("nest")
        outer.lane = lane
        outer.prop = FnProperty.NORMAL
        outer.mode = draw.randrange(3)  # 0: only push; 1: wait for one that it wrote; 2: wait for all
        outer.reads = tuple(v for v in outer.reads if v not in outer.writes)
        outer.inputs = tuple(dict.fromkeys(outer.reads))
        outer.outputs = (*dict.fromkeys(outer.writes), self.tokens[lane])
        outer.writes = outer.outputs
        outer.fails = False
        child = Action("push", self._ident())
        private = self.private[lane]
        child.reads = child.inputs = tuple(draw.sample(private, draw.randint(0, 2)))
        child.writes = child.outputs = (draw.choice(private),)
        child.fails = draw.random() < self.failures * 2
        outer.child = child
        outer.value = child.outputs[0]
        self.actions.append(outer)
        if self.serial.inherited(outer) is None:
            self.serial.run(child)
            seen: list[Cell] = []
            if outer.mode == 1:
                error = self.serial.errors[outer.value]
                seen = [self.serial.cells[outer.value] if error is None else (error, 0.5)]
            self.serial.run(outer, seen)
            outer.raised = child.raised
        else:
            self.serial.run(outer)


class _Completer(threading.Thread):
    """Runs what it is given in a thread of its own: the ``later`` of engines that have none."""

    def __init__(self) -> None:
        super().__init__(name="engine-programs-completer", daemon=True)
        self._calls: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self.start()

    def __call__(self, call: Callable[[], Any]) -> None:
        self._calls.put(call)

    def run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def close(self) -> None:
        self._calls.put(None)
        self.join()


class _Threads:
    """Real threads, for engines that bring no ``machine`` of their own."""

    lock = staticmethod(threading.Lock)

    @staticmethod
    def spawn(body: Callable[[], Any], name: str) -> threading.Thread:
        thread = threading.Thread(target=body, name=name, daemon=True)
        thread.start()
        return thread

    @staticmethod
    def join(thread: threading.Thread) -> None:
        thread.join()

    @staticmethod
    def touched() -> None:
        """A place where another thread may go on: real ones need no such place."""


class _Run:
    """One execution of a program on an engine."""

    def __init__(self, program: Program, engine: Any, later: Callable[[Callable[[], Any]], Any]) -> None:
        self.program = program
        self.engine = engine
        self.later = later
        self.machine = getattr(engine, "machine", None) or _Threads
        self.inline = EngineCapability.INLINE in engine.capabilities
        serial = program.serial
        self.cells: dict[int, Any] = {}
        self.variables: dict[int, Any] = {}
        for variable in [*program.initial, *program.hidden]:
            self._new(variable)
        self.operations = {
            model.ident: engine.new_operation(
                self._function(model),
                self._of(model.reads),
                self._of(model.writes),
                prop=model.prop,
                name=f"operation{model.ident}",
                device=model.device,
            )
            for model in program.operations
        }
        self.ran: list[int] = []
        self.released: dict[int, Any] = {}
        self.troubles: list[str] = []
        self.unreported: set[int] = set()
        self.crowd = False  # several threads push, and wait outside of their lock
        self.serial = serial

    def _new(self, variable: int) -> None:
        self.variables[variable] = self.engine.new_variable(f"v{variable}")
        self.cells[variable] = (variable, variable / 3)

    def _of(self, numbers: Sequence[int]) -> list[Any]:
        return [self.variables[number] for number in numbers]

    # -- the functions -------------------------------------------------------------------------------------------

    def _values(self, action: Action) -> list[Cell]:
        cells = self.cells
        return [cells[v] for v in action.inputs]

    def _write(self, action: Action, values: Sequence[Cell]) -> None:
        for variable, cell in zip(action.outputs, compute(action.ident, values, len(action.outputs))):
            self.cells[variable] = cell

    def _function(self, action: Action) -> Callable[[], None]:
        def function() -> None:
            self.ran.append(action.ident)
            if action.fails:
                raise ProgramError(action.ident)
            values = self._values(action)
            if action.pieces:
                self._loop(action)
            self.machine.touched()
            self._write(action, values)

        return function

    def _loop(self, action: Action) -> None:
        """A parallel loop: every item once, and back when all are done."""
        counts = [0] * action.pieces

        def body(start: int, stop: int) -> None:
            for item in range(start, stop):
                self.machine.touched()
                counts[item] += 1

        self.engine.parallel_for(action.pieces, 1 + action.ident % 3, body)
        if counts != [1] * action.pieces:
            self.troubles.append(f"{action!r}: items of a parallel loop were done {counts} times")

    def _async(self, action: Action) -> Callable[[Callable[..., None]], None]:
        """Modes: 0 ends inside the call, 1 to 3 in a later step; a failure escapes (0, 1) or is handed over."""

        def function(on_complete: Callable[..., None]) -> None:
            self.ran.append(action.ident)
            if action.fails and action.mode < 2:
                raise ProgramError(action.ident)
            values = self._values(action)
            olds = [self.cells[v] for v in action.outputs]

            def finish() -> None:
                try:
                    # Between the two, nobody may write what we read or touch what we write.
                    if values != self._values(action):
                        self.troubles.append(f"{action!r}: a variable changed while it was being read")
                    if olds != [self.cells[v] for v in action.outputs]:
                        self.troubles.append(f"{action!r}: a variable changed while it was being written")
                    if not action.fails:
                        self._write(action, values)
                except Exception as error:
                    self.troubles.append(f"{action!r}: {error!r}")
                on_complete(ProgramError(action.ident) if action.fails else None)

            if action.mode:
                self.later(finish)
            else:
                finish()

        return function

    def _nest(self, outer: Action) -> Callable[[], None]:
        child = outer.child
        assert child is not None

        def function() -> None:
            self.ran.append(outer.ident)
            engine = self.engine
            try:
                engine.push(self._function(child), self._of(child.reads), self._of(child.writes), name="nested")
            except ProgramError as error:
                self._reported(error.ident)
            seen: list[Cell] = []
            if outer.mode == 1:
                try:
                    engine.wait_for_variable(self.variables[outer.value])
                    seen.append(self.cells[outer.value])
                except ProgramError as error:
                    self._reported(error.ident)
                    seen.append((error.ident, 0.5))
            elif outer.mode == 2:
                try:
                    engine.wait_for_all()
                except ProgramError as error:
                    self._reported(error.ident)
            self._write(outer, [*self._values(outer), *seen])

        return function

    def _release(self, action: Action) -> Callable[[], None]:
        def release() -> None:
            self.ran.append(action.ident)
            # What reads or writes it from now on finds no state there.
            self.released[action.value] = self.cells.pop(action.value)
            if action.fails:
                raise ProgramError(action.ident)

        return release

    # -- the actions ---------------------------------------------------------------------------------------------

    def _reported(self, ident: int) -> None:
        self.unreported.discard(ident)

    def _check(self, condition: bool, text: str) -> None:
        if not condition:
            raise Difference(text)

    def _pushed(self, action: Action, push: Callable[[], Any]) -> None:
        """Push; an INLINE engine may raise the error that the action ends with."""
        self.unreported.update(action.raised)
        try:
            push()
        except ProgramError as error:
            self._check(self.inline, f"{action!r}: raised at the push, but the engine does not claim INLINE")
            self._check(error.ident == action.error, f"{action!r}: raised {error.ident}, not {action.error}")
            self._reported(error.ident)

    def execute(self, action: Action) -> None:
        engine, kind = self.engine, action.kind
        if kind in ("push", "async", "nest"):
            push = engine.push_async if kind == "async" else engine.push
            make = {"push": self._function, "async": self._async, "nest": self._nest}[kind]
            reads, writes = self._of(action.reads), self._of(action.writes)
            self._pushed(
                action,
                lambda: push(
                    make(action),
                    reads,
                    writes,
                    prop=action.prop,
                    priority=action.priority,
                    name=f"{kind}{action.ident}",
                    device=action.device,
                ),
            )
        elif kind == "operation":
            operation = self.operations[action.ident]
            self._pushed(action, lambda: engine.push_operation(operation, priority=action.priority))
        elif kind == "delete":
            variable = self.variables[action.value]
            self._pushed(action, lambda: engine.delete_variable(variable, self._release(action)))
            self._new(action.lane)
        elif kind == "stale":
            try:
                engine.push(lambda: None, [self.variables[action.value]], [self.variables[self.program.tokens[0]]])
            except EngineError as error:
                self._check("was deleted" in str(error), f"{action!r}: {error}")
            else:
                raise Difference(f"{action!r}: a push on a deleted variable did not raise EngineError")
        elif kind == "wait":
            self._wait(action)
        elif kind == "wait_all":
            self._wait_all()
        elif kind == "parallel":
            self._loop(action)
        elif kind == "restart":
            engine.stop()
            try:
                engine.push(lambda: None)
            except EngineError:
                pass
            else:
                raise Difference(f"{action!r}: a push on a stopped engine did not raise EngineError")
            engine.start()

    def _wait(self, action: Action) -> None:
        variable = self.variables[action.value]
        found = None
        try:
            self.engine.wait_for_variable(variable)
        except ProgramError as error:
            found = error.ident
            self._reported(found)
        assert action.expected is not None
        cell, version = action.expected
        self._check(found == action.error, f"{action!r}: wait raised {found}, not {action.error}")
        self._check(self.cells[action.value] == cell, f"{action!r}: {self.cells[action.value]}, not {cell}")
        self._check(variable.version == version, f"{action!r}: version {variable.version}, not {version}")

    def _wait_all(self) -> bool:
        try:
            self.engine.wait_for_all()
        except ProgramError as error:
            # While other threads wait, they may be told just now.
            expected = self.crowd or error.ident in self.unreported
            self._check(expected, f"wait_for_all raised {error.ident}, which was reported before")
            self._reported(error.ident)
            return True
        expected = self.crowd or not self.unreported
        self._check(expected, f"wait_for_all raised nothing; unreported: {sorted(self.unreported)}")
        return False

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            for action in self.program.actions:
                self._next(action, stack)
        self._finish()

    def _next(self, action: Action, stack: contextlib.ExitStack) -> None:
        if action.kind == "bulk":
            stack.close()
            if action.value:
                stack.enter_context(self.engine.bulk(action.value))
        else:
            self.execute(action)

    def _finish(self) -> None:
        while self._wait_all():
            pass
        self.compare()

    def run_crowded(self, pushers: int) -> None:
        """Push from several threads: each takes the next action in a lock, so that the order is the program's.

        Between its actions a thread waits now and then outside of the lock, while others push.
        """
        self.crowd = True
        machine = self.machine
        actions = iter(self.program.actions)
        lock = machine.lock()
        errors: list[BaseException] = []

        def locked(draw: random.Random, stack: contextlib.ExitStack) -> Any:
            """Execute one action; return what to wait for outside of the lock, None at the end."""
            lock.acquire()
            try:
                action = next(actions, None)
                if action is None or errors:
                    return None
                self._next(action, stack)
                chance = draw.random()
                if chance < 0.9:
                    return ()
                return self.engine if chance < 0.91 else self.variables[draw.choice(self.program.initial)]
            except BaseException as error:
                errors.append(error)
                return None
            finally:
                lock.release()

        def body(number: int) -> None:
            draw = random.Random(self.program.seed * 31 + number)
            try:
                with contextlib.ExitStack() as stack:
                    while (target := locked(draw, stack)) is not None:
                        if target == ():
                            continue
                        try:
                            if target is self.engine:
                                self.engine.wait_for_all()
                            else:
                                self.engine.wait_for_variable(target)
                        except ProgramError as error:
                            self._reported(error.ident)
            except BaseException as error:
                errors.append(error)

        threads = [machine.spawn(functools.partial(body, number), f"pusher-{number}") for number in range(pushers)]
        for thread in threads:
            machine.join(thread)
        if errors:
            raise errors[0]
        self.crowd = False
        self._finish()

    def compare(self) -> None:
        """Compare everything with the serial execution."""
        serial = self.serial
        self._check(not self.troubles, "; ".join(self.troubles[:3]))
        for name, found, expected in (
            ("released states", self.released, serial.released),
            ("final states", self.cells, serial.cells),
        ):
            for variable, cell in expected.items():
                other = found.get(variable)
                same = other is not None and other[0] == cell[0] and _bits(other[1]) == _bits(cell[1])
                self._check(same, f"{name}: v{variable} is {other}, serially {cell}")
            self._check(len(found) == len(expected), f"{name}: {len(found)} instead of {len(expected)}")
        for variable, version in serial.versions.items():
            it = self.variables[variable]
            self._check(it.version == version, f"v{variable} has version {it.version}, serially {version}")
            error = it.error
            ident = error.ident if isinstance(error, ProgramError) else error
            self._check(ident == serial.errors[variable], f"v{variable}: {ident!r}, serially {serial.errors[variable]}")
        ran, expected_ran = sorted(self.ran), sorted(serial.ran)
        self._check(ran == expected_ran, f"functions that ran: {len(ran)}, serially {len(expected_ran)}")


def _bits(number: float) -> bytes:
    return struct.pack("<d", number)


def run_program(program: Program, engine: Any, pushers: int = 1) -> None:
    """Execute ``program`` on ``engine`` and compare with the serial execution.

    Parameters
    ----------
    program : Program
        Not changed; may be run any number of times.
    engine : Engine
        Started, idle. It is left idle, and not shut down. If it has ``later(call)``, asynchronous functions end
        there; otherwise in a thread of their own. If it has a ``machine``, that brings locks and threads for
        ``pushers``: ``lock()``, ``spawn(body, name)``, ``join(thread)``, and ``touched()`` is called where others may go on.
    pushers : int
        How many threads push. With more than one, each takes the next action in a lock, so that the order in which
        things are pushed is the program's, whoever pushes them.

    Raises
    ------
    Difference
        What differs.
    """
    later = getattr(engine, "later", None)
    completer = None if later is not None else _Completer()
    try:
        run = _Run(program, engine, later or completer)  # type: ignore[arg-type]
        if pushers == 1:
            run.run()
        else:
            run.run_crowded(pushers)
    finally:
        if completer is not None:
            completer.close()


# -- command line ------------------------------------------------------------------------------------------------


def _naive(seed: int) -> Any:
    from ..engine import NaiveEngine

    return NaiveEngine()


def _seeded(seed: int) -> Any:
    from .engine_seeded import SeededEngine

    return SeededEngine(seed, **seeded_options(seed))


def seeded_options(seed: int) -> dict[str, Any]:
    """Return options of the seeded engine that go with ``seed``; every combination comes up."""
    draw = random.Random(seed)
    return {
        "policy": draw.choice(("random", "random", "random", "pct", "pct", "lifo", "fifo")),
        "depth": draw.randint(1, 4),
        "eagerness": draw.choice((0.0, 0.3, 0.8)),
        "inline": draw.choice((0.0, 0.0, 0.3)),
        "patience_s": 5.0,
    }


_ENGINES: dict[str, Callable[[int], Any]] = {"naive": _naive, "seeded": _seeded}


def find_engine(name: str) -> Callable[[int], Any]:
    """Return ``make(seed) -> engine`` for ``naive``, ``seeded``, ``package.module:maker`` or the name of a plugin.

    All but ``seeded`` are made without the seed.
    """
    if name in _ENGINES:
        return _ENGINES[name]
    module, _, attribute = name.partition(":")
    if not attribute:
        registry = process_registry()
        try:
            registry.resolve("engine", name)
        except BackendError as e:
            raise SystemExit(str(e)) from None
        return lambda seed: registry.create("engine", name)
    maker = getattr(importlib.import_module(module), attribute)
    return lambda seed: maker()


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 if nothing differs."""
    parser = argparse.ArgumentParser(
        prog="python -m mxcore.testing.engine_programs", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--engine", action="append", help="naive, seeded, a plugin's name, package.module:maker; may be repeated"
    )
    parser.add_argument("--programs", type=int, default=200, help="how many programs (default 200)")
    parser.add_argument("--ops", type=_range, default=(50, 200), metavar="LOW-HIGH", help="actions per program")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first program; the next has the next")
    parser.add_argument("--variables", type=int, default=None, help="variables per program (default: drawn, 5 to 40)")
    parser.add_argument("--failures", type=float, default=0.04, help="chance that a function fails (default 0.04)")
    parser.add_argument(
        "--reads", type=_range, default=None, metavar="LOW-HIGH", help="variables that a function reads"
    )
    parser.add_argument("--parallel", type=float, default=0.0, help="chance that a function runs a parallel loop")
    parser.add_argument("--pushers", type=int, default=1, help="threads that push (default 1)")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first difference")
    options = parser.parse_args(arguments)
    status = 0
    for name in options.engine or ["seeded"]:
        status |= _run_engine(name, find_engine(name), options)
    return status


def _run_engine(name: str, make: Callable[[int], Any], options: Any) -> int:
    began = time.perf_counter()
    programs = actions = functions = differences = 0
    low, high = options.ops
    for seed in range(options.seed, options.seed + options.programs):
        ops = low + random.Random(seed).randrange(high - low + 1)
        program = Program(seed, ops, options.variables, options.failures, options.reads, options.parallel)
        engine = make(seed)
        programs += 1
        actions += len(program.actions)
        functions += len(program.serial.ran)
        try:
            run_program(program, engine, options.pushers)
        except Exception as error:
            differences += 1
            print(f"DIFFERENCE on {name}, seed {seed}: {type(error).__name__}: {error}")
            schedule = getattr(engine, "schedule", None)
            if schedule is not None:
                print(f"  after {len(schedule)} choices")
            extra = f" --variables {options.variables}" if options.variables else ""
            extra += " --reads {}-{}".format(*options.reads) if options.reads else ""
            extra += f" --parallel {options.parallel}" if options.parallel else ""
            extra += f" --pushers {options.pushers}" if options.pushers > 1 else ""
            print(
                f"  repeat: python -m mxcore.testing.engine_programs --engine {name} --seed {seed} --programs 1 "
                f"--ops {low}-{high} --failures {options.failures}{extra}"
            )
            if not options.keep_going:
                break
        else:
            engine.shutdown()
    seconds = time.perf_counter() - began
    print(
        f"{name}: {programs} programs, {actions} actions, {functions} functions run, "
        f"{differences} differences from serial, {seconds:.1f} s"
    )
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
