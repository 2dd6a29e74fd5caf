"""Pictures and pages made from result records, never from a person's row.

::

    _records     what a folder holds, recognised by what it says it is
    _summary …   one file per section: records in, a section of a page out
    _build       the sections in order, onto one page
    _picture     a completion as plain SVG
    _live        where a run stands, from its files
    _watch       the page that follows it, and its server
"""

from cofill.report._build import SECTIONS, SectionMaker, report_page, write_report
from cofill.report._picture import completion_picture
from cofill.report._progress import ProgressLog
from cofill.report._records import Record, Records, find_records
from cofill.report._watch import WatchServer, watching

__all__ = [
    "SECTIONS",
    "ProgressLog",
    "Record",
    "Records",
    "SectionMaker",
    "WatchServer",
    "completion_picture",
    "find_records",
    "report_page",
    "watching",
    "write_report",
]
