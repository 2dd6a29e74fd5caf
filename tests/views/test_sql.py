import sqlite3
import sys
import uuid
from contextlib import closing
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from cofill.errors import DataError, InputError, SettingError
from cofill.views import _sql
from cofill.views._frames import to_table
from cofill.views._sources import read_views
from cofill.views._sql import _unified, read_sql, values_to_arrow, write_sql
from cofill.views._sql_connection import safe_label

pytest.importorskip("sqlalchemy")

NAN = float("nan")
PASSWORD, SECRET = "geheim77", "zz-Kowalski"

LABELS = [
    (
        f"postgresql://ada:{PASSWORD}@db.example:5433/ward#lab",
        "postgresql://ada@db.example:5433/ward#lab",
    ),
    (f"postgresql://ada:{PASSWORD}@h/ward#public.lab", "postgresql://ada@h/ward#public.lab"),
    (f"postgresql+psycopg://ada:{PASSWORD}@h/w#t", "postgresql://ada@h/w#t"),
    (f"postgresql://h/w?user=ada&password={PASSWORD}#t", "postgresql://h/w#t"),
    (
        f"postgresql://u:{PASSWORD}@h/w#SELECT * FROM t WHERE n = '{SECRET}'",
        "postgresql://u@h/w#(query)",
    ),
    (f"postgresql://u:{PASSWORD}@h/w#SELECT\n1 # 2 AS x", "postgresql://u@h/w#(query)"),
    (f"postgresql://u:{PASSWORD}@h/w", "postgresql://u@h/w"),
    (f"postgresql://u:{PASSWORD}#{PASSWORD}@h/w#t", "postgresql://u@h/w#t"),
    (f"postgresql://u:{PASSWORD}/{PASSWORD}@h/w#t", "postgresql://u@h/w#t"),
    # A password that is not escaped cannot be told from a host: nothing is shown.
    (f"postgresql://u:{PASSWORD}@{PASSWORD}@h/w#t", "postgresql://…"),
    (f"postgresql://u:{PASSWORD}@{PASSWORD}/x@h/w#t", "postgresql://…"),
    (f"postgresql://u:my {PASSWORD}@h/w#t", "postgresql://…"),
    (f"postgresql://u:{PASSWORD}", "postgresql://…"),
    ("postgresql://[::1]:5433/w#t", "postgresql://[::1]:5433/w#t"),
    ("sqlite:///ward/my lab.db#results", "sqlite:///ward/my lab.db#results"),
    ("sqlite:////home/a@b/lab.db#t", "sqlite:////home/a@b/lab.db#t"),
]


@pytest.mark.parametrize(("text", "label"), LABELS)
def test_labels_show_neither_password_nor_query(text, label):
    assert safe_label(text) == label
    assert PASSWORD not in label


@pytest.fixture
def lite(tmp_path):
    """An SQLite database with the tables the tests read; returns its URL."""
    path = tmp_path / "lab.db"
    with closing(sqlite3.connect(path)) as base, base:
        base.execute(
            "CREATE TABLE results (id BIGINT, n INTEGER, x REAL, flag BOOLEAN, s TEXT, gap TEXT)"
        )
        base.executemany(
            "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?)",
            [
                (2, 5, 1.5, True, "a", None),
                (1, None, None, None, None, None),
                (3, 7, 2, 0, "b", None),
            ],
        )
        base.execute('CREATE TABLE "odd ""name""; DROP TABLE results" (id INTEGER, "50%" REAL)')
        base.execute("CREATE VIEW seen AS SELECT id, x FROM results")
        base.execute("CREATE TABLE barren (id INTEGER, x REAL)")
        base.execute("CREATE TABLE loose (id INTEGER, x)")
        base.executemany("INSERT INTO loose VALUES (?, ?)", [(1, 2), (2, 2.5), (3, SECRET), (4, 1)])
    return f"sqlite:///{path}"


