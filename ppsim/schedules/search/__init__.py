"""Orders by search: costs and a memory limit in, the best order found out.

Orders to start from are the fixed ones of the zero-bubble paper and others between and beyond them, what list
scheduling gives (``listing``) and, on a V, building blocks (``building_block``); each is justified (``justify``), and
the best one is taken (``portfolio``). All of it works on whole nanoseconds (``instance``), breaks ties in a fixed order
and counts its effort in ops: the result is the same on every machine, with Numba and without.
"""
