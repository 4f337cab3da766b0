"""Benchmarks: each measures its alternatives in one run, so that their ratios mean something on a noisy machine."""
