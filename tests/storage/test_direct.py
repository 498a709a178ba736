"""The contract's own suite on ``direct``."""

from __future__ import annotations

import pytest

from mxcore.storage.direct import DirectStorage
from mxcore.testing.storage_conformance import StorageConformance


class TestDirect(StorageConformance):
    @pytest.fixture
    def storage(self):
        return DirectStorage(keep_freed=False)
