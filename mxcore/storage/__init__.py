"""MEMORY: storage managers. The built-in one, ``direct``, is in :mod:`mxcore.storage.direct`."""