@pytest.fixture(scope="session")
def ward(postgres):
    """The same in PostgreSQL."""
    with postgres.connect() as base:
        base.execute("CREATE SCHEMA care")
        base.execute(
            "CREATE TABLE results (id bigint, n integer, x double precision, flag boolean, s text, "
            "gap text)"
        )
        rows = (
            "(2, 5, 1.5, true, 'a', null), (1, null, null, null, null, null), "
            "(3, 7, 2, false, 'b', null)"
        )
        base.execute(f"INSERT INTO results VALUES {rows}")
        base.execute(
            "CREATE TABLE care.visits (id uuid, cost numeric(10, 2), size smallint, r real, "
            "code varchar(3), fixed char(3), seen date)"
        )
        base.execute(
            "INSERT INTO care.visits VALUES "
            "('00000000-0000-0000-0000-000000000001', 12.25, 3, 0.5, 'abc', 'x', '2020-01-31'), "
            "('00000000-0000-0000-0000-000000000002', null, null, null, null, null, null)"
        )
        base.execute('CREATE TABLE "Mixed 50%" (id int, "a%b" int)')
        base.execute("CREATE TABLE spaced (id int, doc jsonb)")
        base.execute("""INSERT INTO spaced VALUES (1, '{"a": 1}')""")
        base.execute("CREATE TABLE words (id int, w text)")
        base.execute(f"INSERT INTO words VALUES (1, '{SECRET}')")
    return postgres


RESULTS = {
    "id": [2, 1, 3],
    "n": [5, None, 7],
    "x": [1.5, None, 2.0],
    "flag": [True, None, False],
    "s": ["a", None, "b"],
    "gap": [None, None, None],
}
TYPES = [pa.int64(), pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.null()]


@pytest.mark.parametrize("target", ["results", "main.results"])
def test_sqlite_tables_have_types_and_nulls(lite, target):
    table = read_sql(f"{lite}#{target}")
    assert table.to_pydict() == RESULTS
    assert table.schema.types == TYPES


@pytest.mark.parametrize("target", ["results", "public.results", "SELECT * FROM results"])
def test_postgresql_tables_have_types_and_nulls(ward, target):
    table = read_sql(ward.url(target))
    assert table.to_pydict() == RESULTS
    assert table.schema.types == TYPES


def test_postgresql_types(ward):
    table = read_sql(ward.url("care.visits"))
    assert table.to_pydict() == {
        "id": [str(uuid.UUID(int=1)), str(uuid.UUID(int=2))],
        "cost": [12.25, None],
        "size": [3, None],
        "r": [0.5, None],
        "code": ["abc", None],
        "fixed": ["x  ", None],
        "seen": [date(2020, 1, 31), None],
    }
    assert table.schema.types[1:4] == [pa.decimal128(4, 2), pa.int64(), pa.float64()]


@pytest.mark.parametrize("driver", ["postgresql", "postgres", "postgresql+psycopg"])
def test_postgresql_urls_mean_psycopg_3(ward, driver):
    assert read_sql(ward.url("results").replace("postgresql", driver, 1)).num_rows == 3


def test_postgresql_through_a_socket(ward):
    url = f"postgresql://{ward.user}:{ward.password}@/postgres?host={ward.folder}&port={ward.port}"
    assert read_sql(f"{url}#results").num_rows == 3


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT id, x + 1 AS y FROM results WHERE id > 1 ORDER BY id",
            {"id": [2, 3], "y": [2.5, 3.0]},
        ),
        ("SELECT s FROM results WHERE s LIKE 'a%'", {"s": ["a"]}),
        ("SELECT ' :not_a_parameter' AS s", {"s": [" :not_a_parameter"]}),
        ("WITH r AS (SELECT id FROM results) SELECT count(*) AS n FROM r", {"n": [3]}),
        ("SELECT id FROM results WHERE id = 9", {"id": []}),
    ],
)
@pytest.mark.parametrize("base", ["lite", "ward"])
def test_queries(base, query, expected, request):
    place = request.getfixturevalue(base)
    text = f"{place}#{query}" if isinstance(place, str) else place.url(query)
    assert read_sql(text).to_pydict() == expected


def test_a_view_of_a_database_is_a_view(lite, ward):
    here = read_views({"lab": f"{lite}#results"}, id="id", ignore=["gap"])
    there = read_views({"lab": ward.url("results")}, id="id", ignore=["gap"])
    assert here.same_as(there)
    assert here["lab"].feature_names == ("n", "x", "flag", "s")
    assert read_views({"lab": f"{lite}#seen"}, id="id")["lab"].ids.tolist() == [2, 3]


def test_an_empty_table_is_refused_by_name(lite):
    with pytest.raises(DataError, match=r"lab\.db#barren has no rows"):
        read_views({"lab": f"{lite}#barren"}, id="id")


