"""Every operator record, by what the record itself says."""

from __future__ import annotations

import doctest
import zlib

import numpy as np
import pytest

import mxcore as mx
from mxcore import operators
from mxcore.oplib.numpy_library import NumpyLibrary
from mxcore.testing import operators as checks

RECORDS = operators.records()


def samples_of(record):
    if record.samples is None:
        return []
    return list(record.samples(np.random.default_rng(zlib.crc32(record.name.encode()))))


CASES = [pytest.param(r, s, id=f"{r.name}-{i}") for r in RECORDS for i, s in enumerate(samples_of(r))]


@pytest.mark.parametrize("record,sample", [c for c in CASES if c.values[0].reference is not None])
def test_reference(record, sample):
    checks.check_reference(record, sample, np.float64)
    checks.check_reference(record, sample, np.float32)


@pytest.mark.parametrize("record,sample", CASES)
def test_inference_and_aliasing(record, sample):
    checks.check_inference(record, sample)
    checks.check_no_alias(record, sample)


@pytest.mark.parametrize("record,sample", [c for c in CASES if c.values[1].check_gradient])
def test_gradient_to_second_order(record, sample):
    checks.check_gradient(record, sample, order=2)


@pytest.mark.parametrize("record", [r for r in RECORDS if r.errors], ids=lambda r: r.name)
def test_errors(record):
    checks.check_errors(record)


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.name)
def test_has_a_kernel_and_says_what_it_is(record):
    assert NumpyLibrary().has_kernel(record.name) or record.composed is not None
    assert record.doc.strip()
    internal = record.name.startswith("_") and not record.aliases
    if not internal:
        assert record.samples is not None or record.creates or record.random, "a public operator needs samples"


@pytest.mark.parametrize("record", [r for r in RECORDS if ">>>" in r.doc], ids=lambda r: r.name)
def test_example_in_the_documentation(record):
    test = doctest.DocTestParser().get_doctest(record.doc, {"mx": mx}, record.name, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    runner.run(test)
    assert runner.failures == 0, f"the example of {record.name} does not give what it says"
