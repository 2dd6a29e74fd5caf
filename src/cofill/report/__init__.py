"""Pictures and pages made from result records, never from a person's row.

::

    _records     the records of a folder, recognised by what they say they are
    _metrics     names and figures of metrics
    _summary …   one file per section: records in, a section of a page out
    _build       the sections in order, onto one page
    _progress    the progress file that a run writes
    _live        the state of a run, from its files
    _watch       the page that follows it, and its server
"""

from cofill.report._build import SECTIONS, SectionMaker, report_page, write_report
from cofill.report._metrics import Figures, pools_rows
from cofill.report._progress import ProgressLog
from cofill.report._records import Record, Records, find_records
from cofill.report._watch import WatchServer, watching

__all__ = [
    "SECTIONS",
    "Figures",
    "ProgressLog",
    "Record",
    "Records",
    "SectionMaker",
    "WatchServer",
    "find_records",
    "pools_rows",
    "report_page",
    "watching",
    "write_report",
]
