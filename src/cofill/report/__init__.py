"""Pictures and pages made from result records, never from a person's row; pages of live runs."""

from cofill.report._build import report_page, write_report
from cofill.report._errors import Figures, pools_rows
from cofill.report._live import ProgressLog
from cofill.report._records import Record, Records, find_records
from cofill.report._watch import WatchServer, watching

__all__ = [
    "Figures",
    "ProgressLog",
    "Record",
    "Records",
    "WatchServer",
    "find_records",
    "pools_rows",
    "report_page",
    "watching",
    "write_report",
]
