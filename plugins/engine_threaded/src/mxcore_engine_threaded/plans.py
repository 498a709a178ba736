"""Record and replay: a stream of pushes that repeats becomes a plan, which says how much work hangs on each of them.

Each push is a *token*: what kind of function it is (its estimate), and for each variable how many pushes ago it was
last written. Equal tokens mean equal work in equal places of the graph, whatever the variables are called. Once a
stretch of tokens has come twice in a row, it is frozen into a plan: its dependencies, and from the learned costs the
*rank* of each push, the nanoseconds of the longest chain of work that begins with it (the bottom level of
critical-path scheduling; Hu 1961, HEFT 2002). From then on every push is compared with the token that the plan expects; the first
that differs drops the plan, and recording begins anew.

A plan gives ranks only. What may run is still decided by the dependency tracker, so a wrong plan costs time, never a result.
(The idea is Legion's automatic tracing, Apophenia 2025; dependence analysis is not skipped here: it costs the tracker
less than a comparison of roles would.)
"""

from __future__ import annotations

from typing import Any

__all__ = ["Plan", "Stream"]

#: A variable last written so many pushes ago counts as written before the stream began.
_FAR = 1 << 16


class Plan:
    """A frozen stretch of pushes.

    Attributes
    ----------
    tokens : list of tuple
    ranks : list of int
        Nanoseconds, by push.
    """

    __slots__ = ("_successors", "ranks", "rounds", "tokens")

    def __init__(self, tokens: list[Any]) -> None:
        self.tokens = tokens
        self.rounds = 0
        self._successors: list[list[int]] = [[] for _ in tokens]
        for k, token in enumerate(tokens):
            for distance in token[1:]:
                if 0 < distance <= k:
                    self._successors[k - distance].append(k)
        self.ranks = [0] * len(tokens)
        self.weigh()

    def weigh(self) -> None:
        """Compute the ranks from what is known about the costs now."""
        known = [token[0].ns for token in self.tokens if token[0].ns]
        usual = sum(known) // len(known) if known else 1
        ranks = self.ranks
        for k in range(len(ranks) - 1, -1, -1):
            after = max([ranks[s] for s in self._successors[k]], default=0)
            ranks[k] = (self.tokens[k][0].ns or usual) + after


class Stream:
    """Watches the pushes of an engine. Called with the engine's lock held.

    Parameters
    ----------
    capacity : int
        Longest stretch that can become a plan.

    Attributes
    ----------
    plan : Plan or None
    replayed, dropped : int
        Pushes that a plan foresaw; plans that a push contradicted.
    """

    __slots__ = ("_at", "_history", "_last", "_matched", "_period", "_pushes", "capacity", "dropped", "plan", "replayed")

    def __init__(self, capacity: int = 4096) -> None:
        self.capacity = capacity
        self.plan: Plan | None = None
        self.replayed = 0
        self.dropped = 0
        self._pushes = 0
        self._at = 0
        self._restart()

    def _restart(self) -> None:
        self._history: list[Any] = []
        self._last: dict[Any, int] = {}
        self._period = 0
        self._matched = 0

    def observe(self, estimate: Any, inputs: tuple[Any, ...], writes: tuple[Any, ...]) -> int:
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
        plan = self.plan
        if plan is not None:
            at = self._at
            if token == plan.tokens[at]:
                self.replayed += 1
                rank = plan.ranks[at]
                at += 1
                if at == len(plan.tokens):
                    at = 0
                    plan.rounds = rounds = plan.rounds + 1
                    if rounds & (rounds - 1) == 0 or rounds % 64 == 0:
                        plan.weigh()  # costs become known, and change
                self._at = at
                return rank
            self.dropped += 1
            self.plan = None
            self._restart()
        self._record(token)
        return 0

    def _record(self, token: Any) -> None:
        history = self._history
        i = len(history)
        if i >= 2 * self.capacity:
            self._restart()
            history, i = self._history, 0
        history.append(token)
        period = self._period
        if period and history[i - period] == token:
            self._matched += 1
            if self._matched >= period and self._matched >= 8:
                self.plan = Plan(history[i - period + 1 :])
                self._at = 0
                self._restart()
                return
        else:
            before = self._last.get(token)
            self._period = 0 if before is None or i - before > self.capacity else i - before
            self._matched = 1 if self._period else 0
        self._last[token] = i
