"""Simulated executions of random programs: one seed draws the program, the engine and its options, and the schedule."""

from __future__ import annotations

import contextlib
import random
import threading
from typing import Any

from mxcore_engine_threaded.costs import MAX_NS, CostTable
from mxcore_engine_threaded.engine import ThreadedEngine, ThreadedEnginePerDevice
from mxcore_engine_threaded.simulator import Simulator, simulated

from mxcore.testing.engine_programs import Action, Program, run_program

ENGINES: tuple[type, ...] = (ThreadedEngine, ThreadedEnginePerDevice)


# -- tables of costs that know too much ----------------------------------------------------------------------------


class Prophet(CostTable):
    """A table that knows everything from the beginning, all of it drawn: a good part cheap enough for the caller."""

    def __init__(self, seed: int, cheap: bool = False) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.all = (1, 10_000) if cheap else (0, 1, 10_000, 1_000_000, 10**9, MAX_NS)

    def estimate(self, key: Any) -> Any:
        found = super().estimate(key)
        if not found.samples:
            draw = self.random
            found._adopt(draw.choice(self.all) or draw.randint(1, 400_000), 10)
            found.countdown = draw.choice((0, 3))
        return found


class Fickle(CostTable):
    """A table that says something else each time it is asked."""

    class Estimate:
        def __init__(self, draw: random.Random) -> None:
            self.random = draw
            self.countdown = 0

        @property
        def ns(self) -> int:
            return self.random.choice((0, 1, 1000, 100_000, 10**7, MAX_NS, 10**30))

        def record(self, ns: int) -> None:
            self.countdown = self.random.choice((-1, 0, 5))

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.known: dict[Any, Any] = {}

    def estimate(self, key: Any) -> Any:
        return self.known.setdefault(key, self.Estimate(self.random))


# -- programs that repeat ------------------------------------------------------------------------------------------


class Loop(Program):
    """A program of rounds that push the same functions, as training does, until something is different.

    Disturbances: a function uses another variable, one more is pushed, one fails, a round is cut short (as by an
    exception in the loop). Some variables are deleted in each round and made anew.
    """

    #: What disturbed how many rounds, over all programs.
    seen: dict[str, int]

    def __init__(self, seed: int, rounds: int, disturbed: float = 0.3) -> None:
        self.body: list[Action] = []
        self.renewed: set[int] = set()
        self.disturbed = disturbed
        self.rounds = rounds
        self.seen = {}
        super().__init__(seed, 1)

    def _draw(self) -> None:
        draw = self.random
        self.slots = list(self.live)
        places = range(len(self.slots))
        for _ in range(draw.randint(4, 16)):
            model = Action("push", self._ident())
            model.reads = tuple(draw.sample(places, min(draw.randint(0, 4), len(places))))
            model.writes = tuple(draw.sample(places, draw.choice((1, 1, 1, 2))))
            model.priority = draw.choice((0, 0, 0, 2))
            model.device = draw.choice((None, None, "first"))
            self.body.append(model)
        self.renewed = set(draw.sample(places, draw.randint(0, min(3, len(places)))))
        for _ in range(self.rounds):
            self._round()
        self._add("wait_all")

    def _push(self, model: Action, ident: int = 0, fails: bool = False, reads: Any = None) -> None:
        action = Action("push", ident or model.ident)
        action.reads = tuple(self.slots[k] for k in (model.reads if reads is None else reads))
        action.writes = tuple(self.slots[k] for k in model.writes)
        action.inputs, action.outputs = tuple(dict.fromkeys(action.reads)), tuple(dict.fromkeys(action.writes))
        action.priority, action.device, action.fails = model.priority, model.device, fails
        self.actions.append(action)
        self.serial.run(action)

    def _round(self) -> None:
        draw = self.random
        what = draw.choice(("alias", "extra", "fails", "cut")) if draw.random() < self.disturbed else ""
        self.seen[what] = self.seen.get(what, 0) + 1
        at = draw.randrange(len(self.body))
        for k, model in enumerate(self.body):
            here = what if k == at else ""
            if here == "cut":
                break
            if here == "extra":
                self._push(draw.choice(self.body), self._ident())
            if here == "alias":
                self._push(model, reads=draw.sample(range(len(self.slots)), len(model.reads)))
            else:
                self._push(model, *((self._ident(), True) if here == "fails" else ()))
        for slot in self.renewed:
            action = self._add("delete")
            action.value = victim = self.slots[slot]
            self.live.remove(victim)
            self.serial.ran.append(action.ident)
            self.serial.released[victim] = self.serial.cells.pop(victim)
            del self.serial.versions[victim], self.serial.errors[victim]
            action.lane = self.slots[slot] = self.names
            self.names += 1
            self.live.append(action.lane)
            self.serial.add(action.lane)
        if draw.random() < 0.3:
            action = self._add("wait")
            action.value = draw.choice(self.live)
            action.error = self.serial.errors[action.value]
            action.expected = (self.serial.cells[action.value], self.serial.versions[action.value])


