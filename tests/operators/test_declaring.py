"""What a declaration must hold, and what is refused."""

from __future__ import annotations

import pytest

from mxcore.operators import ZERO_GRADIENT, operator
from mxcore.spec import ParameterError


def declare(**fields):
    return operator("declared_in_a_test", "data scale?", **{"doc": "x", "gradient": ZERO_GRADIENT, **fields})


@pytest.mark.parametrize(
    "fields,text",
    [
        ({"gradient": None}, "'declared_in_a_test' must declare gradient=: a rule per input, Joint, ZERO_GRADIENT"),
        ({"doc": ""}, "'declared_in_a_test' must declare doc="),
        ({"saves": "dta"}, r"saves= names \['dta'\], but its values are data, scale and output"),
        ({"gradient": (lambda F, g, y, x, s: g,)}, r"must be a tuple of 2 rule\(s\), one per input \(data, scale;"),
        ({"gradient": 5}, "not 5"),
        ({"aliases": ("exp",)}, "the name 'exp' is already declared"),
    ],
)
def test_refused(fields, text):
    from mxcore.operators import get, known

    get("exp")
    with pytest.raises(ParameterError, match=text):
        declare(**fields)
    assert not known("declared_in_a_test"), "a refused declaration leaves nothing behind"