def test_text_in_a_number_column_is_found(lite):
    with pytest.raises(
        DataError, match=r"holds text in 1 of 4 rows \(the first is row 3\)"
    ) as caught:
        read_views({"lab": f"{lite}#loose"}, id="id")
    assert SECRET not in str(caught.value)


def test_many_rows_arrive_in_chunks(ward):
    query = (
        "SELECT i AS id, i * 0.5 AS half, CASE WHEN i > 15000 THEN i END AS late, "
        "CASE WHEN i > 15000 THEN 'x' END AS text FROM generate_series(1, 25000) AS i"
    )
    table = read_sql(ward.url(query))
    assert pa.types.is_decimal(table.schema.types[1])
    assert table.schema.types[::2] == [pa.int64(), pa.int64()]
    assert table.schema.types[3] == pa.string()
    ids = np.arange(1, 25_001)
    np.testing.assert_array_equal(table.column("id").to_numpy(), ids)
    np.testing.assert_array_equal(table.column("half").cast(pa.float64()).to_numpy(), ids / 2)
    assert table.column("late").null_count == table.column("text").null_count == 15_000
    assert table.column("id").num_chunks == 3


CHUNKS = {
    "whole numbers": ([[1, None], [3]], pa.int64(), [1, None, 3]),
    "then floats": ([[1, 2], [2.5]], pa.float64(), [1.0, 2.0, 2.5]),
    "mixed at once": ([[1, 2.5, None]], pa.float64(), [1.0, 2.5, None]),
    "decimals": (
        [[Decimal("1.5"), None], [Decimal("20")]],
        pa.decimal128(3, 1),
        [Decimal("1.5"), None, Decimal(20)],
    ),
    "decimals then floats": ([[Decimal("1.5")], [2.0]], pa.float64(), [1.5, 2.0]),
    "many digits": ([[Decimal(10) ** 30], [Decimal("1e-30")]], pa.float64(), [1e30, 1e-30]),
    "long decimals": ([[Decimal("1e100")]], pa.float64(), [1e100]),
    "beyond 64 bits": ([[2**70], [1]], pa.float64(), [float(2**70), 1.0]),
    "null then text": ([[None, None], ["a"]], pa.string(), [None, None, "a"]),
    "text then null": ([["a"], [None]], pa.string(), ["a", None]),
    "all null": ([[None], [None]], pa.null(), [None, None]),
    "truth values": ([[True, None], [False]], pa.bool_(), [True, None, False]),
    "number then text": ([[7], ["x"]], pa.string(), ["7", "x"]),
    "number and text": ([[7, "x", None]], pa.string(), ["7", "x", None]),
    "dates": ([[date(2020, 1, 1)], [None]], pa.date32(), [date(2020, 1, 1), None]),
    "bytes": ([[b"a"]], pa.binary(), [b"a"]),
    "nothing": ([], pa.null(), []),
}


@pytest.mark.parametrize(("chunks", "kind", "expected"), CHUNKS.values(), ids=CHUNKS)
def test_types_are_joined_over_chunks(chunks, kind, expected):
    column = _unified([values_to_arrow(c, "here") for c in chunks], "here")
    assert column.type == kind
    assert column.to_pylist() == expected


@pytest.mark.parametrize(
    "chunks", [[[date(2020, 1, 1)], [SECRET]], [[{SECRET: 1}]], [[date.min, b"a"]]]
)
def test_columns_without_a_type_are_refused(chunks):
    with pytest.raises(DataError, match="cast it in a query") as caught:
        _unified([values_to_arrow(c, "here") for c in chunks], "here")
    assert SECRET not in str(caught.value)


