"""Published experiments and their figures, reproduced: a folder for each paper, which holds data alone.

``paper.yaml`` says what is reproduced and how it is judged (``paper.Paper``); beside it lie the experiments, ordinary
configs, and the published figures, a CSV for each table or figure.
"""

from ppsim.papers.paper import Figure, Paper, known, read
from ppsim.papers.reproduce import Row, Table, reproduce

__all__ = ["Figure", "Paper", "Row", "Table", "known", "read", "reproduce"]
