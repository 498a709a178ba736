"""The contract's own suite on ``direct``."""

from __future__ import annotations

import threading

import pytest

from mxcore.storage.direct import DirectStorage
from mxcore.testing.storage_conformance import StorageConformance


class TestDirect(StorageConformance):
    @pytest.fixture
    def storage(self):
        return DirectStorage(keep_freed=False)

    def test_free_in_a_finalizer(self, storage, device):
        if isinstance(storage._lock, type(threading.Lock())):
            pytest.skip(
                "the lock of direct is not re-entrant: a finalizer that frees can wait for itself (Python 3.12)"
            )
        super().test_free_in_a_finalizer(storage, device)
