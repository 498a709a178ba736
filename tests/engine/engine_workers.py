"""An engine with real threads, for the tests of the conformance suite: workers that take the seeded engine's steps.

With several workers it claims every capability but INLINE, so that the tests of those claims are tested.
"""

from __future__ import annotations

import threading

from mxcore.engine import pieces
from mxcore.spec import EngineCapability
from mxcore.testing.engine_seeded import SeededEngine


class WorkerEngine(SeededEngine):
    """Runs the ready function of highest priority on the first free of ``workers`` threads."""

    name = "workers"
    capabilities = frozenset(EngineCapability) - {EngineCapability.INLINE, EngineCapability.INLINE_FIRST}

    def __init__(self, workers=3):
        super().__init__(patience_s=10.0)
        if workers == 1:
            self.capabilities = frozenset({EngineCapability.PRIORITY})
        self.workers = workers
        self.threads = []
        self.start()

    def _rank(self, task):
        return float("inf") if task is None else task.priority  # completions first

    def _draw_step(self):
        return max(self._steps, key=lambda step: (step.rank, -step.number)).number

    def _work(self):
        while True:
            with self._lock:
                step = self._choose()
                if step is None:
                    if self._stopped:
                        return
                    self._changed.wait(0.1)
                    continue
            self._take(step.call)

    def start(self):
        super().start()
        if not self.threads:
            self.threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self.workers)]
            for thread in self.threads:
                thread.start()

    def stop(self):
        super().stop()
        with self._lock:
            self._changed.notify_all()
        for thread in self.threads:
            thread.join()
        self.threads = []

    def parallel_for(self, n, grain, fn):
        todo = list(enumerate(pieces(n, grain)))[::-1]
        errors = {}

        def work():
            while True:
                try:
                    index, (start, stop) = todo.pop()
                except IndexError:
                    return
                try:
                    fn(start, stop)
                except Exception as error:
                    errors[index] = error

        threads = [threading.Thread(target=work) for _ in range(self.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[min(errors)]
