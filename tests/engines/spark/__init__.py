"""Tests of the engine of a cluster.

Files named ``check_*`` need a cluster. ``test_cluster`` runs them all in one process of their own,
whoever else runs tests at the same time: a cluster takes seconds to start. By hand:
``pytest -n 0 tests/engines/spark/check_job.py``.
"""
