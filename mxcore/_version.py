"""The version of this distribution, read by the build and by ``mxcore.__version__``."""

__version__ = "0.1.0"
