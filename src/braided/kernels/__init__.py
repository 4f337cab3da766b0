"""Compiled kernels: plain loops over NumPy arrays, in a shared library that is built ahead (`native`).

`dense`, `activations` and `random` are the loops that learners are made of; `calls` lets the record loop
call a learner through its machine-code address; `scale` turns raw values into what learners see; `loop`
runs predict, combine and learn over a chunk of records without returning to Python.
"""
