"""EngineConformance: every clause of :mod:`mxcore.spec.engine` as a test.

Subclass it with one fixture and pytest runs the whole suite on your engine::

    class TestMyEngine(EngineConformance):
        @pytest.fixture
        def engine(self):
            engine = MyEngine()
            yield engine
            engine.shutdown()

A capability is checked both ways: what is claimed works, and without the claim the results are still those of the
contract. Nothing here knows how an engine works, and nothing may hang: what could is run with a time limit.
"""

# mypy: disable-error-code="func-returns-value, misc, var-annotated, arg-type"
from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import pytest

from ..engine.pieces import pieces
from ..spec.engine import Engine, EngineCapability, FnProperty, InlineFirst
from ..spec.errors import EngineError
from .engine_programs import Program, run_program

__all__ = ["Boom", "EngineConformance", "within"]


class Boom(Exception):
    """What the functions of this suite fail with."""


def within(call: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Return ``call()`` run in another thread; fail, with its stack, if it takes longer than ``seconds``."""
    outcome: list[Any] = []
    errors: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=body, daemon=True, name="conformance-within")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame else ""
        pytest.fail(f"did not end within {seconds:g} s; it stands at\n{stack}")
    if errors:
        raise errors[0]
    return outcome[0]


def together(calls: Iterable[Callable[[], Any]], seconds: float = 30.0) -> None:
    """Run all calls at once, each in its thread; raise the first error."""
    errors: list[BaseException] = []

    def guarded(call: Callable[[], Any]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        if thread.is_alive():
            frame = sys._current_frames().get(thread.ident or 0)
            pytest.fail(f"thread did not end:\n{''.join(traceback.format_stack(frame)) if frame else ''}")
    if errors:
        raise errors[0]


class EngineConformance:
    """Subclass with a fixture ``engine`` that yields a started, idle engine."""

    @pytest.fixture
    def engine(self) -> Iterator[Any]:
        """Override: yield the engine under test, shut it down afterwards."""
        raise NotImplementedError("EngineConformance: override the fixture `engine` to yield your engine.")

    # -- helpers -------------------------------------------------------------------------------------------------

    @staticmethod
    def claims(engine: Any, capability: EngineCapability) -> bool:
        return capability in engine.capabilities

    @contextlib.contextmanager
    def pushing(self, engine: Any) -> Iterator[None]:
        """Around pushes that end with Boom: an INLINE engine may raise it there, others must not."""
        try:
            yield
        except Boom:
            assert self.claims(engine, EngineCapability.INLINE), "raised at the push without claiming INLINE"

    def fail(self, engine: Any, *writes: Any, reads: Iterable[Any] = (), error: Exception | None = None) -> Boom:
        """Push a function that fails; return its error."""
        error = error or Boom("planted")

        def failing() -> None:
            raise error

        with self.pushing(engine):
            engine.push(failing, reads, writes, name="failing")
        return error  # type: ignore[return-value]

    @staticmethod
    def raised(call: Callable[[], Any]) -> BaseException | None:
        try:
            within(call)
        except BaseException as error:
            return error
        return None

    @contextlib.contextmanager
    def holding(self, engine: Any, variable: Any) -> Iterator[None]:
        """Around pushes: a write of ``variable`` that has not ended (an INLINE engine would never come back).

        Asynchronous, so that nobody's thread is blocked, wherever the engine runs it.
        """
        if self.claims(engine, EngineCapability.INLINE):
            yield
            return
        handed: list[Any] = []
        started = threading.Event()
        engine.push_async(lambda done: (handed.append(done), started.set()), [], [variable], name="holding")
        yield
        # Some engines start it only in a wait of this thread: end it from another one.
        threading.Thread(target=lambda: (started.wait(20), handed[0]()), daemon=True).start()

    def settle(self, engine: Any) -> list[BaseException]:
        """Wait for all until nothing is raised any more; return what was raised."""
        errors = []
        while (error := self.raised(engine.wait_for_all)) is not None:
            errors.append(error)
            assert len(errors) < 1000
        return errors

    # -- basics --------------------------------------------------------------------------------------------------

    def test_has_the_members_of_the_contract(self, engine: Any) -> None:
        assert isinstance(engine, Engine)
        assert isinstance(engine.name, str) and engine.name
        assert isinstance(engine.capabilities, frozenset)
        assert all(isinstance(capability, EngineCapability) for capability in engine.capabilities)

    def test_variable_starts_at_version_0_without_error(self, engine: Any) -> None:
        x, y = engine.new_variable("x"), engine.new_variable()
        assert x is not y
        assert (x.version, x.error) == (0, None)
        within(lambda: engine.wait_for_variable(x))

    def test_function_runs_once_and_its_result_is_ignored(self, engine: Any) -> None:
        x, ran = engine.new_variable(), []

        def function() -> str:
            ran.append(1)
            return "ignored"

        assert engine.push(function, writes=[x]) is None
        within(lambda: engine.wait_for_variable(x))
        assert (ran, x.version, x.error) == ([1], 1, None)

    def test_function_without_variables_runs(self, engine: Any) -> None:
        ran: list[int] = []
        engine.push(lambda: ran.append(1))
        within(engine.wait_for_all)
        assert ran == [1]

    @pytest.mark.parametrize("make", [list, tuple, iter, lambda them: (x for x in them), dict.fromkeys])
    def test_sets_may_be_any_iterable(self, engine: Any, make: Callable[[Any], Any]) -> None:
        a, b, c, ran = engine.new_variable(), engine.new_variable(), engine.new_variable(), []
        engine.push(lambda: ran.append(1), make([a, b]), make([c]))
        engine.push_async(lambda done: (ran.append(2), done()), make([c]), make([a, b]))
        engine.push_operation(engine.new_operation(lambda: ran.append(3), make([a, b]), make([c])))
        within(engine.wait_for_all)
        assert (ran, a.version, b.version, c.version) == ([1, 2, 3], 1, 1, 2)

    @pytest.mark.parametrize("prop", list(FnProperty))
    def test_every_property_runs(self, engine: Any, prop: FnProperty) -> None:
        x, ran = engine.new_variable(), []
        engine.push(lambda: ran.append(1), [], [x], prop=prop, priority=3, name="one", device="some device")
        engine.push(lambda: ran.append(2), [x], prop=prop, priority=-3, device=("a", 1))
        engine.push_async(lambda done: (ran.append(3), done()), [], [x], prop=prop)
        within(engine.wait_for_all)
        assert (ran, x.version) == ([1, 2, 3], 2)

    # -- order ---------------------------------------------------------------------------------------------------

    def test_writes_take_effect_in_push_order(self, engine: Any) -> None:
        x, order = engine.new_variable(), []
        for i in range(200):
            engine.push(lambda i=i: order.append(i), writes=[x], priority=i % 7, device=i % 3)
        within(lambda: engine.wait_for_variable(x))
        assert order == list(range(200))
        assert x.version == 200

    def test_reads_wait_for_earlier_writes_and_writes_for_earlier_reads(self, engine: Any) -> None:
        x, state, seen = engine.new_variable(), [0], []
        for i in range(1, 101):
            engine.push(lambda i=i: state.__setitem__(0, i), writes=[x])
            for _ in range(3):
                engine.push(lambda i=i: seen.append((i, state[0])), reads=[x])
        within(engine.wait_for_all)
        assert len(seen) == 300
        assert all(expected == value for expected, value in seen)

    def test_chain_through_many_variables(self, engine: Any) -> None:
        variables = [engine.new_variable(str(i)) for i in range(300)]
        values = [1] + [0] * 299
        for i in range(1, 300):
            engine.push(lambda i=i: values.__setitem__(i, values[i - 1] + 1), [variables[i - 1]], [variables[i]])
        within(lambda: engine.wait_for_variable(variables[-1]))
        assert values == list(range(1, 301))

    def test_a_write_of_several_waits_for_all_of_them(self, engine: Any) -> None:
        variables, log = [engine.new_variable() for _ in range(5)], []
        for i, variable in enumerate(variables):
            engine.push(lambda i=i: log.append(i), writes=[variable])
        engine.push(lambda: log.append("all"), writes=variables)
        for i, variable in enumerate(variables):
            engine.push(lambda i=i: log.append(i + 10), reads=[variable])
        within(engine.wait_for_all)
        assert (sorted(log[:5]), log[5], sorted(log[6:])) == ([0, 1, 2, 3, 4], "all", [10, 11, 12, 13, 14])

    def test_readers_queued_behind_a_write_all_run(self, engine: Any) -> None:
        """A run of reads between two writes is granted as a whole, and the second write waits for each."""
        x, log = engine.new_variable(), []
        with self.holding(engine, x):
            for i in range(10):
                engine.push(lambda i=i: log.append(i), reads=[x])
            engine.push(lambda: log.append("last"), writes=[x])
        within(lambda: engine.wait_for_variable(x))
        assert (sorted(log[:-1]), log[-1]) == (list(range(10)), "last")

    def test_duplicates_and_overlaps(self, engine: Any) -> None:
        x, y, state = engine.new_variable(), engine.new_variable(), {"x": 1, "y": 1}
        engine.push(lambda: state.update(x=5), writes=[x, x])
        engine.push(lambda: state.update(y=state["x"] * 2), reads=[x, x, x], writes=[y])
        engine.push(lambda: state.update(x=state["x"] + state["y"]), reads=[x, y, x, y], writes=[x, x])
        engine.push(lambda: state.update(y=state["x"] + 1), reads=[x, y], writes=[y, y, y])
        within(engine.wait_for_all)
        assert state == {"x": 15, "y": 16}
        assert (x.version, y.version) == (2, 2)

    def test_versions_count_completed_writes_only(self, engine: Any) -> None:
        x, y = engine.new_variable(), engine.new_variable()
        for _ in range(3):
            engine.push(lambda: None, reads=[y], writes=[x])
        self.fail(engine, x)
        with self.pushing(engine):
            engine.push(lambda: None, reads=[x], writes=[y])
        self.settle(engine)
        assert (x.version, y.version) == (4, 1)

    # -- errors --------------------------------------------------------------------------------------------------

    def test_every_wait_raises_the_error_of_a_failed_variable(self, engine: Any) -> None:
        x, y = engine.new_variable(), engine.new_variable()
        error = self.fail(engine, x)
        for _ in range(3):
            assert self.raised(lambda: engine.wait_for_variable(x)) is error
        assert x.error is error
        within(lambda: engine.wait_for_variable(y))
        assert y.error is None

    def test_every_write_of_a_failing_function_fails(self, engine: Any) -> None:
        variables = [engine.new_variable() for _ in range(3)]
        error = self.fail(engine, *variables)
        assert [self.raised(lambda v=v: engine.wait_for_variable(v)) for v in variables] == [error] * 3

    def test_reads_of_a_failing_function_do_not_fail(self, engine: Any) -> None:
        x, y = engine.new_variable(), engine.new_variable()
        self.fail(engine, y, reads=[x])
        within(lambda: engine.wait_for_variable(x))
        assert x.error is None

    def test_readers_inherit_the_same_error_and_are_not_run(self, engine: Any) -> None:
        variables, ran = [engine.new_variable() for _ in range(6)], []
        error = self.fail(engine, variables[0])
        for before, after in itertools.pairwise(variables):
            with self.pushing(engine):
                engine.push(lambda: ran.append(1), [before], [after])
        for variable in reversed(variables):
            assert self.raised(lambda v=variable: engine.wait_for_variable(v)) is error
        assert ran == []

    def test_the_first_failed_read_decides(self, engine: Any) -> None:
        a, b, c, d = (engine.new_variable() for _ in range(4))
        first, second = self.fail(engine, b), self.fail(engine, a)
        for reads, target, expected in (([a, b], c, second), ([b, a], d, first)):
            with self.pushing(engine):
                engine.push(lambda: None, reads, [target])
            assert self.raised(lambda v=target: engine.wait_for_variable(v)) is expected

    def test_a_full_overwrite_heals(self, engine: Any) -> None:
        x, y, ran = engine.new_variable(), engine.new_variable(), []
        error = self.fail(engine, x)
        with self.pushing(engine):
            engine.push(lambda: ran.append("inherits"), [x], [y])
        engine.push(lambda: ran.append("overwrites"), [], [x])
        engine.push(lambda: ran.append("reads"), [x])
        within(lambda: engine.wait_for_variable(x))
        assert x.error is None
        assert self.raised(lambda: engine.wait_for_variable(y)) is error
        self.settle(engine)
        assert ran == ["overwrites", "reads"]

    def test_a_failing_overwrite_leaves_its_own_error(self, engine: Any) -> None:
        x = engine.new_variable()
        self.fail(engine, x)
        second = self.fail(engine, x)
        assert self.raised(lambda: engine.wait_for_variable(x)) is second

    def test_reading_and_writing_does_not_heal(self, engine: Any) -> None:
        x, y, ran = engine.new_variable(), engine.new_variable(), []
        error = self.fail(engine, x)
        with self.pushing(engine):
            engine.push(lambda: ran.append(1), [x], [x])
        with self.pushing(engine):
            engine.push(lambda: ran.append(1), [y, x], [x, y])
        assert self.raised(lambda: engine.wait_for_variable(x)) is error
        assert self.raised(lambda: engine.wait_for_variable(y)) is error
        assert ran == []

    def test_no_skip_runs_with_a_failed_input_and_passes_the_error_on(self, engine: Any) -> None:
        x, y, ran = engine.new_variable(), engine.new_variable(), []
        error = self.fail(engine, x)
        with self.pushing(engine):
            engine.push(lambda: ran.append(1), [x], [y], prop=FnProperty.NO_SKIP)
        with self.pushing(engine):
            engine.push(lambda: ran.append(2), [x], [x], prop=FnProperty.NO_SKIP)
        assert self.raised(lambda: engine.wait_for_variable(y)) is error
        assert self.raised(lambda: engine.wait_for_variable(x)) is error
        assert ran == [1, 2]

    def test_delete_variable_property_runs_with_a_failed_input(self, engine: Any) -> None:
        x, ran = engine.new_variable(), []
        self.fail(engine, x)
        with self.pushing(engine):
            engine.push(lambda: ran.append(1), [x], [x], prop=FnProperty.DELETE_VARIABLE)
        self.settle(engine)
        assert ran == [1]

    def test_wait_for_all_raises_the_oldest_unreported_error_once(self, engine: Any) -> None:
        x, y, z = engine.new_variable(), engine.new_variable(), engine.new_variable()
        first, second, third = self.fail(engine, x), self.fail(engine, z, reads=[y]), self.fail(engine, y)
        errors = self.settle(engine)
        if self.claims(engine, EngineCapability.INLINE):
            assert errors == []  # raised at the pushes
        else:
            assert {*errors} == {first, second, third}
            assert errors.index(second) < errors.index(third), "the older of two ordered failures comes first"
        assert self.raised(engine.wait_for_all) is None
        assert self.raised(lambda: engine.wait_for_variable(x)) is first

    def test_wait_for_all_leaves_out_what_a_wait_has_raised(self, engine: Any) -> None:
        x, y = engine.new_variable(), engine.new_variable()
        error = self.fail(engine, x)
        with self.pushing(engine):
            engine.push(lambda: None, [x], [y])
        assert self.raised(lambda: engine.wait_for_variable(y)) is error  # inherited: the same error
        assert self.settle(engine) == []

    def test_error_of_a_function_that_writes_nothing_is_not_lost(self, engine: Any) -> None:
        error = Boom("no writes")
        raised = []

        def failing() -> None:
            raise error

        try:
            engine.push(failing)
        except Boom as caught:
            raised.append(caught)
            assert self.claims(engine, EngineCapability.INLINE)
        assert raised + self.settle(engine) == [error]

    def test_an_overwritten_error_is_still_reported(self, engine: Any) -> None:
        x = engine.new_variable()
        error = self.fail(engine, x)
        engine.push(lambda: None, [], [x])
        within(lambda: engine.wait_for_variable(x))
        assert self.settle(engine) == ([] if self.claims(engine, EngineCapability.INLINE) else [error])

    def test_error_shows_where_it_was_pushed_and_where_it_was_raised(self, engine: Any) -> None:
        x, y = engine.new_variable(), engine.new_variable()

        def raising_line() -> None:
            raise Boom("look here")

        def pushing_line() -> None:
            engine.push(raising_line, [], [x], name="looked-for")

        with self.pushing(engine):
            pushing_line()
        with self.pushing(engine):
            engine.push(lambda: None, [x], [y])
        error = self.raised(lambda: engine.wait_for_variable(y))
        assert error is not None
        text = "".join(traceback.format_exception(error))
        assert "raising_line" in text
        assert "pushing_line" in text, "the error must show the line that pushed (a note, or the traceback)"

    def test_traceback_does_not_grow_with_the_waits(self, engine: Any) -> None:
        x = engine.new_variable()
        self.fail(engine, x)
        lengths = []
        for _ in range(4):
            error = self.raised(lambda: engine.wait_for_variable(x))
            assert error is not None
            lengths.append(len(list(traceback.walk_tb(error.__traceback__))))
        assert len(set(lengths)) == 1, lengths

    def test_engine_works_after_errors(self, engine: Any) -> None:
        for _ in range(20):
            x, ran = engine.new_variable(), []
            self.fail(engine, x)
            self.settle(engine)
            engine.push(lambda ran=ran: ran.append(1), [], [x])
            within(lambda x=x: engine.wait_for_variable(x))
            assert ran == [1]

    # -- asynchronous functions ----------------------------------------------------------------------------------

    def test_async_completed_inside_the_call(self, engine: Any) -> None:
        x, log = engine.new_variable(), []
        engine.push_async(lambda done: (log.append(1), done()), [], [x])
        engine.push(lambda: log.append(2), [x])
        within(engine.wait_for_all)
        assert (log, x.version) == ([1, 2], 1)

    def test_async_holds_its_variables_until_completed_from_another_thread(self, engine: Any) -> None:
        x, y, log = engine.new_variable(), engine.new_variable(), []
        started, handed = threading.Event(), []

        def function(done: Callable[..., None]) -> None:
            handed.append(done)
            started.set()

        def completer() -> None:
            assert started.wait(20)
            log.append("completing")
            handed[0]()

        thread = threading.Thread(target=completer)
        thread.start()

        def pushes() -> None:
            engine.push_async(function, [y], [x], name="held")
            engine.push(lambda: log.append("reads x"), [x])
            engine.push(lambda: log.append("writes y"), [], [y])
            engine.wait_for_all()

        within(pushes)
        thread.join()
        assert (log[0], sorted(log[1:])) == ("completing", ["reads x", "writes y"])

    @pytest.mark.parametrize("way", ["handed over", "escaped"])
    def test_async_errors(self, engine: Any, way: str) -> None:
        x, y, ran, error = engine.new_variable(), engine.new_variable(), [], Boom(way)

        def function(done: Callable[..., None]) -> None:
            if way == "escaped":
                raise error
            done(error)

        with self.pushing(engine):
            engine.push_async(function, [], [x])
        with self.pushing(engine):
            engine.push(lambda: ran.append(1), [x], [y])
        assert self.raised(lambda: engine.wait_for_variable(y)) is error
        assert self.raised(lambda: engine.wait_for_variable(x)) is error
        assert ran == []

    def test_async_skipped_after_a_failed_input(self, engine: Any) -> None:
        x, y, ran = engine.new_variable(), engine.new_variable(), []
        error = self.fail(engine, x)
        with self.pushing(engine):
            engine.push_async(lambda done: (ran.append(1), done()), [x], [y])
        assert self.raised(lambda: engine.wait_for_variable(y)) is error
        assert ran == []

    def test_async_completed_twice_counts_once(self, engine: Any) -> None:
        x, refused = engine.new_variable(), []

        def function(done: Callable[..., None]) -> None:
            done()
            try:
                done(Boom("second"))
            except EngineError as error:
                refused.append(str(error))

        engine.push_async(function, [], [x])
        within(engine.wait_for_all)
        assert (x.version, x.error) == (1, None)
        engine.push(lambda: None, [x], [x])
        within(engine.wait_for_all)
        assert x.version == 2

    def test_async_with_a_thing_that_is_no_exception_still_fails(self, engine: Any) -> None:
        x = engine.new_variable()
        try:
            engine.push_async(lambda done: done("went wrong"), [], [x])
        except EngineError:
            assert self.claims(engine, EngineCapability.INLINE)
        error = self.raised(lambda: engine.wait_for_variable(x))
        assert isinstance(error, EngineError) and "went wrong" in str(error)

    def test_completing_thread_may_push(self, engine: Any) -> None:
        """The engine must hold no lock while it waits for a completion or runs one."""
        x, y, z, log = engine.new_variable(), engine.new_variable(), engine.new_variable(), []

        def function(done: Callable[..., None]) -> None:
            def other() -> None:
                engine.push(lambda: log.append("pushed by the completer"), [y], [z])
                engine.wait_for_variable(z)
                done()

            threading.Thread(target=other, daemon=True).start()

        within(lambda: engine.push_async(function, [], [x]))
        within(lambda: engine.wait_for_variable(x))
        assert log == ["pushed by the completer"]

    # -- operations ----------------------------------------------------------------------------------------------

    def test_operation_runs_once_per_push(self, engine: Any) -> None:
        x, y, log = engine.new_variable(), engine.new_variable(), []
        operation = engine.new_operation(lambda: log.append(1), [x, x], [y, y], name="again")
        assert operation.name == "again"
        assert log == []
        for i in range(50):
            engine.push_operation(operation, priority=i)
        within(lambda: engine.wait_for_variable(y))
        assert (len(log), y.version) == (50, 50)

    def test_operation_fails_and_works_again(self, engine: Any) -> None:
        x, failing, error = engine.new_variable(), [True], Boom("operation")

        def function() -> None:
            if failing[0]:
                raise error

        operation = engine.new_operation(function, [], [x])
        with self.pushing(engine):
            engine.push_operation(operation)
        assert self.raised(lambda: engine.wait_for_variable(x)) is error
        failing[0] = False
        engine.push_operation(operation)
        within(lambda: engine.wait_for_variable(x))

    # -- deletion ------------------------------------------------------------------------------------------------

    def test_release_is_the_last_thing(self, engine: Any) -> None:
        x, y, log = engine.new_variable(), engine.new_variable(), []
        engine.push(lambda: log.append("write"), [], [x])
        for _ in range(3):
            engine.push(lambda: log.append("read"), [x], [y])
        engine.delete_variable(x, lambda: log.append("release"))
        within(engine.wait_for_all)
        assert log == ["write", "read", "read", "read", "release"]

    @pytest.mark.parametrize("reads", [True, False])
    def test_push_on_a_deleted_variable_raises_and_changes_nothing(self, engine: Any, reads: bool) -> None:
        x, y, ran = engine.new_variable("gone"), engine.new_variable(), []
        engine.delete_variable(x)
        sets = ([x], [y]) if reads else ([y], [x])
        for push in (
            lambda: engine.push(lambda: ran.append(1), *sets, name="late"),
            lambda: engine.push_async(lambda done: (ran.append(1), done()), *sets),
            lambda: engine.push_operation(engine.new_operation(lambda: ran.append(1), *sets)),
        ):
            with pytest.raises(EngineError, match="deleted"):
                push()
        within(engine.wait_for_all)
        engine.push(lambda: ran.append(2), [], [y])
        within(lambda: engine.wait_for_variable(y))
        assert (ran, y.version, y.error) == ([2], 1, None)

    def test_deleting_twice_raises(self, engine: Any) -> None:
        x, log = engine.new_variable("gone"), []
        engine.delete_variable(x, lambda: log.append(1))
        with pytest.raises(EngineError, match="deleted"):
            engine.delete_variable(x, lambda: log.append(2))
        within(engine.wait_for_all)
        assert log == [1]

    def test_release_runs_for_a_failed_variable(self, engine: Any) -> None:
        x, log = engine.new_variable(), []
        error = self.fail(engine, x)
        engine.delete_variable(x, lambda: log.append(1))
        errors = self.settle(engine)
        assert log == [1]
        assert errors == ([] if self.claims(engine, EngineCapability.INLINE) else [error])

    def test_error_of_a_release_is_reported(self, engine: Any) -> None:
        x, error, raised = engine.new_variable(), Boom("release"), []

        def release() -> None:
            raise error

        try:
            engine.delete_variable(x, release)
        except Boom as caught:
            assert self.claims(engine, EngineCapability.INLINE)
            raised.append(caught)
        assert raised + self.settle(engine) == [error]

    def test_deleting_inside_a_function_that_holds_the_variable(self, engine: Any) -> None:
        """As when the garbage collector runs there: the buffer is in use until the function ended."""
        x, y, log = engine.new_variable(), engine.new_variable(), []

        def function() -> None:
            engine.delete_variable(x, lambda: log.append("release"))
            log.append("still using it")

        engine.push(function, [x], [y])
        within(engine.wait_for_all)
        assert log == ["still using it", "release"]

    def test_error_of_a_release_that_had_to_wait_is_reported(self, engine: Any) -> None:
        x, error = engine.new_variable(), Boom("release")

        def release() -> None:
            raise error

        engine.push(lambda: engine.delete_variable(x, release), [x])
        assert self.settle(engine) == [error]

    def test_deletion_from_another_thread_does_not_wait(self, engine: Any) -> None:
        x, y, log = engine.new_variable(), engine.new_variable(), []

        def function() -> None:
            together([lambda: engine.delete_variable(x, lambda: log.append("release"))])
            log.append("deleted")

        within(lambda: (engine.push(function, [x], [y]), engine.wait_for_all()))
        assert log == ["deleted", "release"]

    # -- waiting -------------------------------------------------------------------------------------------------

    def test_wait_for_variable_does_not_wait_for_others(self, engine: Any) -> None:
        if self.claims(engine, EngineCapability.INLINE):
            pytest.skip("an INLINE engine has nothing pending")
        x, y, log = engine.new_variable(), engine.new_variable(), []
        with self.holding(engine, y):
            engine.push(lambda: log.append("reads y"), [y])
            engine.push(lambda: log.append("writes x"), [], [x])
            within(lambda: engine.wait_for_variable(x))
            assert log == ["writes x"]
        within(engine.wait_for_all)
        assert log == ["writes x", "reads y"]

    def test_wait_inside_a_function_for_what_it_pushed(self, engine: Any) -> None:
        x, y, log = engine.new_variable(), engine.new_variable(), []

        def outer() -> None:
            log.append("outer")
            engine.push(lambda: log.append("inner"), [], [y])
            engine.wait_for_variable(y)
            log.append("waited")

        engine.push(outer, [], [x])
        within(lambda: engine.wait_for_variable(x))
        assert log == ["outer", "inner", "waited"]

    def test_waits_inside_more_functions_than_there_are_workers(self, engine: Any) -> None:
        variables = [engine.new_variable() for _ in range(100)]
        inner = [engine.new_variable() for _ in range(100)]
        log: list[int] = []

        def outer(i: int) -> None:
            engine.push(lambda: log.append(i), [], [inner[i]])
            engine.wait_for_variable(inner[i])

        for i in range(100):
            engine.push(lambda i=i: outer(i), [], [variables[i]])
        within(engine.wait_for_all)
        assert sorted(log) == list(range(100))

    def test_wait_inside_a_function_for_what_it_writes_raises(self, engine: Any) -> None:
        x, raised = engine.new_variable(), []

        def function() -> None:
            try:
                engine.wait_for_variable(x)
            except EngineError as error:
                raised.append(str(error))

        within(lambda: (engine.push(function, [], [x]), engine.wait_for_variable(x)))
        assert len(raised) == 1 and "cannot end" in raised[0]

    def test_wait_for_all_inside_a_function_returns(self, engine: Any) -> None:
        x, y, log = engine.new_variable(), engine.new_variable(), []

        def function() -> None:
            engine.push(lambda: log.append("inner"), [], [y])
            engine.wait_for_all()
            log.append("waited")

        def program() -> None:
            engine.push(function, [], [x])
            engine.push(lambda: log.append("after"), [x])
            engine.wait_for_all()

        within(program)
        assert log == ["inner", "waited", "after"]

    def test_error_of_a_wait_inside_a_function_fails_it(self, engine: Any) -> None:
        x, y = engine.new_variable(), engine.new_variable()
        error = self.fail(engine, y)
        with self.pushing(engine):
            engine.push(lambda: engine.wait_for_variable(y), [], [x])
        assert self.raised(lambda: engine.wait_for_variable(x)) is error

    def test_nested_pushes_run_in_order(self, engine: Any) -> None:
        x, y, log = engine.new_variable(), engine.new_variable(), []

        def outer(level: int) -> None:
            log.append(level)
            if level < 20:
                engine.push(lambda: outer(level + 1), [], [x])

        for i in range(5):
            engine.push(lambda i=i: log.append(("first", i)), [], [y])
        engine.push(lambda: outer(0), [], [engine.new_variable()])
        within(engine.wait_for_all)
        assert [entry for entry in log if not isinstance(entry, int)] == [("first", i) for i in range(5)]
        assert [entry for entry in log if isinstance(entry, int)] == list(range(21))

    # -- threads -------------------------------------------------------------------------------------------------

    def test_pushes_from_many_threads_are_exclusive_and_in_order(self, engine: Any) -> None:
        shared = [engine.new_variable() for _ in range(3)]
        own = [engine.new_variable() for _ in range(8)]
        sums, orders, users, broken = [0, 0, 0], [[] for _ in own], [[0, 0] for _ in shared], []

        def function(target: int, source: int, thread: int, i: int) -> None:
            users[target][1] += 1
            users[source][0] += 1
            if users[target] != [0, 1] or users[source][1]:
                broken.append((target, source, [*users]))
            sums[target] += 1
            orders[thread].append(i)
            users[target][1] -= 1
            users[source][0] -= 1

        def pusher(thread: int) -> None:
            for i in range(60):
                target = (thread + i) % 3
                source = (target + 1) % 3
                engine.push(
                    lambda t=target, s=source, i=i: function(t, s, thread, i),
                    [shared[source]],
                    [shared[target], own[thread]],
                )
            engine.wait_for_variable(own[thread])

        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            together([lambda t=t: pusher(t) for t in range(8)])
        finally:
            sys.setswitchinterval(before)
        within(engine.wait_for_all)
        assert broken == []
        assert sum(sums) == 480
        assert [v.version for v in shared] == [160] * 3
        assert orders == [list(range(60))] * 8

    def test_conflicting_functions_of_two_threads_exclude_each_other(self, engine: Any) -> None:
        for first, second in (("write", "write"), ("write", "read"), ("read", "write")):
            x, log = engine.new_variable(), []
            inside, intruded = threading.Event(), threading.Event()

            def slow(log: list[str] = log, inside: Any = inside, intruded: Any = intruded) -> None:
                inside.set()
                intruded.wait(0.1)  # time for the other one to do wrong
                log.append("first")

            def pusher(kind: str, function: Any, after: Any = None, x: Any = x) -> None:
                assert after is None or after.wait(20)
                engine.push(function, *(([], [x]) if kind == "write" else ([x], [])))
                engine.wait_for_all()

            together(
                [
                    lambda kind=first, slow=slow, pusher=pusher: pusher(kind, slow),
                    lambda kind=second, log=log, intruded=intruded, pusher=pusher, inside=inside: pusher(
                        kind, lambda: (intruded.set(), log.append("second")), inside
                    ),
                ]
            )
            assert log == ["first", "second"], f"a {second} ran during a {first}"

    def test_many_threads_may_wait_at_once(self, engine: Any) -> None:
        x, log = engine.new_variable(), []
        for i in range(50):
            engine.push(lambda i=i: log.append(i), [], [x])
        together([lambda: (engine.wait_for_variable(x), engine.wait_for_all())] * 6)
        assert log == list(range(50))

    def test_ctrl_c_interrupts_a_wait(self, engine: Any) -> None:
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_kill"):
            pytest.skip("needs the main thread and POSIX signals")
        x, handed, main = engine.new_variable(), [], threading.main_thread().ident
        started = threading.Event()

        def function(done: Callable[..., None]) -> None:
            handed.append(done)
            started.set()

        def interrupter() -> None:
            assert started.wait(20)
            signal.pthread_kill(main or 0, signal.SIGINT)

        thread = threading.Thread(target=interrupter)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            engine.push_async(function, [], [x])
            engine.wait_for_variable(x)
        thread.join()
        with contextlib.suppress(EngineError):
            handed[0]()
        engine.push(lambda: None, [], [x])
        within(lambda: engine.wait_for_variable(x))
        self.settle(engine)

    # -- stopping ------------------------------------------------------------------------------------------------

    def test_stop_finishes_the_work_and_start_undoes_it(self, engine: Any) -> None:
        x, log = engine.new_variable(), []
        for cycle in range(10):
            for i in range(10):
                engine.push(lambda i=i, cycle=cycle: log.append((cycle, i)), [], [x])
            within(engine.stop)
            assert len(log) == 10 * (cycle + 1)
            for push in (
                lambda: engine.push(lambda: log.append("late"), [], [x]),
                lambda: engine.push_async(lambda done: done(), [], [x]),
                lambda: engine.push_operation(engine.new_operation(lambda: None, [], [x])),
            ):
                with pytest.raises(EngineError, match="stopped"):
                    push()
            engine.start()
        assert log == [(cycle, i) for cycle in range(10) for i in range(10)]
        assert x.version == 100

    def test_stop_and_start_may_be_repeated(self, engine: Any) -> None:
        within(lambda: (engine.stop(), engine.stop(), engine.start(), engine.start()))
        x, log = engine.new_variable(), []
        engine.push(lambda: log.append(1), [], [x])
        within(lambda: engine.wait_for_variable(x))
        assert log == [1]

    def test_stop_keeps_errors(self, engine: Any) -> None:
        x = engine.new_variable()
        error = self.fail(engine, x)
        within(engine.stop)
        assert self.raised(lambda: engine.wait_for_variable(x)) is error
        engine.start()
        assert self.raised(lambda: engine.wait_for_variable(x)) is error

    def test_deletion_on_a_stopped_engine_releases_at_once(self, engine: Any) -> None:
        x, y, log = engine.new_variable(), engine.new_variable(), []
        engine.push(lambda: None, [], [x])
        within(engine.stop)
        engine.delete_variable(x, lambda: log.append(1))
        assert log == [1]
        engine.start()
        within(engine.shutdown)
        engine.delete_variable(y, lambda: log.append(2))
        assert log == [1, 2]

    def test_shutdown_finishes_the_work_and_may_be_repeated(self, engine: Any) -> None:
        x, log = engine.new_variable(), []
        for i in range(20):
            engine.push(lambda i=i: log.append(i), [], [x])
        within(engine.shutdown)
        assert log == list(range(20))
        within(engine.shutdown)
        with pytest.raises(EngineError, match="shut down"):
            engine.push(lambda: None)

    # -- parallel_for and bulk -----------------------------------------------------------------------------------

    @pytest.mark.parametrize(("n", "grain"), [(0, 1), (1, 1), (10, 3), (12, 4), (5, 100), (1000, 7)])
    def test_parallel_for_pieces_are_fixed(self, engine: Any, n: int, grain: int) -> None:
        found: list[tuple[int, int]] = []
        within(lambda: engine.parallel_for(n, grain, lambda start, stop: found.append((start, stop))))
        assert sorted(found) == pieces(n, grain)

    @pytest.mark.parametrize(("n", "grain"), [(-1, 1), (4, 0), (4, -2)])
    def test_parallel_for_refuses_impossible_pieces(self, engine: Any, n: int, grain: int) -> None:
        with pytest.raises(EngineError, match=f"n={n}, grain={grain}"):
            engine.parallel_for(n, grain, lambda start, stop: None)

    def test_parallel_for_raises_the_error_of_the_earliest_piece_after_all(self, engine: Any) -> None:
        for _ in range(5):
            called: list[int] = []

            def piece(start: int, stop: int, called: list[int] = called) -> None:
                called.append(start)
                if start in (30, 50, 90):
                    raise Boom(f"piece {start}")

            error = self.raised(lambda piece=piece: engine.parallel_for(100, 10, piece))
            assert isinstance(error, Boom) and str(error) == "piece 30"
            assert sorted(called) == list(range(0, 100, 10))

    def test_parallel_for_inside_functions(self, engine: Any) -> None:
        x, totals = engine.new_variable(), []

        def function() -> None:
            part = [0] * 10
            engine.parallel_for(100, 10, lambda start, stop: part.__setitem__(start // 10, sum(range(start, stop))))
            totals.append(sum(part))

        for _ in range(20):
            engine.push(function, [x])
        within(engine.wait_for_all)
        assert totals == [4950] * 20

    def test_bulk_changes_no_result(self, engine: Any) -> None:
        x, y, z, log = engine.new_variable(), engine.new_variable(), engine.new_variable(), []
        with engine.bulk(5):
            for i in range(12):
                engine.push(lambda i=i: log.append(i), [y], [x])
            error = self.fail(engine, y)
            with engine.bulk(3):
                engine.push(lambda: log.append("z"), [], [z])
        within(lambda: engine.wait_for_variable(x))
        within(lambda: engine.wait_for_variable(z))
        assert sorted(log[:-1], key=str) + log[-1:] == sorted(range(12), key=str) + ["z"] or "z" in log
        assert [entry for entry in log if entry != "z"] == list(range(12))
        assert (x.version, x.error, z.error) == (12, None, None), "one failing function fails its own writes only"
        assert self.raised(lambda: engine.wait_for_variable(y)) is error

    def test_bulk_ends_with_an_exception(self, engine: Any) -> None:
        x, log = engine.new_variable(), []
        with pytest.raises(Boom), engine.bulk(100):
            engine.push(lambda: log.append(1), [], [x])
            raise Boom
        within(lambda: engine.wait_for_variable(x))
        assert log == [1]

    # -- capabilities, both ways ---------------------------------------------------------------------------------

    def test_inline(self, engine: Any) -> None:
        x, log = engine.new_variable(), []
        engine.push(lambda: log.append(threading.get_ident()), [], [x])
        engine.push_async(lambda done: (log.append(threading.get_ident()), done()), [], [x])
        if self.claims(engine, EngineCapability.INLINE):
            assert log == [threading.get_ident()] * 2
            assert x.version == 2
            with pytest.raises(Boom):
                engine.push(self._raise, [], [x])
            with pytest.raises(Boom):
                engine.push(lambda: None, [x])
            assert isinstance(x.error, Boom)
        within(engine.wait_for_all)
        assert len(log) == 2

    @staticmethod
    def _raise() -> None:
        raise Boom("inline")

    def test_concurrent(self, engine: Any) -> None:
        x, y, z, log = engine.new_variable(), engine.new_variable(), engine.new_variable(), []
        if self.claims(engine, EngineCapability.CONCURRENT):
            # Independent writes, and reads of one variable; ready at the same time.
            for first, second in (([x], [y]), ([], [])):
                meeting = threading.Barrier(2, timeout=20)
                with self.holding(engine, z):
                    for writes in (first, second):
                        engine.push(lambda meeting=meeting: (meeting.wait(), log.append(1)), [z], writes)
                within(engine.wait_for_all, 60)
            assert len(log) == 4
        else:
            for reads, writes in (([], [x]), ([], [y]), ([z], [x]), ([z], [])):
                engine.push(lambda: log.append(1), reads, writes)
            within(engine.wait_for_all)
            assert len(log) == 4

    def test_priority(self, engine: Any) -> None:
        gate, log, count = engine.new_variable(), [], 60
        with self.holding(engine, gate):
            for i in range(count):
                priority = i * 37 % count  # a permutation
                engine.push(
                    lambda p=priority: log.append(p),
                    [gate],
                    [engine.new_variable()],
                    prop=FnProperty.CPU_PRIORITIZED,
                    priority=priority,
                )
        within(engine.wait_for_all)
        assert sorted(log) == list(range(count))
        if self.claims(engine, EngineCapability.PRIORITY):
            # Several workers blur the order a little; without priorities half of all pairs are inverted.
            inverted = sum(log[i] < log[j] for i in range(count) for j in range(i + 1, count))
            assert inverted < count * (count - 1) / 2 / 5, log

    def test_parallel_for_threads(self, engine: Any) -> None:
        if self.claims(engine, EngineCapability.PARALLEL_FOR):
            meeting, idents = threading.Barrier(2, timeout=20), set()

            def piece(start: int, stop: int) -> None:
                meeting.wait()
                idents.add(threading.get_ident())

            within(lambda: engine.parallel_for(2, 1, piece), 60)
            assert len(idents) == 2
        else:
            part = [0] * 8
            within(lambda: engine.parallel_for(8, 1, lambda start, stop: part.__setitem__(start, start)))
            assert part == list(range(8))

    def test_inline_first(self, engine: Any) -> None:
        x, y, log = engine.new_variable(), engine.new_variable(), []
        if not self.claims(engine, EngineCapability.INLINE_FIRST):
            engine.push(lambda: log.append(1), [], [x])
            within(engine.wait_for_all)
            assert log == [1]
            return
        assert isinstance(engine, InlineFirst), "InlineFirst in mxcore.spec says what is missing"
        engine = cast(Any, engine)
        assert (x.flags, x.readers) == (0, 0)
        engine.here()
        assert engine.crowded is False
        with self.holding(engine, x):
            assert x.flags != 0, "a pending write shows in the flags"
            engine.push(
                lambda: log.append("read"), [x], [y], nbytes=8, estimate=engine.estimate(("conformance", "read"))
            )
            assert y.flags != 0
        within(lambda: engine.settle([x, y]))
        assert (log, x.flags, y.flags, x.readers) == (["read"], 0, 0, 0)
        error = Boom("ran in the caller")
        engine.fail([x], error, "inline")
        assert x.error is error and x.version == 2 and x.flags != 0
        within(lambda: engine.settle([x]))  # raises nothing
        assert self.raised(lambda: engine.wait_for_variable(x)) is error
        assert self.settle(engine) == [], "a wait reported it"
        engine.push(lambda: None, [], [x])
        within(lambda: engine.wait_for_variable(x))
        assert x.flags == 0
        engine.fail([y], error := Boom("never read"), "inline")
        assert self.settle(engine) == [error]
        estimate = engine.estimate(("conformance", 1))
        assert engine.estimate(("conformance", 1)) is estimate and estimate.ns == 0
        for _ in range(40):
            estimate.record(5000)
        assert 4000 <= estimate.ns <= 6000 and estimate.countdown > 0
        together([lambda: engine.push(lambda: None, [], [y])])
        assert engine.crowded is True
        within(engine.wait_for_all)

    # -- everything at once --------------------------------------------------------------------------------------

    @pytest.mark.parametrize("seed", range(12))
    def test_random_programs_end_as_serially(self, engine: Any, seed: int) -> None:
        within(lambda: run_program(Program(seed, 200), engine), 60)
