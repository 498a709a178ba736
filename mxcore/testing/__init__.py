"""KIT: conformance suites, fakes and generators with which mxcore and its plugins are tested.

Import the module you need; nothing is imported here, so that a plugin's tests pull in only their own kind.
"""
