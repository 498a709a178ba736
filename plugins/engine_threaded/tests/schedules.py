"""Simulated executions of random programs: one seed draws the program, the engine and its options, and the schedule."""

from __future__ import annotations

import random
from typing import Any

from mxcore_engine_threaded.costs import MAX_NS, CostTable
from mxcore_engine_threaded.engine import ThreadedEngine, ThreadedEnginePerDevice
from mxcore_engine_threaded.simulator import Simulator, simulated

from mxcore.testing.engine_programs import Action, Program, run_program

ENGINES: tuple[type, ...] = (ThreadedEngine, ThreadedEnginePerDevice)


# -- tables of costs that know too much ----------------------------------------------------------------------------


class Prophet(CostTable):
    """A table that knows everything from the beginning, all of it drawn: a good part cheap enough for the caller."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)

    def estimate(self, key: Any) -> Any:
        found = super().estimate(key)
        if not found.samples:
            draw = self.random
            found._adopt(draw.choice((0, 1, 10_000, 1_000_000, 10**9, MAX_NS)) or draw.randint(1, 400_000), 10)
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
        counts = (engine._executing, engine._asleep, engine._ready, engine._outstanding, engine._sleepers, engine._bytes)
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