# -- cases ---------------------------------------------------------------------------------------------------------


class Sized:
    """Mixed into an engine: every function says how large its results are."""

    def push(self, fn: Any, reads: Any = (), writes: Any = (), **options: Any) -> None:
        writes = list(writes)
        super().push(fn, reads, writes, nbytes=100 * len(writes), **options)  # type: ignore[misc]


class Circles(AssertionError):
    """A program of a few thousand choices does not end."""


class Bounded(Simulator):
    """A simulator that gives a program up that goes round in circles."""

    choices = 0

    def _choose(self) -> Any:
        self.choices += 1
        if self.choices > 200_000:
            raise Circles("200,000 choices and no end")
        return super()._choose()


class Case:
    """Everything that ``seed`` decides; every combination comes up.

    Attributes
    ----------
    program : Program
    make : type
        The engine.
    options : dict
        Of the engine.
    machine : dict
        Of the simulator.
    pushers : int
    """

    def __init__(self, seed: int, low: int = 50, high: int = 200, program: Program | None = None) -> None:
        draw = random.Random(seed * 7 + 1)
        self.seed = seed
        ops = low + int((high - low) * draw.random() ** 2)
        self.program = program or Program(seed, ops, parallel=draw.choice((0.0, 0.1)))
        self.per_device = draw.random() < 0.5
        self.sized = draw.random() < 0.3
        self.options: dict[str, Any] = {
            "workers": draw.randint(1, 4),
            "learn": draw.random() < 0.7,
            "max_tasks": draw.choice((1, 3, 10, 4096)),
            "max_bytes": draw.choice((150, 1000)) if self.sized else 1 << 30,
        }
        self.machine: dict[str, Any] = {"policy": "random"}
        if draw.random() < 0.5:
            self.machine = {"policy": "pct", "depth": draw.randint(1, 4), "horizon": 30 * len(self.program.actions)}
        self.pushers = draw.choice((1, 1, 1, 2, 3))
        self.costs: Any = draw.choice((None, Prophet, Prophet, Fickle))

    def __repr__(self) -> str:
        rest = {name: value for name, value in vars(self).items() if name not in ("seed", "program")}
        return f"Case({self.seed}) {rest}"

    def run(self, schedule: Any = None, engines: tuple[type, ...] = ENGINES, mixin: Any = object) -> Simulator:
        """Execute it; return the machine, with the schedule taken."""
        machine = Bounded(self.seed, schedule=schedule, **self.machine)
        options = dict(self.options)
        if self.costs is not None:
            options["costs"] = self.costs(self.seed)
        make = engines[self.per_device]
        bases = tuple(base for base in (mixin, Sized if self.sized else object) if base is not object)
        if bases:
            make = type("Mixed", (*bases, make), {})
        run_simulated(self.program, machine, make, options, self.pushers)
        return machine


def run_simulated(program: Program, machine: Simulator, make: Any, options: dict[str, Any], pushers: int = 1) -> None:
    """Execute ``program`` on an engine on ``machine``, shut the engine down, and look whether its counts are even."""

    def body() -> None:
        engine = simulated(make, machine, **options)
        run_program(program, engine, pushers)
        engine.shutdown()
        counts = (
            engine._executing,
            engine._asleep,
            engine._ready,
            engine._outstanding,
            engine._sleepers,
            engine._bytes,
        )
        left = (engine._inner, engine._outer, engine._throttled, engine._jobs, dict(engine._running))
        assert not any(counts) and not any(left), f"the engine is not idle in the end: {counts} {left}"
        assert engine._limited == 0, "seats were taken and not given back"

    machine.run(body)


