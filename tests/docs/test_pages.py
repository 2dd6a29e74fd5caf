"""The pages cover every package, show what records and code hold, and their code runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cofill

from .conftest import DOCS, blocks, joined, pages

PACKAGE = Path(cofill.__file__).parent
ROOT = DOCS.parent
TUTORIAL = [DOCS / "tutorial" / f"{name}.md" for name in ("tables", "federation", "audit")]
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
NOT_PUBLIC = {"cli", "demo"}


def test_every_package_has_a_page_of_its_names():
    documented = {p.stem for p in (DOCS / "reference" / "api").glob("*.rst")}
    packages = {p.parent.name for p in PACKAGE.glob("*/__init__.py")}
    modules = {p.stem for p in PACKAGE.glob("[a-z]*.py")}
    missing = (packages | modules) - NOT_PUBLIC - documented
    assert missing == set(), "add docs/reference/api/NAME.rst for each"
    assert documented <= packages | modules
    for name in documented:
        text = (DOCS / "reference" / "api" / f"{name}.rst").read_text()
        assert f".. automodule:: cofill.{name}\n" in text


def test_pictures_show_what_the_records_hold():
    import pictures

    assert pictures.stale() == []
    shown = "".join(page.read_text(encoding="utf-8") for page in pages())
    assert all(f"pictures/{name}" in shown for name in pictures.WANTED)


def test_tables_of_packages_releases_and_strategies_come_from_the_code():
    import formats

    assert "| {doc}`views` | The data" in formats.packages()
    assert formats.packages().count("{doc}") == len(list((DOCS / "reference/api").glob("*.rst")))
    assert "| `codes` |" in formats.releases()
    assert "| `scaffold` |" in formats.strategies()


def test_pages_can_be_read_without_being_built():
    """What a mark stands for is in the file, and no mark starts a line of running text."""
    import bench.results

    marked = {page for page in (*pages(), ROOT / "README.md") if "<!--" in page.read_text()}
    assert marked == set(bench.results.PAGES), "add the page to bench.results"
    for page in marked:
        text = page.read_text(encoding="utf-8")
        rest = re.sub(r"<!-- begin ([\w-]+) -->\n.+?\n(?:> )?<!-- end \1 -->", "", text, flags=re.S)
        rest = re.sub(r"(?<=\S )<!-- value [^>]+ -->[\d.]+(?: %)?<!-- end -->", "", rest)
        assert "<!--" not in rest, page.name


def test_figures_in_sentences_come_from_records():
    import bench.results

    mark = "<!-- value growpu-mnist best/accuracy/noisy % -->{}<!-- end -->"
    filled = bench.results.fill_values(mark.format("12.3 %"))
    assert filled == bench.results.fill_values(mark.format(""))
    assert re.fullmatch(mark.format(r"\d\d\.\d %"), filled)


@pytest.mark.parametrize("page", TUTORIAL, ids=lambda p: p.stem)
def test_tutorials_have_commands(page):
    assert any(language == "console" for language, _, _ in blocks(page))


@pytest.mark.full
def test_the_tutorial_runs_as_printed(tmp_path):
    """All pages in order, in one empty folder, by the shell."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = os.environ | {"PATH": path, "COLUMNS": "100"}
    for page in TUTORIAL:
        for language, caption, text in blocks(page):
            if caption is not None:
                (tmp_path / caption).write_text(text, encoding="utf-8")
            elif language in ("console", "bash"):
                for line in joined(text):
                    process = subprocess.run(
                        ["bash", "-ec", line], cwd=tmp_path, env=environment,
                        capture_output=True, text=True, timeout=900, check=False,
                    )  # fmt: skip
                    output = process.stdout + process.stderr
                    assert process.returncode == 0, f"{page.name}: {line}\n{output}"


def test_pooled_draws_mend_what_best_guesses_distort(capsys):
    """The page's regression prints what the page shows, up to rounding by other libraries."""
    page = DOCS / "how-to" / "multiple-imputation.md"
    code = next(text for _, caption, text in blocks(page) if caption == "pool.py")
    exec(compile(code, "pool.py", "exec"), {"__name__": "pool"})
    printed = {line.split()[0]: line.split()[1::3] for line in capsys.readouterr().out.splitlines()}
    shown = next(text for _, _, text in blocks(page) if text.lstrip().startswith("all known"))
    for line in shown.splitlines()[1:]:
        name, *figures = line.split()
        whole, _, guessed, pooled = (float(f) for f in printed[name])
        expected = [float(f) for f in figures[::3]]
        assert [whole, guessed, pooled] == pytest.approx([expected[0], *expected[2:]], abs=1.5)
    whole, _, guessed, pooled = (float(f) for f in printed["bmi"])
    assert abs(pooled - whole) < 0.5 * abs(guessed - whole)


def test_kinds_are_told_as_the_page_shows(capsys):
    page = DOCS / "how-to" / "dates-and-kinds.md"
    code = next(text for _, caption, text in blocks(page) if caption == "kinds.py")
    exec(compile(code, "kinds.py", "exec"), {"__name__": "kinds"})
    shown = next(text for language, _, text in blocks(page) if language == "text")
    assert capsys.readouterr().out == shown


def test_every_how_to_is_in_the_index_and_its_links_lead_somewhere():
    index = (DOCS / "how-to" / "index.md").read_text(encoding="utf-8")
    for page in HOW_TO:
        text = page.read_text(encoding="utf-8")
        if page.stem != "index":
            assert f"\n{page.stem}\n" in index, page.name
            assert f"({page.name})" in index or f"{{doc}}`{page.stem}`" in index, page.name
        for target in re.findall(r"\]\(([^)#]+\.md)", text):
            assert (page.parent / target).is_file(), (page.name, target)


@pytest.mark.full
@pytest.mark.parametrize("page", HOW_TO, ids=lambda p: p.stem)
def test_how_to_python_runs(page):
    for language, _, text in blocks(page):
        if language == "python":
            process = subprocess.run(
                [sys.executable, "-c", text], capture_output=True, text=True, check=False
            )
            assert process.returncode == 0, f"{page.name}:\n{text}\n{process.stderr}"


@pytest.mark.full
def test_the_site_is_built_without_a_warning_and_fetches_nothing(tmp_path):
    process = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html",
         "-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "html")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    fetched = re.compile(r"""<(?:script|img|iframe|link)[^>]*(?:src|href)="(?:https?:)?//[^"]*""")
    for page in (tmp_path / "html").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert fetched.search(text) is None, page.name
        assert "<!-- value" not in text
        for equation in re.findall(r"<math.*?</math>", text, re.DOTALL):
            assert re.search(r"\\|Vert|merror", equation) is None, equation
    methods = (tmp_path / "html" / "explanation" / "methods.html").read_text(encoding="utf-8")
    written = (DOCS / "explanation" / "methods.md").read_text(encoding="utf-8").count("$$") // 2
    assert methods.count('display="block"') == written > 5