BAD_READS = {
    "lite": {
        "no table named": ("", SettingError, "names a database but no table in it; add #table"),
        "only a hash": ("#", SettingError, "add #table"),
        "no such table": ("#result", DataError, "no such table; did you mean 'results'?"),
        "other case": ("#LOOSEN", DataError, "did you mean 'loose'?"),
        "nothing like it": ("#qqq", DataError, "there is 'barren', 'loose', "),
        "injection": ("#results;DROP/**/TABLE/**/results", DataError, "there is no such table"),
        "wrong schema": ("#care.results", DataError, "no such table; did you mean 'results'?"),
        "wrong column": ("#SELECT nonsense FROM results", DataError, "no such column: nonsense"),
        "wrong syntax": (
            f"#SELECT * FORM results WHERE s='{SECRET}'",
            DataError,
            'near "FORM": syntax error',
        ),
        "open literal": (
            f"#SELECT * FROM results WHERE s = '{SECRET}",
            DataError,
            "unrecognized token",
        ),
        "two statements": ("#SELECT 1; DROP TABLE results", DataError, "one statement at a time"),
        "writing": ("#DELETE FROM results WHERE id > 0", DataError, "readonly database"),
        "dropping": ("#DROP TABLE results", DataError, "this could not be read"),
        "no result": ("#PRAGMA query_only = OFF", DataError, "returns no table; give a SELECT"),
    },
    "ward": {
        "no table named": ("", SettingError, "names a database but no table in it; add #table"),
        "no such table": ("result", DataError, "no such table; did you mean 'results'?"),
        "other schema": ("visits", DataError, "did you mean 'care.visits'?"),
        "no such schema": ("cares.visits", DataError, "did you mean 'care.visits'?"),
        "injection": ('results";DROP/**/TABLE/**/results;--', DataError, "there is no such table"),
        "wrong column": (
            "SELECT nonsense FROM results",
            DataError,
            'column "nonsense" does not exist',
        ),
        "wrong table": ("SELECT * FROM nowhere", DataError, 'relation "nowhere" does not exist'),
        "wrong syntax": (
            f"SELECT * FORM results WHERE s='{SECRET}'",
            DataError,
            'syntax error at or near "FORM"',
        ),
        "near a literal": (f"SELECT 'a' '{SECRET}' FROM results", DataError, "syntax error"),
        "a cell in the reason": (
            "SELECT w::int AS n FROM words",
            DataError,
            "invalid text representation",
        ),
        "late fault": (
            "SELECT 1 / (i - 12000) AS x FROM generate_series(1, 20000) i",
            DataError,
            "division by zero",
        ),
        "two statements": ("SELECT 1; DROP TABLE results", DataError, "multiple commands"),
        "writing": ("DELETE FROM results WHERE id > 0", DataError, "this could not be read"),
        "writing inside": (
            "SELECT setval('s', 1) FROM lastval() AS s",
            DataError,
            "this could not be read",
        ),
        "odd type": ("SELECT doc FROM spaced", DataError, "column 'doc' holds values of type dict"),
    },
}


@pytest.mark.parametrize(
    ("base", "case"), [(base, case) for base, cases in BAD_READS.items() for case in cases]
)
def test_a_bad_read_is_refused_in_one_sentence(base, case, request):
    target, error, words = BAD_READS[base][case]
    place = request.getfixturevalue(base)
    text = f"{place}{target}" if isinstance(place, str) else place.url(target)
    whole = place + "#results" if isinstance(place, str) else place.url("results")
    with pytest.raises(error) as caught:
        read_sql(text)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert SECRET not in message
    if base == "ward":
        assert place.password not in message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert read_sql(whole).num_rows == 3, "reading has changed the database"


def test_reading_cannot_write(ward):
    with ward.connect() as base:
        base.execute("CREATE TABLE IF NOT EXISTS counted (id int)")
        base.execute(
            "CREATE OR REPLACE FUNCTION sneak() RETURNS int LANGUAGE sql AS "
            "'INSERT INTO counted VALUES (1) RETURNING id'"
        )
    with pytest.raises(DataError, match="read-only transaction"):
        read_sql(ward.url("SELECT sneak() AS x"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"password": PASSWORD}, "the user or the password was refused"),
        ({"database": "wards"}, "there is no such database; check its name"),
    ],
)
def test_a_refused_login_shows_no_password(ward, change, words):
    with pytest.raises(DataError) as caught:
        read_sql(ward.url("results", **change))
    message = str(caught.value)
    assert words in message
    assert f"127.0.0.1:{ward.port}/" in message
    assert PASSWORD not in message
    assert ward.password not in message


