"""The first sheet of an Excel workbook as a form of source (extra ``excel``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from cofill.errors import DataError, SettingError
from cofill.views._rules import ColumnRules
from cofill.views._sources import AbstractSourceForm
from cofill.views._sql import values_to_arrow


class ExcelForm(AbstractSourceForm):
    """Cells of the first sheet, a header row first; results have values, not the sheet's looks."""

    endings = (".xlsx",)
    rules = {"first_row": 2}  # noqa: RUF012

    def read(self, target: str, rules: ColumnRules) -> pa.Table:
        """Return the first sheet; formulas as the values that Excel stored."""
        try:
            book = _openpyxl().load_workbook(target, read_only=True, data_only=True)
            every = book.worksheets[0].iter_rows(values_only=True)
            header, *rows = [row for row in every if any(cell is not None for cell in row)]
        except (SettingError, PermissionError):
            raise
        except Exception:  # noqa: BLE001  openpyxl raises what zip and XML readers raise
            raise DataError(
                f"{target} is not a readable Excel file with a header row; save it again as .xlsx"
            ) from None
        columns = zip(*rows, strict=True) if rows else ([] for _ in header)
        names = ["" if name is None else str(name) for name in header]
        where = f"{target}: column"
        arrays = [values_to_arrow(v, f"{where} {n!r}") for n, v in zip(names, columns, strict=True)]
        return pa.table(arrays, names=names)

    def write(self, table: pa.Table, path: Path) -> None:
        """Write a workbook of one sheet; a text is a text there, also one that begins with =."""
        from openpyxl.cell import WriteOnlyCell

        book = _openpyxl().Workbook(write_only=True)
        sheet = book.create_sheet()

        def cell(value: Any) -> Any:
            if not (isinstance(value, str) and value.startswith("=")):
                return value
            text = WriteOnlyCell(sheet, value)
            text.data_type = "s"  # taken for a formula otherwise
            return text

        sheet.append([cell(name) for name in table.column_names])
        for row in zip(*(c.to_pylist() for c in table.columns), strict=True):
            sheet.append([cell(value) for value in row])
        with path.open("wb") as file:
            book.save(file)


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError:
        raise SettingError(
            "Excel files need the extra 'excel': pip install 'cofill[excel]'"
        ) from None
    return openpyxl