def run_cases(start: int, stop: int, **options: Any) -> None:
    """Execute the cases of the seeds from ``start`` to ``stop``; an error names the case."""
    for seed in range(start, stop):
        case = Case(seed)
        try:
            case.run(**options)
        except Exception as error:
            raise AssertionError(f"{case!r}: {type(error).__name__}: {error}") from error


# -- pushers without a common order ---------------------------------------------------------------------------------


class RealThreads:
    """A machine of real threads, as far as a crowd needs one."""

    touched = staticmethod(lambda: None)

    @staticmethod
    def spawn(body: Any, name: str) -> threading.Thread:
        thread = threading.Thread(target=body, name=name, daemon=True)
        thread.start()
        return thread

    @staticmethod
    def join(thread: threading.Thread) -> None:
        thread.join()


class Crowd:
    """Several threads that push on the same variables, in whatever order it comes, and what must be true all the same.

    A function that writes a variable is alone with it; one that reads it may have other readers. A thread's functions
    on one variable keep the order in which it pushed them. No write is lost.
    """

    delays = (20, 60, 300)

    def __init__(self, engine: Any, machine: Any, seed: int, pushers: int, ops: int, variables: int = 6) -> None:
        self.engine, self.machine, self.seed, self.pushers, self.ops = engine, machine, seed, pushers, ops
        self.variables = [engine.new_variable(f"shared{k}") for k in range(variables)]
        self.readers = [0] * variables
        self.writers = [0] * variables
        self.counts = [0] * variables
        self.expected = [0] * variables
        self.latest = [[0] * pushers for _ in range(variables)]  # number of the thread's last write of the variable
        self.troubles: list[str] = []
        self.ran = self.pushed = self.released = self.deleted = 0

    def _function(self, thread: int, number: int, reads: list[int], writes: list[int], seen: dict[int, int]) -> Any:
        def function() -> None:
            read = [v for v in reads if v not in writes]
            for v in writes:
                if self.readers[v] or self.writers[v]:
                    self.troubles.append(f"write of {v} beside {self.readers[v]} reads, {self.writers[v]} writes")
                self.writers[v] += 1
            for v in read:
                if self.writers[v]:
                    self.troubles.append(f"read of {v} beside a write")
                with self.guard:
                    self.readers[v] += 1
            for v, before in seen.items():
                if self.latest[v][thread] != before:
                    self.troubles.append(f"thread {thread}: {number} sees {self.latest[v][thread]}, not {before}")
            counts = [self.counts[v] for v in writes]
            if number % 7 == 0:
                self.engine.parallel_for(3, 1, lambda start, stop: self.machine.touched())
            for _ in range(1 + number % 4):
                self.machine.touched()
            for v, count in zip(writes, counts):
                self.counts[v] = count + 1
                self.latest[v][thread] = number
                self.writers[v] -= 1
            with self.guard:
                for v in read:
                    self.readers[v] -= 1
                self.ran += 1

        return function

    def _push(self, thread: int) -> None:
        draw = random.Random(self.seed * 101 + thread)
        engine, latest = self.engine, [0] * len(self.variables)
        estimates = [engine.estimate(("crowd", kind)) for kind in range(4)]
        places = range(len(self.variables))
        for _ in range(
            thread and draw.randrange(draw.choice(self.delays))
        ):  # the first one is the only one for a while
            self.machine.touched()
        for number in range(1, self.ops + 1):
            reads = draw.sample(places, draw.randint(0, min(3, len(places))))
            writes = draw.sample(places, min(draw.choice((0, 1, 1, 2)), len(places)))
            seen = {v: latest[v] for v in (*reads, *writes)}
            function = self._function(thread, number, reads, writes, seen)
            sets = [self.variables[v] for v in reads], [self.variables[v] for v in writes]
            with self.guard:
                self.pushed += 1
                for v in writes:
                    self.expected[v] += 1
            chance = draw.random()
            if chance < 0.2:
                engine.push_async(lambda done, function=function: (function(), done()), *sets)
            else:
                engine.push(function, *sets, estimate=draw.choice(estimates), priority=draw.choice((0, 0, 3)))
            for v in writes:
                latest[v] = number
            chance = draw.random()
            if chance < 0.05:
                engine.wait_for_all()
            elif chance < 0.15:
                v = draw.choice(places)
                engine.wait_for_variable(self.variables[v])
                if self.latest[v][thread] != latest[v]:
                    self.troubles.append(f"thread {thread}: {self.latest[v][thread]} after the wait, not {latest[v]}")
            elif chance < 0.25:
                self._delete(thread)

    def _delete(self, thread: int) -> None:
        own, state = self.engine.new_variable("own"), [0]

        def release() -> None:
            if state != [1]:
                self.troubles.append(f"released at {state}")
            with self.guard:
                self.released += 1

        def write() -> None:
            self.machine.touched()
            state[0] += 1

        self.engine.push(write, [self.variables[thread % len(self.variables)]], [own])
        self.engine.delete_variable(own, release)
        with self.guard:
            self.deleted += 1

    def run(self) -> None:
        """Run all threads to their end and look at what is left."""
        self.guard: Any = contextlib.nullcontext() if isinstance(self.machine, Simulator) else threading.Lock()
        errors: list[BaseException] = []

        def body(thread: int) -> None:
            try:
                self._push(thread)
            except BaseException as error:
                errors.append(error)

        threads = [self.machine.spawn(lambda t=t: body(t), f"pusher-{t}") for t in range(self.pushers)]
        for thread in threads:
            self.machine.join(thread)
        self.engine.wait_for_all()
        if errors:
            raise errors[0]
        assert not self.troubles, self.troubles[:3]
        assert self.ran == self.pushed, f"{self.ran} of {self.pushed} functions ran"
        assert self.counts == self.expected, f"writes were lost: {self.counts}, not {self.expected}"
        assert [v.version for v in self.variables] == self.expected
        assert self.released == self.deleted, f"{self.released} of {self.deleted} releases"


