"""Helpers for tests of code that uses mxcore, under the names of ``mx.test_utils``.

Comparison with tolerances by dtype; random arrays and shapes; numeric gradients and cross-device checks of symbols;
statistical checks of generators. The checks of symbols use the Symbol interface alone (``bind``, ``simple_bind``,
``list_arguments``, ...), so that this module needs no symbols itself.

There is no ``__all__``: test suites written for MXNet rely on ``from mxnet.test_utils import *`` for names such as
``np``, ``os`` and ``array`` too.
"""

# ruff: noqa: F401

from __future__ import annotations

import json
import logging
import os
import platform
import sys
import time
from collections import OrderedDict
from contextlib import contextmanager

import numpy as np
import numpy.random as rnd
import numpy.testing as npt

import mxcore as mx

from ..context import Context, current_context
from ..ndarray import array
from ..util import use_np
from ._arrays import (
    assign_each,
    assign_each2,
    collapse_sum_like,
    create_2d_tensor,
    create_vector,
    get_identity_mat,
    get_identity_mat_batch,
    new_matrix_with_real_eigvals_2d,
    new_matrix_with_real_eigvals_nd,
    new_orthonormal_matrix_2d,
    new_sym_matrix_with_real_eigvals_2d,
    new_sym_matrix_with_real_eigvals_nd,
    np_reduce,
    rand_coord_2d,
    rand_ndarray,
    rand_shape_2d,
    rand_shape_3d,
    rand_shape_nd,
    random_arrays,
    random_sample,
    random_uniform_arrays,
)
from ._compare import (
    almost_equal,
    assert_allclose,
    assert_almost_equal,
    assert_almost_equal_ignore_nan,
    assert_almost_equal_with_err,
    assert_exception,
    checkShapes,
    compare_ndarray_tuple,
    default_atols,
    default_numeric_eps,
    default_rtols,
    effective_dtype,
    get_atol,
    get_etol,
    get_rtol,
    get_tolerance,
    get_tols,
    same,
    same_array,
)
from ._context import (
    default_context,
    default_dtype,
    has_tvm_ops,
    is_aarch64_run,
    is_cd_run,
    is_op_runnable,
    list_gpus,
    set_default_context,
)
from ._files import download, get_bz2_data, get_mnist, get_mnist_iterator, get_mnist_ubyte, get_zip_data
from ._generators import chi_square_check, gen_buckets_probs_with_ppf, mean_check, var_check, verify_generator
from ._optimizers import compare_optimizer
from ._running import DummyIter, discard_stderr, environment, retry
from ._sparse import create_sparse_array, create_sparse_array_zd, rand_sparse_ndarray, shuffle_csr_column_indices
from ._symbols import (
    check_consistency,
    check_gluon_hybridize_consistency,
    check_numeric_gradient,
    check_speed,
    check_symbolic_backward,
    check_symbolic_forward,
    numeric_grad,
    same_symbol_structure,
    simple_forward,
)