@pytest.mark.parametrize(
    ("url", "error", "words"),
    [
        (f"postgresql://u:{PASSWORD}@127.0.0.1:1/w#t", DataError, "nothing answers at this host"),
        (f"postgresql://u:{PASSWORD}@nowhere.invalid/w#t", DataError, "the host is not known"),
        (f"postgresql://u:{PASSWORD}@/w?host=/nowhere#t", DataError, "no server at this socket"),
        (f"postgresql://u:{PASSWORD}@{PASSWORD}@h/w#t", SettingError, "%40 for @"),
        (f"nosuchdb://u:{PASSWORD}@h/w#t", SettingError, "'nosuchdb' are not known"),
        ("sqlite://#t", SettingError, "name the database's file"),
        ("sqlite:///:memory:#t", SettingError, "name the database's file"),
        ("sqlite:////nowhere/lab.db#t", DataError, "there is no such database file"),
        ("sqlite:////tmp#t", DataError, "the database is a folder"),
    ],
)
def test_a_database_that_cannot_be_reached_is_named_without_its_password(url, error, words):
    with pytest.raises(error) as caught:
        read_sql(url)
    assert words in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_sqlite_file_is_not_made(tmp_path):
    with pytest.raises(DataError, match="no such database file"):
        read_sql(f"sqlite:///{tmp_path}/lab.db#t")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "lab.db").write_text(f"id,x\n{SECRET},1\n" * 100)
    with pytest.raises(DataError, match="file is not a database") as caught:
        read_sql(f"sqlite:///{tmp_path}/lab.db#t")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "call", [lambda: read_sql("sqlite:///a.db#t"), lambda: write_sql({}, "sqlite:///a.db")]
)
def test_without_sqlalchemy_the_extra_is_named(monkeypatch, call):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(SettingError) as caught:
        call()
    assert str(caught.value) == "reading databases needs the extra 'sql': pip install 'cofill[sql]'"


def test_without_psycopg_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SettingError, match="needs the extra 'sql'"):
        read_sql(f"postgresql://u:{PASSWORD}@h/w#t")


