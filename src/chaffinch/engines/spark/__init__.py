"""The engine of a cluster: Spark hands out paths and ranges, the kernels of one machine work.

Messages, ids and true filters never pass through the driver. It sees names, sizes and digests,
and at the end the tally of the whole batch.
"""
