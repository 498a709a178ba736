"""Learning-rate schedules against their closed forms."""

from __future__ import annotations

import math

import pytest

from mxcore import lr_scheduler


def test_factor_falls_stepwise_to_its_floor():
    schedule = lr_scheduler.FactorScheduler(100, 0.1, stop_factor_lr=1e-4, base_lr=1, warmup_steps=20)
    assert schedule(0) == 0
    assert schedule(10) == 0.5
    assert schedule(20) == 1
    assert schedule(101) == pytest.approx(0.1)
    assert schedule(201) == pytest.approx(0.01)
    assert schedule(1000) == 1e-4


def test_factor_constant_warmup():
    schedule = lr_scheduler.FactorScheduler(
        100, 0.1, base_lr=1, warmup_steps=20, warmup_begin_lr=0.1, warmup_mode="constant"
    )
    assert [schedule(n) for n in (0, 10, 19, 20)] == [0.1, 0.1, 0.1, 1]


def test_multifactor_falls_after_each_step():
    schedule = lr_scheduler.MultiFactorScheduler([15, 25], 0.1, base_lr=0.1, warmup_steps=10, warmup_begin_lr=0.05)
    assert schedule(0) == 0.05
    assert schedule(5) == pytest.approx(0.075)
    assert schedule(15) == 0.1
    assert schedule(16) == pytest.approx(0.01)
    assert schedule(26) == pytest.approx(0.001)
    assert schedule(100) == pytest.approx(0.001)


@pytest.mark.parametrize("n", [0, 3, 10, 250, 499, 1000, 1200])
def test_poly_and_cosine_equal_their_formulas(n):
    poly = lr_scheduler.PolyScheduler(1000, base_lr=3, pwr=2, final_lr=0.5, warmup_steps=10, warmup_begin_lr=1)
    cosine = lr_scheduler.CosineScheduler(1000, base_lr=3, final_lr=0.5, warmup_steps=10, warmup_begin_lr=1)
    if n < 10:
        assert poly(n) == cosine(n) == pytest.approx(1 + 2 * n / 10)
        return
    progress = (min(n, 1000) - 10) / 990
    # Asked in order, as training does: after the end the last rate stays.
    for schedule, share in ((poly, (1 - progress) ** 2), (cosine, (1 + math.cos(math.pi * progress)) / 2)):
        schedule(min(n, 1000))
        assert schedule(n) == pytest.approx(0.5 + 2.5 * share)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: lr_scheduler.LRScheduler(0.1, warmup_begin_lr=1), "higher than warmup_begin_lr"),
        (lambda: lr_scheduler.LRScheduler(warmup_steps=-1), "has to be positive or 0, got -1"),
        (lambda: lr_scheduler.LRScheduler(warmup_mode="x"), "linear and constant modes of warmup, got 'x'"),
        (lambda: lr_scheduler.FactorScheduler(0), "greater or equal than 1 round, got 0"),
        (lambda: lr_scheduler.FactorScheduler(1, 2), "no more than 1 to make lr reduce, got 2"),
        (lambda: lr_scheduler.MultiFactorScheduler([3, 3]), r"increasing integer list, got \[3, 3\]"),
        (lambda: lr_scheduler.PolyScheduler(0), "strictly positive, got 0"),
    ],
)
def test_impossible_schedules_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_base_class_has_no_rate():
    with pytest.raises(NotImplementedError):
        lr_scheduler.LRScheduler()(1)
