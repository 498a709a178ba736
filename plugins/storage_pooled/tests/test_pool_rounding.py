"""Sizes of blocks: MXNet's rules from its documentation, and what they must be for any size."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given
from mxcore_storage_pooled.rounding import SMALL, Settings, classes, exact, pages, powers

from mxcore.spec import ConfigError

MIB = 1 << 20
ALL = {"naive": pages, "round": powers, "unpooled": exact, "best_fit": classes}


@pytest.mark.parametrize(
    ("nbytes", "naive", "round_"),
    [
        (1, 4096, 4096),
        (4096, 4096, 4096),
        (4097, 8192, 8192),
        (12_289, 16_384, 16_384),
        (16_385, 20_480, 32_768),
        (2 * MIB, 2 * MIB, 2 * MIB),  # exactly the large size stays
        (2 * MIB + 1, 4 * MIB, 4 * MIB),
        (5 * MIB, 6 * MIB, 8 * MIB),
        (16 * MIB, 16 * MIB, 16 * MIB),
        (16 * MIB + 1, 18 * MIB, 32 * MIB),
        (33 * MIB, 34 * MIB, 48 * MIB),
        ((17 << 30) + 1, (17 << 30) + 2 * MIB, (17 << 30) + 16 * MIB),  # beyond MXNet's table
    ],
)
def test_mxnet_rules(nbytes: int, naive: int, round_: int) -> None:
    assert pages(Settings())(nbytes) == naive
    assert powers(Settings())(nbytes) == round_
    assert exact(Settings())(nbytes) == nbytes


def mxnet_round(nbytes: int, page: int, cutoff: int) -> int:
    """The bucket arithmetic as MXNet does it, in terms of bucket numbers."""
    bits = max(nbytes - 1, 1).bit_length()
    bucket = -(-nbytes // (1 << cutoff)) - 1 + cutoff if bits > cutoff else max(bits, page.bit_length() - 1)
    return 1 << bucket if bucket <= cutoff else (bucket - cutoff + 1) << cutoff


@given(st.integers(1, 1 << 33), st.sampled_from([32, 4096, 65_536]), st.integers(20, 34))
def test_round_is_mxnets_arithmetic(nbytes: int, page: int, cutoff: int) -> None:
    assert powers(Settings(page_size=page, round_linear_cutoff=cutoff))(nbytes) == mxnet_round(nbytes, page, cutoff)


@given(st.sampled_from(sorted(ALL)), st.integers(0, 1 << 36), st.integers(0, 1 << 20))
def test_capacities_suffice_grow_and_are_classes(name: str, nbytes: int, more: int) -> None:
    size = ALL[name](Settings())
    capacity = size(nbytes)
    assert capacity >= max(nbytes, 1)
    assert size(capacity) == capacity
    assert size(nbytes + more) >= capacity


@given(st.integers(1, 2 * SMALL))
def test_classes_waste_at_most_a_quarter_and_are_aligned(nbytes: int) -> None:
    capacity = classes(Settings())(nbytes)
    assert capacity % 64 == 0
    assert capacity - nbytes < max(64, nbytes / 4)


def test_there_are_four_classes_per_doubling() -> None:
    sizes = {classes(Settings())(nbytes) for nbytes in range(4097, 8193)}
    assert sorted(sizes) == [5120, 6144, 7168, 8192]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"reserve": 101}, "'pool.reserve' is 101, which a pool cannot work with. Give a percentage, 0 to 100."),
        ({"page_size": 31}, "'pool.page_size' is 31, which a pool cannot work with. Give at least 32 bytes."),
        ({"large_round": 0}, "'pool.large_round' is 0, which a pool cannot work with. Give more than 0 bytes."),
        ({"round_linear_cutoff": 19}, "'pool.round_linear_cutoff' is 19, .* between 20 and 34"),
    ],
)
def test_values_that_cannot_be(values: dict[str, int], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Settings(**values)


@pytest.mark.parametrize("page", [5000, 1 << 25])
def test_round_needs_a_power_of_two(page: int) -> None:
    assert pages(Settings(page_size=page))(1) == page
    with pytest.raises(ConfigError, match=f"'pool.page_size' is {page}; storage 'round' needs a power of two, at most"):
        powers(Settings(page_size=page))
