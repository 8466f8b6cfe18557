"""Orders by search: costs and a memory limit in, the best order found out.

Orders to start from come from list scheduling (``listing``) and, on a V, from building blocks (``building_block``);
each is justified (``justify``), and the best one is taken (``portfolio``). All of it works on whole nanoseconds
(``instance``) and breaks ties in a fixed order, so that the result is the same on every machine.
"""
