"""The demo: what cofill does, as one story on embedded data.

::

    _story      the chapters in order, and their report
    _hospitals  the same patients, other columns: codes, links, masks
    _clinics    the same columns, other patients: rounds, then groups
    _release    a mean is attacked, then protected
"""

from cofill.demo._clinics import Clinics
from cofill.demo._story import CHAPTERS, Chapter, Demo, run_demo

__all__ = ["CHAPTERS", "Chapter", "Clinics", "Demo", "run_demo"]