class Duel(Crowd):
    """Two pushers, one variable, cheap functions: the second comes while the first is at it."""

    delays = (10, 30, 80)


def run_duels(start: int, stop: int, engines: tuple[type, ...] = ENGINES) -> None:
    """Simulate duels with the seeds from ``start`` to ``stop``."""
    for seed in range(start, stop):
        machine = Bounded(seed, ("random", "pct")[seed % 2], depth=1 + seed % 5, horizon=150)

        def body(seed: int = seed, machine: Any = machine) -> None:
            engine = simulated(engines[seed % 2], machine, workers=2, costs=Prophet(seed, cheap=True))
            Duel(engine, machine, seed, 2, 3, 1).run()
            engine.shutdown()

        try:
            machine.run(body)
        except Exception as error:
            raise AssertionError(f"duel {seed}: {type(error).__name__}: {error}") from error


def run_crowds(start: int, stop: int, engines: tuple[type, ...] = ENGINES) -> int:
    """Simulate crowds with the seeds from ``start`` to ``stop``; return how many functions ran."""
    ran = []
    for seed in range(start, stop):
        draw = random.Random(seed)
        machine = Bounded(seed, draw.choice(("random", "pct")), depth=draw.randint(1, 4), horizon=2000)
        options = {
            "workers": draw.randint(1, 3),
            "learn": draw.random() < 0.8,
            "max_tasks": draw.choice((2, 4096)),
            "costs": draw.choice((None, Prophet(seed), Prophet(seed, cheap=True))),
        }

        def body(draw: Any = draw, seed: int = seed, machine: Any = machine, options: Any = options) -> None:
            engine = simulated(engines[seed % 2], machine, **options)
            crowd = Crowd(engine, machine, seed, draw.randint(2, 4), 12, draw.choice((2, 6)))
            crowd.run()
            engine.shutdown()
            ran.append(crowd.ran)

        try:
            machine.run(body)
        except Exception as error:
            raise AssertionError(f"crowd {seed}, {options}: {type(error).__name__}: {error}") from error
    return sum(ran)
