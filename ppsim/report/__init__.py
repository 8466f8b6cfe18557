"""The report: a page of one file on which a run, or several, can be looked into; it asks the network for nothing.

Bokeh is imported only here, when a page is made. ``report.js`` is all JavaScript of our own, ``page.css`` its looks.
"""

from ppsim.report.page import View, html, view

__all__ = ["View", "html", "view"]
