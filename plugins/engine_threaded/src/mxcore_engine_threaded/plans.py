"""Record and replay: a stream of pushes that repeats becomes a plan, which says how much work hangs on each of them.

Each push is a *token*: what kind of function it is (its estimate), and for each variable how many pushes ago it was
last written. Equal tokens mean equal work in equal places of the graph, whatever the variables are called. (Functions
known to be tiny have no token; what they read counts as what they wrote.) A stretch that has come twice is frozen into a
plan: its dependencies, and from the learned costs the *rank* of each push, the nanoseconds of the longest chain of work
that begins with it (the bottom level of critical-path scheduling; Hu 1961, HEFT 2002). From then on every push is
compared with the token that the plan expects; the first that differs drops the plan, and recording goes on.

Where a stretch begins and ends is told by waits: a program that waits once per training step is cut there. Without
waits a period is looked for.

A plan gives ranks only. What may run is still decided by the dependency tracker, so a wrong plan costs time, never a
result. (The idea is Legion's tracing, found automatically as in Apophenia 2025; dependence analysis is not skipped here:
it costs the tracker less than a comparison of roles would.) Tokens do not tell who read a variable last, so ranks leave
out that a write waits for earlier reads.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Plan", "Stream"]

#: A variable last written so many pushes ago counts as written before the stream began.
_FAR = 1 << 16
#: Shorter stretches are not worth a plan, and equal neighbours would look like periods.
_SHORT = 8
#: Stretches remembered, by their first token.
_STRETCHES = 64


class Plan:
    """A frozen stretch of pushes.

    Parameters
    ----------
    tokens : list of tuple
    sizes : list of int
        Bytes of each push's results.
    cyclic : bool
        It follows upon itself without a wait between, so what comes after its end counts as well.

    Attributes
    ----------
    ranks : list of int
        Nanoseconds, by push.
    rounds : int
        How often it was replayed to its end.
    """

    __slots__ = ("_successors", "cyclic", "ranks", "rounds", "sizes", "tokens")

    def __init__(self, tokens: list[Any], sizes: list[int], cyclic: bool = False) -> None:
        self.tokens = tokens
        self.sizes = sizes
        self.cyclic = cyclic
        self.rounds = 0
        unrolled = tokens * 2 if cyclic else tokens
        self._successors: list[list[int]] = [[] for _ in unrolled]
        for k, token in enumerate(unrolled):
            for distance in token[1:]:
                if 0 < distance <= k:
                    self._successors[k - distance].append(k)
        self.ranks: list[int] = []
        self.weigh()

    def weigh(self) -> None:
        """Compute the ranks from what is known about the costs now."""
        costs = [token[0].ns for token in self.tokens]
        known = [ns for ns in costs if ns]
        usual = sum(known) // len(known) if known else 1
        costs = [ns or usual for ns in costs]
        successors = self._successors
        ranks = [0] * len(successors)
        for k in range(len(ranks) - 1, -1, -1):
            ranks[k] = costs[k % len(costs)] + max([ranks[s] for s in successors[k]], default=0)
        self.ranks = ranks[: len(costs)]

    def ended(self) -> None:
        """Count a round; costs become known and change, so weigh anew from time to time."""
        self.rounds = rounds = self.rounds + 1
        if rounds & (rounds - 1) == 0 or rounds % 64 == 0:
            self.weigh()


class Stream:
    """Watches the pushes of an engine. Called with the engine's lock held, but for :attr:`marked`.

    Parameters
    ----------
    capacity : int
        Longest stretch that can become a plan.

    Attributes
    ----------
    marked : bool
        Set by whoever waits outside of functions: a stretch ends here.
    plan : Plan or None
        The one that is being replayed.
    replayed, dropped : int
        Pushes that a plan foresaw; plans that a push contradicted.
    """

    __slots__ = (
        "_at",
        "_history",
        "_last",
        "_matched",
        "_period",
        "_plans",
        "_pushes",
        "_sizes",
        "_stretches",
        "capacity",
        "dropped",
        "marked",
        "plan",
        "replayed",
    )

    def __init__(self, capacity: int = 4096) -> None:
        self.capacity = capacity
        self.plan: Plan | None = None
        self.marked = False
        self.replayed = 0
        self.dropped = 0
        self._pushes = 0
        self._at = 0
        self._plans: dict[Any, Plan] = {}
        self._stretches: dict[Any, list[Any]] = {}
        self._record_from([], [])

    def _record_from(self, history: list[Any], sizes: list[int]) -> None:
        self._history = history
        self._sizes = sizes
        self._last: dict[Any, int] = {}
        self._period = 0
        self._matched = 0

    def upcoming(self, count: int) -> list[int]:
        """Return the bytes that the results of the next ``count`` pushes will take, as far as a plan foresees them."""
        plan = self.plan
        if plan is None:
            return []
        sizes = plan.sizes[self._at : self._at + count]
        if plan.cyclic:
            sizes += plan.sizes[: count - len(sizes)]
        return sizes

    def observe(self, estimate: Any, inputs: tuple[Any, ...], writes: tuple[Any, ...], nbytes: int = 0) -> int:
        """Take note of a push; return its rank, 0 if no plan foresaw it. Stamps ``writes``."""
        now = self._pushes = self._pushes + 1
        token = (
            estimate,
            *[now - s if (s := v.stamp) and now - s < _FAR else 0 for v in inputs],
            -1,
            *[now - s if (s := v.stamp) and now - s < _FAR else 0 for v in writes],
        )
        for variable in writes:
            variable.stamp = now
        if self.marked:
            self.marked = False
            self._close()
            self.plan, self._at = self._plans.get(token), 0
        plan = self.plan
        if plan is not None:
            at = self._at
            tokens = plan.tokens
            if at < len(tokens) and token == tokens[at]:
                self.replayed += 1
                rank = plan.ranks[at]
                at += 1
                if plan.cyclic:
                    if at == len(tokens):
                        at = 0
                        plan.ended()
                    self._keep(token, nbytes)  # a period may be part of a stretch that a wait ends
                self._at = at
                return rank
            self.dropped += 1
            self.plan = None
            if plan.cyclic:
                self._last = {}  # it knows nothing of what came during the plan
            else:
                self._record_from(tokens[:at], plan.sizes[:at])
        self._record(token, nbytes)
        return 0

    @staticmethod
    def passed(inputs: tuple[Any, ...], writes: tuple[Any, ...]) -> None:
        """Take note of a push that is known to be tiny: no token, but what it read counts as what it wrote."""
        stamp = 0
        for variable in inputs:
            if variable.stamp > stamp:
                stamp = variable.stamp
        for variable in writes:
            variable.stamp = stamp

    def _close(self) -> None:
        """End a stretch; make a plan of it if it is the same as the one before that began like it."""
        plan, stretch, sizes = self.plan, self._history, self._sizes
        self._record_from([], [])
        if plan is not None and not plan.cyclic:
            if self._at == len(plan.tokens):
                plan.ended()
                return
            stretch, sizes = plan.tokens[: self._at], plan.sizes[: self._at]  # it ended early
        if _SHORT <= len(stretch) <= self.capacity:
            first = stretch[0]
            if self._stretches.get(first) == stretch:
                self._plans[first] = Plan(stretch, sizes)
            else:
                if len(self._stretches) >= _STRETCHES:
                    self._stretches.clear()
                    self._plans.clear()
                self._stretches[first] = stretch

    def _keep(self, token: Any, nbytes: int) -> int:
        """Append to the history; return the token's place in it."""
        if len(self._history) >= 2 * self.capacity:
            self._record_from([], [])
        self._history.append(token)
        self._sizes.append(nbytes)
        return len(self._history) - 1

    def _record(self, token: Any, nbytes: int) -> None:
        i = self._keep(token, nbytes)
        history = self._history
        period = self._period
        if period and history[i - period] == token:
            self._matched += 1
            if self._matched >= period and self._matched >= _SHORT:
                self.plan = Plan(history[i - period + 1 :], self._sizes[i - period + 1 :], cyclic=True)
                self._at = 0
                self._period = self._matched = 0
                return
        else:
            before = self._last.get(token)
            self._period = 0 if before is None or i - before > self.capacity else i - before
            self._matched = 1 if self._period else 0
        self._last[token] = i
