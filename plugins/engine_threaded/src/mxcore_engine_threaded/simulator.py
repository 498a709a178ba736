"""A machine that runs the engine's threads as actors in one thread, one at a time, in an order drawn from a seed.

Every lock, sleep, wake, clock reading and start of a thread is a place where another actor may go on. Nothing else is: what
lies between two such places happens at once. The same seed takes the same way through the same program, every choice
is recorded, and a schedule can be replayed. When no actor can go on and the program has not ended, that is a deadlock, or
a wake that was lost, and it is reported as what it is instead of hanging.

Sleeping has no time limit here (a limit would hide lost wakes). Actors are greenlets (package ``greenlet``, in the extra
``test``); the idea is that of loom and shuttle.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable
from typing import Any

from mxcore.spec import EngineError

__all__ = ["POLICIES", "Deadlock", "Simulator", "simulated"]

#: ``random``: any actor, evenly. ``pct``: the one with the highest random priority, lowered at ``depth - 1`` random places
#: (Burckhardt et al. 2010: finds a bug that needs d ordering constraints with at least 1/(n * k**(d-1))).
POLICIES = ("random", "pct")


class Deadlock(AssertionError):
    """No actor can go on, and the program has not ended."""


class _Actor:
    __slots__ = (
        "blocked",
        "body",
        "greenlet",
        "held",
        "name",
        "number",
        "over",
        "parker",
        "pool",
        "quiet",
        "rank",
        "woken",
    )

    def __init__(self, number: int, name: str, body: Callable[[], Any], rank: float) -> None:
        self.number = number
        self.name = name
        self.body = body
        self.rank = rank
        self.blocked = ""
        self.over = False
        self.greenlet: Any = None
        # Fields of machine.Local; an actor is its own per-thread state.
        self.held: list[Any] = []
        self.quiet = 0
        self.woken = 0
        self.pool: Any = None
        self.parker: Any = None


class _Lock:
    __slots__ = ("_machine", "_owner", "_waiting")

    def __init__(self, machine: Simulator) -> None:
        self._machine = machine
        self._owner: Any = None
        self._waiting: list[_Actor] = []

    def acquire(self, blocking: bool = True) -> bool:
        machine = self._machine
        machine.point()
        while self._owner is not None:
            if not blocking:
                return False
            if self._owner is machine.current:
                raise Deadlock(f"{machine.current.name} takes a lock that it has")
            self._waiting.append(machine.current)
            machine.block("a lock")
        self._owner = machine.current
        return True

    def release(self) -> None:
        if self._owner is None:
            raise RuntimeError("release of a lock that nobody has")
        self._owner = None
        for actor in self._waiting:
            actor.blocked = ""
        self._waiting.clear()
        self._machine.point()


class _Parker:
    __slots__ = ("_machine", "_sleeper", "_woken")

    def __init__(self, machine: Simulator) -> None:
        self._machine = machine
        self._woken = False
        self._sleeper: _Actor | None = None

    def park(self, timeout_s: float | None = None) -> None:
        machine = self._machine
        machine.point()
        while not self._woken:
            self._sleeper = machine.current
            machine.block("a wake")
        self._sleeper = None
        self._woken = False

    def unpark(self) -> None:
        self._woken = True
        if self._sleeper is not None:
            self._sleeper.blocked = ""
        self._machine.point()


class _Local:
    """Attribute access to the state of the actor that runs."""

    __slots__ = ("_machine",)

    def __init__(self, machine: Simulator) -> None:
        object.__setattr__(self, "_machine", machine)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine.current, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._machine.current, name, value)


class Simulator:
    """See the module.

    Parameters
    ----------
    seed : int
        Draws every choice.
    policy : str
        One of :data:`POLICIES`.
    depth, horizon : int
        For ``pct``: how many ordering constraints a bug may need; about how many choices the program has.
    schedule : iterable of int or None
        Choices to replay instead of drawing.

    Attributes
    ----------
    schedule : list of int
        The choices made: numbers of the actors that went on, at places where several could.
    current : actor
        The one that runs.

    Examples
    --------
    >>> from mxcore_engine_threaded.engine import ThreadedEngine
    >>> machine, log = Simulator(seed=3), []
    >>> def program():
    ...     engine = ThreadedEngine(workers=2, machine=machine)
    ...     x = engine.new_variable()
    ...     engine.push(lambda: log.append("write"), writes=[x])
    ...     engine.push(lambda: log.append("read"), reads=[x])
    ...     engine.wait_for_all()
    >>> machine.run(program)
    >>> log
    ['write', 'read']
    """

    def __init__(
        self,
        seed: int = 0,
        policy: str = "random",
        depth: int = 3,
        horizon: int = 4000,
        schedule: Iterable[int] | None = None,
    ) -> None:
        try:
            import greenlet
        except ImportError as error:
            raise EngineError(
                "the simulator of mxcore-engine-threaded needs the package 'greenlet'. "
                "Install it with: pip install 'mxcore-engine-threaded[test]'"
            ) from error
        if policy not in POLICIES:
            raise EngineError(f"Simulator: policy {policy!r} is none of {', '.join(POLICIES)}.")
        self._greenlet = greenlet.greenlet
        self._exit = greenlet.GreenletExit
        self._hub = greenlet.getcurrent()
        self._random = random.Random(seed)
        self._policy = policy
        self._demotions = {self._random.randrange(horizon) for _ in range(depth - 1)} if policy == "pct" else set()
        self._lowest = 0.0
        self._replay = None if schedule is None else list(schedule)
        self._steps = 0
        self._clock = 0
        self._durations = random.Random(seed)  # apart from the choices: a replay draws no choices
        self._actors: list[_Actor] = []  # those that have not ended
        self._count = 0
        self.schedule: list[int] = []
        self.current: Any = None

    # -- the machine ---------------------------------------------------------------------------------------------

    def lock(self) -> Any:
        """See :class:`~mxcore_engine_threaded.machine.Machine`."""
        return _Lock(self)

    def parker(self) -> Any:
        """See :class:`~mxcore_engine_threaded.machine.Machine`."""
        return _Parker(self)

    def local(self) -> Any:
        """See :class:`~mxcore_engine_threaded.machine.Machine`."""
        return _Local(self)

    def spawn(self, body: Callable[[], Any], name: str) -> Any:
        """Add an actor; it begins at one of the next places."""
        self._count += 1
        actor = _Actor(self._count, name, body, self._random.random())
        actor.parker = _Parker(self)
        actor.greenlet = self._greenlet(lambda: self._live(actor), self._hub)
        self._actors.append(actor)
        if self.current is not None:
            self.point()
        return actor

    def join(self, actor: Any) -> None:
        """Let others go on until ``actor`` has ended."""
        while not actor.over:
            self.current.blocked = f"the end of {actor.name}"
            self._next()

    def ident(self) -> int:
        """Return the number of the actor that runs."""
        return self.current.number

    def now(self) -> int:
        """Return a clock that goes on by a drawn amount each time it is read: predictions are drawn too."""
        self.point()
        self._clock += int(10 ** self._durations.uniform(2, 6.5))
        return self._clock

    def touched(self) -> None:
        """Another actor may go on."""
        self.point()

    # -- choosing ------------------------------------------------------------------------------------------------

    def point(self) -> None:
        """A place where another actor may go on."""
        self._next()

    def block(self, why: str) -> None:
        """Let others go on until somebody unblocks the actor that runs."""
        self.current.blocked = why
        self._next()

    def later(self, call: Callable[[], Any]) -> None:
        """Run ``call()`` in an actor of its own."""
        self.spawn(call, "completer")

    def _choose(self) -> _Actor | None:
        able = [actor for actor in self._actors if not actor.blocked]
        if len(able) < 2:
            return able[0] if able else None
        self._steps += 1
        if self._replay is not None:
            at = len(self.schedule)
            number = self._replay[at] if at < len(self._replay) else -1
            chosen = next((actor for actor in able if actor.number == number), None)
            if chosen is None:
                raise EngineError(
                    f"replay: choice {at} of the schedule is actor {number}, but the program offers "
                    f"{[actor.number for actor in able]}. It was recorded from another program."
                )
        elif self._policy == "random":
            chosen = able[int(self._random.random() * len(able))]
        else:
            if self._steps in self._demotions:
                self._lowest -= 1.0
                max(able, key=lambda actor: actor.rank).rank = self._lowest
            chosen = max(able, key=lambda actor: actor.rank)
        self.schedule.append(chosen.number)
        return chosen

    def _next(self) -> None:
        chosen = self._choose()
        if chosen is None:
            self._hub.switch("deadlock")
        elif chosen is not self.current:
            self.current = chosen
            chosen.greenlet.switch()

    def _live(self, actor: _Actor) -> Any:
        self.current = actor
        try:
            actor.body()
        except self._exit:
            return "killed"
        finally:
            actor.over = True
            self._actors.remove(actor)
            for other in self._actors:
                if other.blocked == f"the end of {actor.name}":
                    other.blocked = ""
        return "ended"

    def run(self, program: Callable[[], Any]) -> Any:
        """Run ``program()`` as the first actor, and everything that it starts; return its result when it has ended.

        Other actors that have not ended then are dropped where they stand.

        Raises
        ------
        Deadlock
            Naming every actor and what it waits for.
        """
        result: list[Any] = []
        first = self.spawn(lambda: result.append(program()), "main")
        try:
            while not first.over:
                chosen = self._choose()
                if chosen is None:
                    raise Deadlock(self._describe())
                self.current = chosen
                if chosen.greenlet.switch() == "deadlock":
                    raise Deadlock(self._describe())
        finally:
            for actor in list(self._actors):
                with contextlib.suppress(BaseException):
                    actor.greenlet.throw(self._exit)
            self._actors.clear()
            self.current = None
        return result[0]

    def _describe(self) -> str:
        who = "; ".join(f"{actor.name} ({actor.number}) waits for {actor.blocked}" for actor in self._actors)
        return f"no thread can go on after {len(self.schedule)} choices: {who or 'all have ended'}"


def simulated(make: Callable[..., Any], machine: Simulator, **options: Any) -> Any:
    """Return an engine made by ``make`` on ``machine``, for programs of ``mxcore.testing.engine_programs``."""
    engine = make(machine=machine, **options)
    engine.limit = contextlib.nullcontext()
    engine.later = machine.later
    engine.machine = machine
    return engine
