"""Measurements that decisions rest on; each module is run by hand and says how in its docstring."""
