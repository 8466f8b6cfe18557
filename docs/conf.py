"""The documentation site; ``sphinx-build -W docs site`` builds all of it, pictures and reference among them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import generate  # noqa: E402  it and the package lie beside this file, not on the path

import ppsim  # noqa: E402

project = "ppsim"
author = "the ppsim developers"
version = release = ppsim.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "ppsim"
html_show_copyright = html_show_sourcelink = html_copy_source = False
nb_execution_mode = "off"  # notebooks are stored executed; the tests run them
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"
nitpicky = False

generate.everything(Path(__file__).parent)
