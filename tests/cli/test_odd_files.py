"""Small files as people have them: read right, or refused in one sentence with nothing written."""

import csv

import pytest

from cofill.cli._app import run


def lines(row, count=30):
    return "".join(f"{row(k)}\n" for k in range(count))


def hole(k, value, every=5):
    return "" if k % every == 0 else value


@pytest.fixture
def complete(tmp_path, capsys):
    """Write a file, check and complete it; return the exit codes, what was printed, the result."""

    def run_on(content, *options, encoding="utf-8"):
        source, out = tmp_path / "odd.csv", tmp_path / "done"
        source.write_bytes(content.encode(encoding))
        words = ["--view", f"odd={source}", "--method", "mean", *(options or ("--id", "id"))]
        checked = run(["check", *words])
        printed = capsys.readouterr()
        assert run(["complete", *words, "--out", str(out)]) == checked
        printed = printed.out + printed.err + "".join(capsys.readouterr())
        assert "Traceback" not in printed
        if checked:
            assert sorted(tmp_path.iterdir()) == [source]
            return checked, printed, None
        return checked, printed, (out / "odd.csv").read_bytes()

    return run_on


def cells(written, column, delimiter=",", encoding="utf-8"):
    rows = csv.DictReader(written.decode(encoding).splitlines(), delimiter=delimiter)
    return [row[column] for row in rows]


