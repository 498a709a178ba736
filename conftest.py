"""For all tests of the repository: learned costs stay in memory, so that no run depends on an earlier one."""

import os

os.environ.setdefault("MXCORE_ENGINE__COST_FILE", "none")
