"""Pictures: functions that take a Result and return Axes; for sweeps, in ``sweep``, that take their table.

Matplotlib is imported only here, when one is drawn. Figures are made by its object interface: pyplot knows nothing of
them, and nothing has to be closed.
"""

from ppsim.plot import sweep
from ppsim.plot.comparison import charts, split
from ppsim.plot.gantt_chart import gantt
from ppsim.plot.memory_chart import memory
from ppsim.plot.peaks_chart import peaks
from ppsim.plot.style import is_ours, save, write

__all__ = ["charts", "gantt", "is_ours", "memory", "peaks", "save", "split", "sweep", "write"]
