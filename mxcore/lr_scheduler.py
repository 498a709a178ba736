"""Learning-rate schedules: a callable from the number of updates to a learning rate.

A schedule may be asked with growing update numbers only; it keeps its place in ``base_lr`` and ``count``, which an
optimizer and its pickles share.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

__all__ = ["LRScheduler", "FactorScheduler", "MultiFactorScheduler", "PolyScheduler", "CosineScheduler"]


class LRScheduler:
    """Base of the schedules: holds the rate and the warm-up.

    Parameters
    ----------
    base_lr : float
        Rate after the warm-up.
    warmup_steps : int
        Number of updates of the warm-up.
    warmup_begin_lr : float
        Rate at update 0 of the warm-up.
    warmup_mode : {'linear', 'constant'}
        Grow towards `base_lr`, or stay at `warmup_begin_lr`.

    Raises
    ------
    ValueError
        For a warm-up that starts above `base_lr`, a negative length or an unknown mode.
    """

    def __init__(
        self,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        if not isinstance(warmup_steps, int):
            raise AssertionError(f"warmup_steps counts updates and must be an int, not {warmup_steps!r}.")
        if warmup_begin_lr > base_lr:
            raise ValueError(f"Base lr ({base_lr}) has to be higher than warmup_begin_lr ({warmup_begin_lr}).")
        if warmup_steps < 0:
            raise ValueError(f"Warmup steps has to be positive or 0, got {warmup_steps}.")
        if warmup_mode not in ("linear", "constant"):
            raise ValueError(f"Supports only linear and constant modes of warmup, got {warmup_mode!r}.")
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_final_lr = base_lr
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_mode = warmup_mode

    def get_warmup_lr(self, num_update: int) -> float:
        """Return the rate at update `num_update` of the warm-up."""
        if num_update >= self.warmup_steps:
            raise AssertionError(f"Update {num_update} is not part of a warm-up of {self.warmup_steps} steps.")
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        rise = self.warmup_final_lr - self.warmup_begin_lr
        return self.warmup_begin_lr + rise * float(num_update) / float(self.warmup_steps)

    def __call__(self, num_update: int) -> float:
        """Return the learning rate of update number `num_update`."""
        raise NotImplementedError("must override this")


def _check_factor(factor: float) -> None:
    if factor > 1.0:
        raise ValueError(f"Factor must be no more than 1 to make lr reduce, got {factor}.")


class FactorScheduler(LRScheduler):
    """Multiply the rate by `factor` every `step` updates, down to `stop_factor_lr`.

    Parameters
    ----------
    step : int
        Updates between two reductions.
    factor : float
        At most 1.
    stop_factor_lr : float
        The rate never falls below this.

    Examples
    --------
    >>> schedule = FactorScheduler(step=10, factor=0.5, base_lr=1.0)
    >>> [schedule(n) for n in (10, 11, 21)]
    [1.0, 0.5, 0.25]
    """

    def __init__(
        self,
        step: int,
        factor: float = 1,
        stop_factor_lr: float = 1e-8,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if step < 1:
            raise ValueError(f"Schedule step must be greater or equal than 1 round, got {step}.")
        _check_factor(factor)
        self.step = step
        self.factor = factor
        self.stop_factor_lr = stop_factor_lr
        self.count = 0

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while num_update > self.count + self.step:
            self.count += self.step
            self.base_lr *= self.factor
            if self.base_lr < self.stop_factor_lr:
                self.base_lr = self.stop_factor_lr
                logging.info(
                    "Update[%d]: learning rate reached its floor %0.5e and stays there", num_update, self.base_lr
                )
            else:
                logging.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """Multiply the rate by `factor` after each of the updates listed in `step`.

    Parameters
    ----------
    step : list of int
        Increasing update numbers.
    factor : float
        At most 1.

    Examples
    --------
    >>> schedule = MultiFactorScheduler(step=[10, 20], factor=0.1, base_lr=1.0)
    >>> [round(schedule(n), 6) for n in (10, 11, 21)]
    [1.0, 0.1, 0.01]
    """

    def __init__(
        self,
        step: Sequence[int],
        factor: float = 1,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(step, list) or not step:
            raise AssertionError(f"step must be a list of at least one update number, got {step!r}.")
        for i, at in enumerate(step):
            if i and at <= step[i - 1]:
                raise ValueError(f"Schedule step must be an increasing integer list, got {step}.")
            if at < 1:
                raise ValueError(f"Schedule step must be greater or equal than 1 round, got {step}.")
        _check_factor(factor)
        self.step = step
        self.cur_step_ind = 0
        self.factor = factor
        self.count = 0

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            logging.info("Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr)
        return self.base_lr


class _DecayToEnd(LRScheduler):
    """Shared part of the schedules that reach `final_lr` at update `max_update` and then stay there."""

    def __init__(
        self, max_update: int, base_lr: float, final_lr: float, warmup_steps: int, warmup_begin_lr: float, mode: str
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, mode)
        if not isinstance(max_update, int):
            raise AssertionError(f"max_update counts updates and must be an int, not {max_update!r}.")
        if max_update < 1:
            raise ValueError(f"maximum number of updates must be strictly positive, got {max_update}.")
        self.base_lr_orig = base_lr
        self.max_update = max_update
        self.final_lr = final_lr
        self.max_steps = max_update - warmup_steps

    def _share(self, progress: float) -> float:
        """Return how much of the way down is still to go after `progress` (0..1) of the updates."""
        raise NotImplementedError

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update <= self.max_update:
            progress = float(num_update - self.warmup_steps) / float(self.max_steps)
            self.base_lr = self.final_lr + (self.base_lr_orig - self.final_lr) * self._share(progress)
        return self.base_lr


class PolyScheduler(_DecayToEnd):
    """Fall from `base_lr` to `final_lr` as ``(1 - progress) ** pwr`` over `max_update` updates.

    Examples
    --------
    >>> schedule = PolyScheduler(max_update=10, base_lr=1.0, pwr=2)
    >>> schedule(0), schedule(5), schedule(10), schedule(11)
    (1.0, 0.25, 0.0, 0.0)
    """

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        pwr: float = 2,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.power = pwr

    def _share(self, progress: float) -> float:
        return pow(1 - progress, self.power)


class CosineScheduler(_DecayToEnd):
    """Fall from `base_lr` to `final_lr` along half a cosine over `max_update` updates.

    Examples
    --------
    >>> schedule = CosineScheduler(max_update=10, base_lr=1.0)
    >>> schedule(0), round(schedule(5), 6), schedule(10)
    (1.0, 0.5, 0.0)
    """

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)

    def _share(self, progress: float) -> float:
        return (1 + math.cos(math.pi * progress)) / 2