WRITTEN = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int32()),
        "x": [0.1, NAN, None],
        "r": pa.array([0.5, None, 2.0], pa.float32()),
        "flag": [True, None, False],
        "s": ["a\n\\.\n,\"'", "", None],
        "grade": pa.array(["low", None, "high"]).dictionary_encode(),
        'odd "name" 50%; --': pa.array(["ö", "\t", "\\N"], pa.large_string()),
        "gap": pa.nulls(3),
    }
)
READ = {
    **WRITTEN.to_pydict(),
    "x": [0.1, None, None],
}
SQL_TYPES = [
    "BIGINT",
    "DOUBLE PRECISION",
    "DOUBLE PRECISION",
    "BOOLEAN",
    "TEXT",
    "TEXT",
    "TEXT",
    "TEXT",
]


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request, tmp_path):
    """A database to write to: its URL and a way to list its tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/out.db"
    server = request.getfixturevalue("postgres")
    name = f"out_{uuid.uuid4().hex[:12]}"
    with server.connect() as base:
        base.execute(f"CREATE DATABASE {name}")
    return server.url(database=name)


def tables_of(url):
    from sqlalchemy import create_engine, inspect, pool

    engine = create_engine(
        url.replace("postgresql:", "postgresql+psycopg:"), poolclass=pool.NullPool
    )
    with engine.connect() as connection:
        inspector = inspect(connection)
        return {
            name: [c["type"].compile(engine.dialect) for c in inspector.get_columns(name)]
            for name in inspector.get_table_names()
        }


def test_decimals_dates_and_times_are_written(target):
    moments = [datetime(2020, 1, 1, 12), None]
    table = pa.table(
        {
            "money": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
            "day": pa.array([date(2020, 1, 1), None]),
            "moment": pa.array(moments, pa.timestamp("ns")),
            "time": pa.array([time(10, 30), None]),
        }
    )
    write_sql({"t": table}, target)
    back = read_sql(f"{target}#t")
    if target.startswith("sqlite"):
        expected = [[1.5], ["2020-01-01"], ["2020-01-01 12:00:00"], ["10:30:00"]]
    else:
        expected = [[Decimal("1.50")], [date(2020, 1, 1)], moments[:1], [time(10, 30)]]
    assert [c.to_pylist() for c in back.columns] == [[*values, None] for values in expected]


def test_written_tables_are_read_back(target):
    write_sql({"lab": WRITTEN, 'odd "t"; 5%': WRITTEN.select(["id", "s"]).slice(1)}, target)
    back = read_sql(f"{target}#lab")
    assert back.to_pydict() == READ
    assert back.schema.types == [
        *(pa.int64(), pa.float64(), pa.float64(), pa.bool_()),
        *(pa.string(), pa.string(), pa.string(), pa.null()),
    ]
    made = tables_of(target)
    plain = [t.replace("DOUBLE PRECISION", "DOUBLE") for t in SQL_TYPES]
    assert [t.replace("DOUBLE PRECISION", "DOUBLE") for t in made["lab"]] == plain
    assert list(made) == ["lab", 'odd "t"; 5%']
    odd = read_sql(f'{target}#SELECT id FROM "odd ""t""; 5%" ORDER BY id')
    assert odd.to_pydict() == {"id": [2, 3]}


def test_a_name_in_use_stops_the_whole_write(target):
    write_sql({"lab": WRITTEN}, target)
    with pytest.raises(DataError, match="table 'lab' exists already and is left as it is"):
        write_sql({"clinic": WRITTEN, "lab": WRITTEN.slice(1)}, target)
    assert list(tables_of(target)) == ["lab"]
    assert read_sql(f"{target}#lab").num_rows == 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, MemoryError])
def test_an_interrupted_write_leaves_nothing(target, error, monkeypatch):
    insert = _sql._insert

    def stop(connection, made, table):
        insert(connection, made, table)
        if made.name == "lab":
            raise error

    monkeypatch.setattr(_sql, "_insert", stop)
    with pytest.raises(error):
        write_sql({"clinic": WRITTEN, "lab": WRITTEN}, target)
    assert tables_of(target) == {}


def test_a_refused_cell_leaves_nothing(postgres, target):
    bad = pa.table({"id": [1, 2], "s": ["a", f"{SECRET}\0"]})
    if target.startswith("sqlite"):
        bad = pa.table({"a": [1], "A": [SECRET]})  # one name to SQLite
    with pytest.raises(DataError, match="the tables were not written") as caught:
        write_sql({"clinic": WRITTEN, "lab": bad}, target)
    assert SECRET not in str(caught.value)
    assert postgres.password not in str(caught.value)
    assert tables_of(target) == {}


def test_a_failed_write_makes_no_sqlite_file(tmp_path):
    with pytest.raises(DataError):
        write_sql({"lab": pa.table({"a": [1], "A": [2]})}, f"sqlite:///{tmp_path}/out.db")
    assert list(tmp_path.iterdir()) == []


def test_a_hundred_thousand_rows_arrive(target):
    n = 100_000
    numbers = np.random.default_rng(0).normal(size=n)
    table = pa.table({"id": np.arange(n), "x": numbers, "s": np.char.mod("w%d", np.arange(n) % 7)})
    write_sql({"lab": table}, target)
    back = read_sql(f"{target}#lab").sort_by("id").combine_chunks()
    assert back.equals(table.combine_chunks())


def test_tables_go_to_the_schema_asked_for(postgres):
    with postgres.connect() as base:
        base.execute("CREATE SCHEMA results_of_ours")
    write_sql({"lab": WRITTEN}, postgres.url(), schema="results_of_ours")
    assert read_sql(postgres.url("results_of_ours.lab")).to_pydict() == READ
    with pytest.raises(DataError, match="exists already"):
        write_sql({"lab": WRITTEN}, postgres.url(), schema="results_of_ours")


@pytest.mark.parametrize(
    ("tables", "url", "error", "words"),
    [
        ({"t": WRITTEN}, "sqlite:///out.db#t", SettingError, "give the database alone"),
        ({"t": WRITTEN}, "sqlite:////nowhere/at/all/out.db", DataError, "there is no folder"),
        (
            {"t": pa.table({"d": pa.array([1], pa.duration("s"))})},
            "sqlite:///out.db",
            DataError,
            "'d' of type duration[s]",
        ),
        ({"": WRITTEN}, "sqlite:///out.db", DataError, "must have 1 to"),
        ({"t": WRITTEN}, f"postgresql://u:{PASSWORD}@127.0.0.1:1/w", DataError, "nothing answers"),
    ],
)
def test_a_bad_write_is_refused(tables, url, error, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as caught:
        write_sql(tables, url)
    assert isinstance(caught.value, InputError)
    assert words in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_name_too_long_for_postgresql_is_not_cut(postgres):
    with pytest.raises(DataError, match="must have 1 to 63 bytes; shorten it"):
        write_sql({"lab": pa.table({"ö" * 40: [1]})}, postgres.url())


def test_a_completed_view_survives_the_database(target, lite):
    view = read_views({"lab": f"{lite}#results"}, id="id", ignore=["gap"])["lab"]
    write_sql({"lab": to_table(view)}, target)
    assert read_views({"lab": f"{target}#lab"}, id="id")["lab"].same_as(view)
