"""The data: views, ids, cell kinds, scaling, missingness, partitions, readers, data sets."""

from cofill.views._conform import ConformedViews, conform
from cofill.views._datasets import (
    DATASETS,
    Dataset,
    DatasetInfo,
    datasets,
    edges,
    fetch,
    load,
    make_dataset,
    papers_hint,
)
from cofill.views._feature import Feature, Kind
from cofill.views._formulas import require_formulas
from cofill.views._frames import read_ids, to_frame, to_table, view_from_table
from cofill.views._keys import Key, stream
from cofill.views._later import read_later_views
from cofill.views._missing import drop_cells, drop_rows
from cofill.views._multiview import MultiView
from cofill.views._partition import by_row, by_row_paired, pair_up
from cofill.views._patterns import patterns_of
from cofill.views._rules import ColumnRules
from cofill.views._scaling import EncodedBlock, Scaler, side_by_side
from cofill.views._schema import TableSchema
from cofill.views._source_table import ORDERS, FilledTable, SourceTable
from cofill.views._sources import (
    SOURCES,
    AbstractSourceForm,
    Source,
    is_url,
    is_writable,
    read_view,
    read_view_parts,
    read_views,
    sources_of,
    write_table,
)
from cofill.views._sql import check_new_tables, write_sql
from cofill.views._view import View

__all__ = [
    "DATASETS",
    "ORDERS",
    "SOURCES",
    "AbstractSourceForm",
    "ColumnRules",
    "ConformedViews",
    "Dataset",
    "DatasetInfo",
    "EncodedBlock",
    "Feature",
    "FilledTable",
    "Key",
    "Kind",
    "MultiView",
    "Scaler",
    "Source",
    "SourceTable",
    "TableSchema",
    "View",
    "by_row",
    "by_row_paired",
    "check_new_tables",
    "conform",
    "datasets",
    "drop_cells",
    "drop_rows",
    "edges",
    "fetch",
    "is_url",
    "is_writable",
    "load",
    "make_dataset",
    "pair_up",
    "papers_hint",
    "patterns_of",
    "read_ids",
    "read_later_views",
    "read_view",
    "read_view_parts",
    "read_views",
    "require_formulas",
    "side_by_side",
    "sources_of",
    "stream",
    "to_frame",
    "to_table",
    "view_from_table",
    "write_sql",
    "write_table",
]
