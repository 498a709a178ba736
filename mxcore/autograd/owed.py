"""Gradients that the engine still owes: what backward pushes when it does not run a rule on the spot.

With an INLINE_FIRST engine backward runs rules in the caller, on raw arrays, as with any inline engine. A rule is handed
over where something it reads is pending, and where its result is only wanted at the end: the gradient of a
parameter is on nobody's way, so while a worker computes it the caller goes on to the layers below. The result is an
:class:`Owed`; sums with it and its delivery are handed over as well.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Iterable
from statistics import median
from time import perf_counter_ns
from typing import Any

from ..dispatch.array import Array, dtype_of
from ..dispatch.call import Bound
from ..dispatch.deferred import WORTH_NS, Promised, tied, variable_of
from ..dispatch.faults import AT_THE_CALL
from ..dispatch.observed import begun
from ..dispatch.recording import Leaf
from ..instruments import instruments
from ..spec import MXCoreError

__all__ = ["Owed", "Owing", "backward_name", "deliver_owed", "settled_value"]


class Owed:
    """A raw gradient that is computed behind ``var``; ``data`` is None until then."""

    __slots__ = ("__weakref__", "data", "engine", "var")

    def __init__(self, engine: Any, var: Any) -> None:
        self.engine = engine
        self.var = var
        self.data: Any = None

    def take(self) -> Any:
        """Return the gradient and let go of it."""
        data, self.data = self.data, None
        return data

    @classmethod
    def ready(cls, engine: Any, data: Any) -> Owed:
        """Return one whose data are there."""
        made = cls(engine, engine.new_variable("gradient"))
        made.data = data
        return made


def settled_value(d: Any) -> Any:
    """Return a raw gradient, waiting for it if it is owed; raise what it failed with."""
    if d.__class__ is Owed:
        d.engine.wait_for_variable(d.var)
        return d.data
    return d


def _value(d: Any) -> Any:
    """As :func:`settled_value`, inside a task that reads it."""
    if d.__class__ is Owed:
        return d.data
    if d.__class__ is list:
        return [_value(each) for each in d]
    return d


class Choice:
    """Whether a backward that comes again and again hands gradients over: what was faster, by measurement.

    Both ways take turns until each has been measured :data:`_TRIALS` times; then the one with the smaller median time is taken,
    and the other one is tried again once in :data:`_AGAIN` times, since machines and loads change. Results are the same bits.
    """

    __slots__ = ("_runs", "times")

    def __init__(self) -> None:
        self.times: tuple[deque[int], deque[int]] = (deque(maxlen=_TRIALS), deque(maxlen=_TRIALS))
        self._runs = 0

    def take(self) -> bool:
        """Return whether to hand over this time."""
        self._runs = runs = self._runs + 1
        keep, hand = self.times
        if len(keep) < _TRIALS or len(hand) < _TRIALS:
            return len(hand) < len(keep) or (len(hand) == len(keep) and runs % 2 == 0)
        better = median(hand) < median(keep)
        return not better if runs % _AGAIN == 0 else better

    def record(self, handed: bool, ns: int) -> None:
        """Note how long a backward took."""
        self.times[handed].append(ns)


_TRIALS = 7
_AGAIN = 48
#: Choices remembered, by engine.
_CHOICES = 256
_choices: weakref.WeakKeyDictionary[Any, dict[Any, Choice]] = weakref.WeakKeyDictionary()


def choice_of(engine: Any, node: Any) -> Choice:
    """Return the choice for backwards that first could hand something over at ``node``, and look the same for four calls down."""
    key: list[Any] = []
    for _ in range(4):
        key.append(node.bound)
        found = None
        for x in node.inputs or ():
            if x is not None and x._tape is not None:
                key.append(_shape(x))
                if found is None and x._tape.__class__ is not Leaf:
                    found = x._tape.node
        if found is None:
            break
        node = found
    known = tuple(key)
    choices = _choices.setdefault(engine, {})
    choice = choices.get(known)
    if choice is None:
        if len(choices) >= _CHOICES:
            choices.clear()
        choice = choices[known] = Choice()
    return choice


class _Untimed:
    """An estimate of what is not worth measuring, or was measured in parts."""

    ns = 0
    countdown = 1 << 62


_UNTIMED = _Untimed()


class Owing:
    """What one backward has pushed.

    Parameters
    ----------
    engine : Engine
        With INLINE_FIRST.
    failed : callable
        ``failed(node, error) -> MXCoreError``.
    namespace : callable
        ``namespace(library) -> F`` for rules on raw arrays.
    """

    def __init__(self, engine: Any, failed: Any, namespace: Any) -> None:
        self._engine = engine
        self._choice: Choice | None = None  # made where there is first something to choose
        self._hands = False
        self._began = perf_counter_ns()
        self._failed = failed
        self._namespace = namespace

    # -- questions -----------------------------------------------------------------------------------------------

    @staticmethod
    def known(node: Any) -> bool:
        """Whether the engine knows anything that the rule of ``node`` reads."""
        if node.out.__class__ is Promised:
            return True
        for x in node.inputs:
            if x is not None and tied(x):
                return True
        return False

    def _reads(self, node: Any, g: Any) -> list[Any]:
        """The variables that a rule reads."""
        engine = self._engine
        reads = [d.var for d in (g if g.__class__ is list else [g]) if d.__class__ is Owed]
        reads += [variable_of(x, engine) for x in node.inputs if x is not None and tied(x)]
        if node.out.__class__ is Promised:
            reads += [cell.var for cell in node.out.cells]
        return reads

    def plus(self, a: Any, b: Any) -> Any:
        """Return ``a + b`` of gradients of which one may be owed."""
        if a.__class__ is not Owed and b.__class__ is not Owed:
            return a + b
        both = [d for d in (a, b) if d.__class__ is Owed]
        if all(not d.var.flags for d in both):
            return _value(a) + _value(b)
        result = Owed(self._engine, self._engine.new_variable("gradient"))

        def run() -> None:
            result.data = _value(a) + _value(b)

        self._engine.push(run, [d.var for d in both], [result.var], name="gradient sum")
        return result

    # -- rules ---------------------------------------------------------------------------------------------------

    def pull(self, node: Any, g: Any, needs: list[bool]) -> list[Any]:
        """Run the rule of ``node`` or hand it over; return its gradients, raw or owed, None where there is none."""
        bound = node.bound
        kind = g.__class__
        if kind is Owed or (kind is list and any(d.__class__ is Owed for d in g)) or self.known(node):
            return self._pull_known(node, g, needs)
        if not bound.separate or kind is list:
            # A user's function raises in the user's thread.
            return self._run(node, g, needs, _UNTIMED if bound.__class__ is Bound else None)
        # The common way of dense and convolutional layers; benchmarks/engine_training.py guards it.
        mask = 0
        for x, need in zip(node.inputs, needs):
            mask = mask * 4 + (0 if not need else 2 if x._tape.__class__ is Leaf else 1)
        key = (g.shape, node.inputs[0]._data.shape, mask)
        entry = bound.backward.get(key)
        if entry is None or entry[0] is not self._engine:
            groups = self._groups(node, needs)
            entry = (self._engine, groups, [self._estimate(node, group) for group in groups])
            bound.backward[key] = entry
        _, groups, estimates = entry
        if len(groups) == 1:
            return self._run(node, g, needs, estimates[0])
        onward, leaves = estimates
        if onward.ns >= WORTH_NS and leaves.ns >= WORTH_NS:
            if self._choice is None:
                self._choice = choice_of(self._engine, node)
                self._hands = self._choice.take()
            if self._hands and not self._engine.crowded:
                later = self._push(node, g, groups[1], [], leaves, "only wanted at the end of backward")
                return self._merge([self._run(node, g, groups[0], onward), later])
        if onward.ns and leaves.ns and onward.countdown > 0:
            onward.countdown -= 1
            return self._run(node, g, needs, _UNTIMED)
        return self._merge([self._run(node, g, group, e) for group, e in zip(groups, estimates)])

    def _pull_known(self, node: Any, g: Any, needs: list[bool]) -> list[Any]:
        """As :meth:`pull`, where the engine knows something that the rule reads."""
        engine, bound = self._engine, node.bound
        reads = self._reads(node, g)
        if bound.__class__ is not Bound:
            engine.settle(reads)
            return self._run(node, _settle_all(g), needs, None)
        groups = self._groups(node, needs)
        estimates = [self._estimate(node, group) for group in groups]
        pending = any(v.flags for v in reads)
        cheap = not engine.crowded and all(0 < e.ns < WORTH_NS for e in estimates)
        if pending and cheap and not any(v.error is not None for v in reads):
            engine.settle(reads)
            pending = any(v.flags for v in reads)
        if pending or engine.crowded:
            return self._merge([self._push(node, g, group, reads, e) for group, e in zip(groups, estimates)])
        value = _value(g)
        return self._merge([self._run(node, value, group, e) for group, e in zip(groups, estimates)])

    @staticmethod
    def _groups(node: Any, needs: list[bool]) -> list[list[bool]]:
        """What is computed apart: first what the layers below wait for, then what is for leaves."""
        if node.bound.separate:
            leaves = [need and x._tape.__class__ is Leaf for x, need in zip(node.inputs, needs)]
            onward = [need and not leaf for need, leaf in zip(needs, leaves)]
            if any(leaves) and any(onward):
                return [onward, leaves]
        return [needs]

    @staticmethod
    def _merge(parts: list[list[Any]]) -> list[Any]:
        if len(parts) == 1:
            return parts[0]
        return [a if a is not None else b for a, b in zip(*parts)]

    def _estimate(self, node: Any, group: list[bool]) -> Any:
        """Return the estimate of a rule, for inputs of these shapes."""
        bound = node.bound
        shapes = repr([None if x is None else _shape(x) for x in node.inputs])
        library = getattr(bound.library, "name", "")
        return self._engine.estimate(
            ("backward", bound.operator.name, repr(bound.attributes), shapes, repr(group), library)
        )

    def _compute(self, node: Any, g: Any, needs: list[bool]) -> Any:
        out = node.out
        if out.__class__ is Promised:
            out = out.value()
        bound = node.bound
        arrays = tuple([None if x is None else x._data for x in node.inputs])
        return bound.pullback(self._namespace(bound.library), g, arrays, out, needs)

    def _run(self, node: Any, g: Any, needs: list[bool], estimate: Any) -> list[Any]:
        """Run a rule in the caller. An error fails its gradients; it is raised where they are read."""
        if instruments.begin:
            told = begun(backward_name(node), None, node.inputs, (), 0)
            try:
                return self._run_untold(node, g, needs, estimate)
            finally:
                told.ended(())
        return self._run_untold(node, g, needs, estimate)

    def _run_untold(self, node: Any, g: Any, needs: list[bool], estimate: Any) -> list[Any]:
        try:
            if estimate is not None and estimate.countdown <= 0:
                began = perf_counter_ns()
                ds = self._compute(node, g, needs)
                took = perf_counter_ns() - began
                name = backward_name(node)
                self._engine.note(
                    name, estimate.ns, took, "caller", "nothing pending, and the layers below wait for it"
                )
                estimate.record(took)
            else:
                ds = self._compute(node, g, needs)
                if estimate is not None:
                    estimate.countdown -= 1
        except Exception as e:
            if estimate is None or isinstance(e, AT_THE_CALL):
                raise self._error(node, e)  # noqa: B904 (chained already)
            return self._fail(node, needs, self._error(node, e))
        return [d if need else None for need, d in zip(needs, ds)]

    def _error(self, node: Any, e: Exception) -> Exception:
        if isinstance(e, MXCoreError):
            return e
        error: Exception = self._failed(node, e)
        error.__cause__ = e
        return error

    def _fail(self, node: Any, needs: list[bool], error: Exception) -> list[Any]:
        engine = self._engine
        owed = [Owed(engine, engine.new_variable("gradient")) if need else None for need in needs]
        engine.fail([o.var for o in owed if o is not None], error, backward_name(node))
        return owed

    def fail(self, node: Any, error: Exception) -> list[tuple[Any, Any]]:
        """Return failed gradients for the inputs of ``node``, each with its tape entry."""
        needs = [x is not None and x._tape is not None for x in node.inputs]
        return [(x._tape, o) for x, o in zip(node.inputs, self._fail(node, needs, error)) if o is not None]

    def _push(
        self, node: Any, g: Any, needs: list[bool], reads: list[Any], estimate: Any, why: str = "its inputs are pending"
    ) -> list[Any]:
        """Hand a rule over."""
        engine = self._engine
        owed: list[Any] = [Owed(engine, engine.new_variable("gradient")) if need else None for need in needs]
        held = _Held(node)

        def run() -> None:
            try:
                ds = self._compute(held, _value(g), needs)
            except Exception as e:
                raise self._error(held, e) from (None if isinstance(e, MXCoreError) else e)
            for o, d in zip(owed, ds):
                if o is not None:
                    o.data = d

        name = backward_name(node)
        engine.push(
            run,
            reads,
            [o.var for o in owed if o is not None],
            name=name,
            estimate=estimate,
            nbytes=_nbytes(node, needs),
            why=why,
        )
        return owed

    # -- delivery ------------------------------------------------------------------------------------------------

    def join(self, leaves: Iterable[Leaf]) -> None:
        """Wait for the gradients of ``leaves`` that are owed; those that failed stay owed.

        Waiting here, and not where a gradient is first used, keeps parameters and their gradients unknown to the engine,
        so that all that follows takes the short way. Meanwhile the caller's seat is a worker's.
        """
        owed = [leaf for leaf in leaves if leaf.g.__class__ is Owed]
        self._engine.settle([leaf.g.var for leaf in owed])
        for leaf in owed:
            if not leaf.g.var.flags:
                leaf.g = leaf.g.take()
        choice = self._choice
        if choice is not None:
            took = perf_counter_ns() - self._began
            choice.record(self._hands, took)
            where, why = ("workers too", "handed over") if self._hands else ("caller", "kept")
            # Both ways are in the table, each with its time; the faster one is taken.
            self._engine.note("backward", 0, took, where, f"gradients of parameters {why}")


def deliver_owed(engine: Any, grad: Array, d: Owed, put: Any, add: bool) -> None:
    """Put an owed gradient into the array ``grad`` with ``put(grad, value)``, when it is there."""
    own = variable_of(grad, engine)

    def run() -> None:
        put(grad, d.take())  # no name here: see put

    engine.push(run, [d.var, own] if add else [d.var], [own], name="gradient")


class _Held:
    """What a pushed rule reads of its node: the node itself is cleared when backward has passed it."""

    __slots__ = ("bound", "inputs", "out")

    def __init__(self, node: Any) -> None:
        self.bound = node.bound
        self.inputs = node.inputs
        self.out = node.out


def backward_name(node: Any) -> str:
    """Return what a rule is called in errors, profiles and tables; as in MXNet."""
    return f"_backward_{node.bound.operator.name}"


def _shape(x: Any) -> Any:
    data = x._data
    return data.shape if data is not None else x._cell.shape


def _nbytes(node: Any, needs: list[bool]) -> int:
    """Bytes of the gradients asked for; they are as large as the inputs."""
    return sum(math.prod(_shape(x)) * dtype_of(x).itemsize for x, need in zip(node.inputs, needs) if need)


def _settle_all(g: Any) -> Any:
    return [settled_value(each) for each in g] if g.__class__ is list else settled_value(g)