REFUSED = {
    "header only": ("id,age\n", "has no rows; give it at least one"),
    "header without a line end": ("id,age", "has no rows; give it at least one"),
    "blank lines": ("\n\n\n", "has no rows; give it a header line"),
    "nothing": ("", "is empty; give it a header line and rows"),
    "ids twice": ("id,age\n" + lines(lambda k: f"{k // 2},{k}"), "15 ids occur more than once"),
    "a column twice": ("id,a,a\n1,2,3\n", "column 'a' occurs more than once"),
    "all cells empty": ("id,a,b\n1,,\n2,,\n", "each is empty, free text or labels"),
    "one row without a value": ("id,a\n1,\n", "each is empty, free text or labels"),
    "words among numbers": (
        "id,a\n" + lines(lambda k: f"{k},{'abc' if k == 4 else k}"),
        "holds text in 1 of 30 rows (the first is line 6)",
    ),
    "a short line": ("id,a,b\n1,2,3\n4,5\n", "line 3 has 2 fields, the header has 3"),
    "an open quote": ('id,a\n1,"open\n2,x\n', "a quote is opened but not closed"),
    "a number beyond all": (
        "id,a\n" + lines(lambda k: f"{k},{'1e400' if k == 3 else k}"),
        "holds infinite values",
    ),
    "spaces between fields": ("id a b\n1 2 3\n2 3 4\n", "say what (--delimiter space)"),
    "a comma of two meanings": ('id,a\n1,"1,234"\n2,\n', "may be a decimal or a thousands mark"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_files_without_sense_are_refused_in_a_sentence(complete, case):
    content, words = REFUSED[case]
    code, printed, _ = complete(content)
    assert code == 2
    first, second = printed.splitlines()  # one of check, one of complete
    assert first == second
    assert words in first


def test_another_encoding_is_refused_and_then_named(complete):
    content = "id,name,x\n" + lines(lambda k: f"{k},{'Zoë' if k % 2 else 'Ada'},{hole(k, k)}")
    code, printed, _ = complete(content, encoding="cp1252")
    assert code == 2
    assert "line 3 is not UTF-8 text" in printed
    options = ("--id", "id", "--encoding", "cp1252")
    _, _, written = complete(content, *options, encoding="cp1252")
    assert "Zoë" in cells(written, "name", encoding="cp1252")


def test_decimal_commas_between_semicolons_are_kept(complete):
    _, printed, written = complete(
        "id;größe\n" + lines(lambda k: f"{k};{hole(k, f'1.{100 + k},25')}")
    )
    assert "read with a decimal comma and thousands point" in printed
    assert cells(written, "größe", ";")[:3] == ["1.115,25", "1.101,25", "1.102,25"]


def test_a_byte_order_mark_stays_and_is_no_part_of_a_name(complete):
    _, _, written = complete("\ufeffid,age\n" + lines(lambda k: f"{k},{hole(k, k)}"))
    assert written.startswith("\ufeffid,age\n0,15\n".encode())


def test_an_empty_column_and_an_empty_row_are_told(complete):
    content = "id,age,nothing\n" + lines(lambda k: f"{k},{k},") + "99,,\n"
    _, printed, written = complete(content)
    assert "odd: 31 rows, 1 without a value" in printed
    assert "odd: 1 cell will be filled, 1 whole row among them" in printed
    assert "column 'nothing' has no value in any row" in printed
    assert written.endswith((b"99,14,\n", b"99,15,\n"))


def test_names_may_be_in_any_script(complete):
    content = "id,имя,年齢\n" + lines(lambda k: f"{k},{['Ада', 'Zoë'][k % 2]},{hole(k, k)}")
    _, printed, written = complete(content)
    assert "年齢" in printed
    assert cells(written, "имя")[:2] == ["Ада", "Zoë"]


def test_more_digits_than_a_number_keeps_are_labels(complete):
    """Read as floats they would all be one number, and be filled with it."""
    content = "id,account,x\n" + lines(
        lambda k: f"{10**19 + k},{hole(k, 10**22 + k, 4)},{hole(k, k)}"
    )
    _, printed, written = complete(content)
    assert "22 different labels (more digits than a number keeps)" in printed
    assert cells(written, "account")[:2] == ["", str(10**22 + 1)]
    assert cells(written, "id")[1] == str(10**19 + 1)


def test_leading_zeros_stay(complete):
    content = "id,zip,x\n" + lines(lambda k: f"{k:05d},{37 * k % 990:05d},{hole(k, k)}")
    _, printed, written = complete(content)
    assert "labels (leading zeros)" in printed
    assert written.decode().splitlines()[2] == "00001,00037,1"


def test_dates_in_two_formats_are_told(complete):
    def day(k):
        return f"2020-01-{k % 28 + 1:02d}" if k % 2 else f"{k % 28 + 1:02d}.01.2020"

    content = "id,day,x\n" + lines(lambda k: f"{k},{day(k)},{hole(k, k)}")
    _, printed, written = complete(content)
    assert "holds dates in several formats and is read as text" in printed
    assert cells(written, "day")[:2] == [day(0), day(1)]


def test_numbers_with_several_units_are_told(complete):
    units = ["mg", "g", "kg"]
    content = "id,mass,price,x\n" + lines(
        lambda k: f"{k},{k} {units[k % 3]},{'€$'[k % 2]}{k}.50,{hole(k, k)}"
    )
    _, printed, _ = complete(content)
    for column in ("mass", "price"):
        assert f"column {column!r} holds numbers with signs, several units or spaces" in printed


@pytest.mark.parametrize(
    ("form", "read"),
    [
        ("€{:,.2f}", "the unit '€', a decimal point and thousands comma"),
        ("{:.1f} %", "the unit '%', a decimal point"),
        ("$ {:.0f}", "the unit '$', a decimal point"),
    ],
)
def test_numbers_with_one_unit_are_filled_with_it(complete, form, read):
    def cell(k):
        return '"' + form.format(1000 + 37 * k % 990) + '"'

    content = "id,x,amount\n" + lines(lambda k: f"{k},{1000 + 37 * k % 990},{hole(k, cell(k))}", 60)
    _, printed, written = complete(content)
    assert f"column 'amount': numbers were read with {read}" in printed
    before, after = form.split("{")[0], form.split("}")[1]
    for k, text in enumerate(cells(written, "amount")):
        assert text.startswith(before)
        assert text.endswith(after)
        amount = float(text.removeprefix(before).removesuffix(after).replace(",", ""))
        assert 1000 <= amount < 1990
        assert text == cell(k).strip('"') or not hole(k, "known")


def test_truth_in_several_spellings_is_told(complete):
    words = ["true", "yes", "1", "T", "false", "no", "0", "F", ""]
    content = "id,a,b,x\n" + lines(
        lambda k: f"{k},{words[k % 9]},{['yes', 'no', 'Yes', ''][k % 4]},{k}", 90
    )
    _, printed, _ = complete(content)
    assert "column 'a' spells yes and no in 8 ways" in printed
    assert "column 'b' has 2 categories that differ only in case or spaces" in printed


def test_one_row_and_a_full_table_are_written_as_they_are(complete):
    for content in ("id,age\n1,5\n",):
        code, printed, written = complete(content)
        assert (code, written) == (0, content.encode())
        assert "nothing is missing: the tables would be written as they are" in printed
