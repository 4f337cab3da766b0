"""Files as people have them: decimal commas, codes for missing values, encodings, identifiers, text; and their plan."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braided import BraidedError
from braided.encode.encoder import Encoder
from braided.encode.number_form import PLAIN
from braided.encode.plan import ColumnPlan, Plan
from braided.records import Records, join
from braided.run import Job, RunOptions
from braided.streams import IterableStream, Rules, open_stream, read_whole, text_files


def looked_at(path: Path, content: str | bytes, /, **rules: Any) -> tuple[Records, Plan]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    stream: Any = open_stream(str(path), rules=Rules(**rules))
    read = read_whole(stream).table
    assert stream.counts.plan is not None
    return read, stream.counts.plan


def column(plan: Plan, name: str) -> ColumnPlan:
    return next(column for column in plan.columns if column.name == name)


@pytest.mark.parametrize(
    ("text", "rules", "values"),
    [
        ("a;b;y\n1,5;2;u\n0,25;3;v\n", {}, [[1.5, 2], [0.25, 3]]),
        ("a;y\n1.234,5;u\n2,5;v\n", {"decimal": ",", "thousands": "."}, [[1234.5], [2.5]]),
        ("a;b;y\n1,5;1.234;u\n2,25;1.012.345;v\n", {"decimal": ",", "thousands": "."}, [[1.5, 1234], [2.25, 1012345]]),
        ("a\ty\n1 234,5\tu\n-2,5\tv\n", {"decimal": ",", "thousands": " "}, [[1234.5], [-2.5]]),
        ('a,y\n"1,234.5",u\n"12,345",v\n', {"thousands": ","}, [[1234.5], [12345]]),
        ('a,y\n"1,5",u\n"2,5",v\n', {"decimal": ","}, [[1.5], [2.5]]),
        ("a;y\n1,234;u\n2,345;v\n", {"decimal": ","}, [[1.234], [2.345]]),
        ("a;y\n1,234;u\n2,345;v\n", {"thousands": ","}, [[1234], [2345]]),
        ("a;when;y\n1,5;05.01.2024;u\n2,5;06.01.2024;v\n", {"dates": "drop"}, [[1.5], [2.5]]),
        ("a;y\n1,5;u\nNA;v\n2,5e3;u\n", {}, [[1.5], [np.nan], [2500]]),
        ("a;y\n1,5;u\n-99,90;v\n2,5;u\n", {"na": ("-99,9",)}, [[1.5], [np.nan], [2.5]]),
    ],
)
def test_numbers_of_other_spellings(text: str, rules: dict[str, Any], values: list[Any], tmp_path: Path) -> None:
    read, _ = looked_at(tmp_path / "d.csv", text, **rules)
    np.testing.assert_array_equal(read.values, values)


def test_what_is_not_sure_is_left_alone_with_a_hint(tmp_path: Path) -> None:
    read, plan = looked_at(tmp_path / "d.csv", "a;b;y\n1,5;1.5;u\n2,5;2.25;v\n")
    assert read.names == ("a=1,5", "a=2,5", "b")
    assert "looks like numbers, such as 1,5: give `decimal=','` for 1.5" in column(plan, "a").hint
    assert (plan.decimal, plan.notes) == (".", ())
    _, plan = looked_at(tmp_path / "d.csv", 'a,y\n"1,5",u\n"2,5",v\n')
    assert column(plan, "a").read_as == "category"
    _, plan = looked_at(tmp_path / "d.csv", "a;y\n1,5;u\n2,5;v\n")
    assert plan.notes == ("decimal commas, as the first records and the semicolons show; `decimal='.'` says otherwise",)


def test_a_later_number_of_another_spelling_is_no_other_number(tmp_path: Path) -> None:
    with pytest.raises(BraidedError, match=r"d.csv:602: column 'a' is '1.5': features must be numbers with decimal"):
        looked_at(tmp_path / "d.csv", "a;y\n" + "1,5;u\n" * 600 + "1.5;v\n")


def test_targets_are_spelled_in_the_same_way(tmp_path: Path) -> None:
    rows = "".join(f"{i},5;{2 * i},25\n" for i in range(60))
    (tmp_path / "d.csv").write_text("a;y\n" + rows)
    job = Job(RunOptions(stream=str(tmp_path / "d.csv"), models=("river-linear",)))
    assert job.options.task == "regression"
    assert job._first[:2] == ["0.25", "2.25"]


@pytest.mark.parametrize("block", [50, 2**20])
def test_blocks_do_not_matter(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a;b;when;note;y\n" + "".join(
        f"{i % 90},{i % 7};{-999 if i % 9 == 0 else i};{1 + i % 28:02}.03.2024;word{i % 5} of {i};{i % 2}\n"
        for i in range(1_200)
    )
    rules = {"na": ("b=-999",), "text": ("note",), "text_features": 8}
    whole, _ = looked_at(tmp_path / "d.csv", text, **rules)
    monkeypatch.setattr(text_files, "BLOCK", block)
    again, _ = looked_at(tmp_path / "d.csv", text.encode("utf-16"), **rules)
    assert whole.names == again.names
    np.testing.assert_array_equal(whole.values, again.values)
    folder = tmp_path / "parts"
    folder.mkdir()
    header, *lines = text.splitlines(keepends=True)
    for start in range(0, 1_200, 170):
        (folder / f"{start:04}.csv").write_text(header + "".join(lines[start : start + 170]))
    parts = read_whole(open_stream(str(folder), rules=Rules(**rules))).table
    np.testing.assert_array_equal(whole.values, parts.values)


@pytest.mark.parametrize("kind", ["d.csv", "d.jsonl"])
def test_codes_for_missing_values(kind: str, tmp_path: Path) -> None:
    records = [{"a": -999, "b": "-999", "c": "none given", "y": 0}, {"a": 1.5, "b": "2", "c": "red", "y": 1}]
    if kind == "d.csv":
        text = "a,b,c,y\n" + "".join(",".join(map(str, record.values())) + "\n" for record in records)
    else:
        text = "".join(json.dumps(record) + "\n" for record in records)
    read, plan = looked_at(tmp_path / kind, text, na=("a=-999.0", "c=none given"))
    assert read.names == ("a", "b", "c=red")
    np.testing.assert_array_equal(read.values, [[np.nan, -999, np.nan], [1.5, 2, 1]])
    assert [column(plan, name).missing for name in "abc"] == [1, 0, 1]
    read, _ = looked_at(tmp_path / kind, text, na=("-999", "=none given"))
    np.testing.assert_array_equal(read.values, [[np.nan, np.nan, np.nan], [1.5, 2, 1]])
    with pytest.raises(BraidedError, match="there is no column 'z': choose `na` from a, b, c, y"):
        looked_at(tmp_path / "d.csv", "a,b,c,y\n1,2,3,4\n", na=("z=1",))


def test_a_code_is_that_of_labels_only_if_it_names_them(tmp_path: Path) -> None:
    text = "a,b,y\n-1,true,-1\n1,false,1\n2,True,-1\n"
    read, _ = looked_at(tmp_path / "d.csv", text, na=("-1",))
    assert read.targets == [-1, 1, -1]
    np.testing.assert_array_equal(read.values[:, 0], [np.nan, 1, 2])
    read, _ = looked_at(tmp_path / "d.csv", text, na=("y=-1",), on_error="skip")
    assert (read.targets, read.values[:, 0].tolist()) == ([1], [1])
    read, _ = looked_at(tmp_path / "d.csv", text, na=("1",))
    np.testing.assert_array_equal(read.values, [[-1, 1], [np.nan, 0], [2, 1]])
    typed = Encoder(Rules(na=("1",))).encode_one({"a": True, "b": 1, "c": "true", "d": "1.0"})
    assert typed == {"a": 1.0, "c": 1.0}, "yes is no number"


def test_missing_values_are_counted(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b,y\n" + "1,-9,u\n,2,v\n3,,u\n" * 20)
    job = Job(RunOptions(stream=str(tmp_path / "d.csv"), models=("majority",), na=("b=-9",)))
    list(job.run())
    document = job.document()
    assert document["missing_values"] == 60
    assert [column["missing"] for column in document["plan"]["columns"]] == [20, 40]


def test_odd_columns_get_a_hint_and_no_guess(tmp_path: Path) -> None:
    rows = "".join(f"{i},{-999 if i % 10 == 0 else i % 13},{i % 13},{0 if i % 4 else 1},{i % 2}\n" for i in range(200))
    read, plan = looked_at(tmp_path / "d.csv", "number,coded,plain,flag,y\n" + rows)
    assert column(plan, "coded").hint == "-999 in 20 of 200 records: if it means missing, give `na=['coded=-999']`"
    assert column(plan, "number").hint.startswith("only counts up")
    assert column(plan, "plain").hint == column(plan, "flag").hint == ""
    assert read.names == ("number", "coded", "plain", "flag")
    assert (read.values[:, 1] == -999).sum() == 20


def test_hints_are_given_where_they_help(tmp_path: Path) -> None:
    rows = "".join(
        f"{(200, 404, 500)[i % 3]},{(1, 2, 9)[i % 3]},{1_709_300_000_000 + 61_000 * i},{1 + i % 28:02}.01.24,"
        f"{10 + i % 3}.12.{10 + i % 15},{i % 2}\n" for i in range(90)
    )  # fmt: skip
    _, plan = looked_at(tmp_path / "d.csv", "status,answer,at,day,version,y\n" + rows)
    hints = {column.name: column.hint for column in plan.columns}
    assert (hints["status"], hints["day"]) == ("", "")
    assert hints["answer"].startswith("9 in 30 of 90 records: if it means missing")
    assert hints["at"] == "looks like milliseconds since 1970: read as one number, which only counts up"
    assert hints["version"] == "if 10.12.10 is no date, give `category=['version']`"


def test_what_spreadsheets_write_for_missing_values_is_missing(tmp_path: Path) -> None:
    read, _ = looked_at(tmp_path / "d.csv", "a,b,y\n#N/A,red,0\n1.5,<NA>,1\n")
    assert read.names == ("a", "b=red")
    np.testing.assert_array_equal(read.values, [[np.nan, 1], [1.5, np.nan]])


def test_a_column_of_numbers_with_a_word_gets_a_hint(tmp_path: Path) -> None:
    rows = "".join(
        f"{'-' if i % 5 == 0 else i},{'unknown yet' if i % 5 == 0 else f'2024-01-{1 + i % 28:02}'},{i % 2}\n"
        for i in range(100)
    )
    _, plan = looked_at(tmp_path / "d.csv", "size,when,y\n" + rows)
    assert column(plan, "size").hint == "mostly numbers: if '-' means missing, give `na=['size=-']`"
    assert column(plan, "when").hint == "mostly dates: if 'unknown yet' means missing, give `na=['when=unknown yet']`"
    read, plan = looked_at(tmp_path / "d.csv", "size,when,y\n" + rows, na=("size=-", "when=unknown yet"), dates="age")
    assert read.names == ("size", "when.age")
    assert [column.missing for column in plan.columns] == [20, 20]
    many = "".join(f"{i % 7 if i % 5 else f'x{i % 50}'},{i % 2}\n" for i in range(200))
    _, plan = looked_at(tmp_path / "d.csv", "number,y\n" + many)
    assert column(plan, "number").hint == "", "no word stands out"


@pytest.mark.parametrize("word", ["n/d", "-", "pending", "0000-00-00"])
def test_a_rare_word_among_numbers_or_dates_gets_the_same_hint(word: str, tmp_path: Path) -> None:
    rows = "".join(
        f"{word if i % 20 == 7 else i / 4},{word if i % 20 == 9 else f'2024-01-{1 + i % 28:02}'},{i % 2}\n"
        for i in range(100)
    )
    told: list[str] = []
    message = rf"d.csv:9: column 'size' is '{word}': .*; `na=\['size={word}'\]` if it means that, `on_error='skip'` or"
    with pytest.raises(BraidedError, match=message):
        looked_at(tmp_path / "d.csv", "size,when,y\n" + rows, tell=told.append)
    assert f"hint: mostly numbers: if '{word}' means missing, give `na=['size={word}']`" in told[2]
    assert f"hint: mostly dates: if '{word}' means missing, give `na=['when={word}']`" in told[4]
    read, _ = looked_at(tmp_path / "d.csv", "size,when,y\n" + rows, na=(word,))
    assert np.isnan(read.values).any(axis=1).sum() == 10


def test_numbers_with_leading_zeros_may_be_codes(tmp_path: Path) -> None:
    _, plan = looked_at(tmp_path / "d.csv", "zip,month,y\n01067,01,u\n80331,12,v\n")
    assert column(plan, "zip").hint == (
        "read as numbers, so that 01067 is 1067: if it is a code, give `category=['zip']`"
    )  # fmt: skip
    assert column(plan, "month").hint == ""
    read, _ = looked_at(tmp_path / "d.csv", "zip,month,y\n01067,01,u\n80331,12,v\n", category=("zip",))
    assert read.names == ("zip=01067", "zip=80331", "month")


def test_identifiers_are_dropped_and_can_be_kept(tmp_path: Path) -> None:
    rows = "".join(f"c{i * 7919 % 100_003},{i % 5},{i % 2}\n" for i in range(900))
    text = "customer,size,y\n" + rows
    read, plan = looked_at(tmp_path / "d.csv", text)
    assert read.names == ("size",)
    dropped = column(plan, "customer")
    assert (dropped.read_as, dropped.note) == (
        "dropped", "500 different values in 500 records; `hashed=['customer']` keeps it"
    )  # fmt: skip
    read, plan = looked_at(tmp_path / "d.csv", text, hashed=("customer",), hash_buckets=16)
    assert {name for name in read.names if name != "size"} == {f"customer#{i}" for i in range(16)}
    assert column(plan, "customer").note == "hashed into 16 features"
    assert len(looked_at(tmp_path / "d.csv", text, categories="hash", hash_buckets=16)[0].names) == 17
    few, _ = looked_at(tmp_path / "d.csv", "customer,size,y\n" + "".join(rows.splitlines(keepends=True)[:20]))
    assert len(few.names) == 21, "twenty values say nothing"


DELIVERIES = Path(__file__).resolve().parents[2] / "docs" / "deliveries.csv"


def test_a_run_over_an_ordinary_file_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    options = RunOptions(
        stream=str(DELIVERIES), models=("olr",), na=("temperature=-999",), text=("note",), text_features=16,
        hashed=("customer",), hash_buckets=8, limit=1_200,
    )  # fmt: skip
    straight = Job(options)
    list(straight.run())
    steps = Job(options, checkpoint=tmp_path / "c", every=0.0).run()
    next(steps)
    steps.close()
    resumed = Job(options, checkpoint=tmp_path / "c", resume=True)
    list(resumed.run())
    assert resumed.finished[0].result["state_sha256"] == straight.finished[0].result["state_sha256"]
    first, second = straight.document(), resumed.document()
    assert (first["features"], first["missing_values"]) == (second["features"], second["missing_values"])
    assert first["plan"] == second["plan"]
    finished = Job(options, checkpoint=tmp_path / "c", resume=True)
    assert finished.document()["plan"] == first["plan"], "a run that is done reads nothing again"


def test_one_record_of_an_ordinary_file_is_encoded_as_in_its_stream() -> None:
    rules = Rules(na=("temperature=-999",), text=("note",), text_features=16, hashed=("customer",), hash_buckets=8)
    encoder = Encoder(rules)
    stream: Any = open_stream(str(DELIVERIES), rules=rules)
    with DELIVERIES.open() as file:
        records = list(csv.DictReader(file, delimiter=";"))
    batches = []
    for batch, _ in encoder.encode(stream.chunks(encoder)):
        batches.append(batch)
        if sum(map(len, batches)) >= 900:
            break
    n = sum(map(len, batches))
    state = json.loads(json.dumps(encoder.state()))
    later = join([batch for batch, _ in encoder.encode(stream.chunks(encoder))]).part(n, n + 30)
    again = Encoder.from_state(state)
    for i in range(30):
        values = dict(zip(later.names, later.values[i].tolist(), strict=True))
        known = {name: value for name, value in values.items() if not np.isnan(value)}
        assert again.encode_one(records[n + i]) == known


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "latin-1", "cp1252", "utf-8-sig", "utf-8"])
def test_encodings_are_recognised(encoding: str, tmp_path: Path) -> None:
    price = "12 \u20ac" if encoding != "latin-1" else "12 \u00a3"
    text = f"stra\u00dfe,preis,y\nM\u00fchlweg,{price},u\n\u00d6dweg,{price},v\n"
    content = (b"\xfe\xff" if encoding == "utf-16-be" else b"") + text.encode(encoding)
    read, plan = looked_at(tmp_path / "d.csv", content)
    assert read.names == ("stra\u00dfe=M\u00fchlweg", "stra\u00dfe=\u00d6dweg", f"preis={price}")
    usual = encoding.startswith("utf-8")
    assert bool(plan.notes) != usual
    given, plan = looked_at(tmp_path / "d.csv", content, encoding=encoding.removesuffix("-be"))
    assert (given.names, plan.notes) == (read.names, ())


def test_an_encoding_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BraidedError, match="`encoding` 'klingon' is not known"):
        Rules(encoding="klingon")
    with pytest.raises(BraidedError, match=r"d.csv: is not text in ascii after line 0 .*give another `encoding`"):
        looked_at(tmp_path / "d.csv", "a,y\n\u00e4,1\n", encoding="ascii")
    (tmp_path / "d.csv").write_bytes("a,y\n1,2\n".encode("utf-16"))
    with pytest.raises(BraidedError, match="text in utf-16 cannot be followed"):
        list(open_stream(str(tmp_path / "d.csv"), follow=True, idle=0.0).batches())


def test_a_followed_file_in_latin_1_goes_on(tmp_path: Path) -> None:
    live = tmp_path / "live.csv"
    lines = ["ort;gr\u00f6\u00dfe;art\n", *(f"K\u00f6ln {i % 3};{i % 20},5;{'ab'[i % 2]}\n" for i in range(300))]
    live.write_text("".join(lines), encoding="latin-1")
    expected = Job(RunOptions(stream=str(live), models=("olr",)))
    list(expected.run())
    live.unlink()
    for start, stop in ((0, 80), (80, 301)):
        with live.open("a", encoding="latin-1") as file:
            file.write("".join(lines[start:stop]))
        job = Job(
            RunOptions(stream=str(live), models=("olr",), follow=True, idle=0.0), checkpoint=tmp_path / "c", resume=True
        )
        list(job.run())
    assert job.finished[0].result["state_sha256"] == expected.finished[0].result["state_sha256"]
    assert job.document()["features"] == 4


def test_numbers_are_read_as_python_does_unless_they_are_spelled_otherwise() -> None:
    plain = Encoder()
    assert plain.form is PLAIN
    assert Encoder.from_state(plain.state()).form is PLAIN
    assert plain.encode_one({"a": "1e3", "b": " .5 "}) == {"a": 1000.0, "b": 0.5}
    commas = Encoder(Rules(decimal=",", thousands="."))
    assert commas.encode_one({"a": "1.234,5", "b": 2.5, "c": "true"}) == {"a": 1234.5, "b": 2.5, "c": 1.0}
    assert Encoder.from_state(json.loads(json.dumps(commas.state()))).encode_one({"a": "1,5"}) == {"a": 1.5}


@pytest.mark.parametrize(
    ("words", "unit", "values"),
    [
        (["$1,234.50", "-$5.25", "$0.5"], "$", [1234.5, -5.25, 0.5]),
        (["12.5 \u00b0C", "", "-3 \u00b0C"], "\u00b0C", [12.5, np.nan, -3]),
        (["47%", "5 %", "8"], "%", [47, 5, 8]),
        (["EUR 1.5", "EUR 20.25", "n/a"], "EUR", [1.5, 20.25, np.nan]),
        (["5kg", "7.5kg", "8kg"], "kg", [5, 7.5, 8]),
        (["3 \u00b5g/m\u00b3", "7 \u00b5g/m\u00b3", "9.25 \u00b5g/m\u00b3"], "\u00b5g/m\u00b3", [3, 7, 9.25]),
    ],
)
def test_numbers_with_a_unit_are_numbers(words: list[str], unit: str, values: list[float], tmp_path: Path) -> None:
    text = "a,y\n" + "".join(f'"{word}",{i % 2}\n' for i, word in enumerate(words * 6))
    spelled = {"thousands": ","} if "," in words[0] else {}
    _, plan = looked_at(tmp_path / "d.csv", text)
    some = ", ".join([word for word in words if word not in ("", "n/a")])
    assert plan.columns[0].hint == f"looks like numbers with a unit, such as {some}: give `unit=['a']`"
    read, plan = looked_at(tmp_path / "d.csv", text, unit=("a",), **spelled)
    assert read.names == ("a",)
    np.testing.assert_array_equal(read.values[:, 0], values * 6)
    assert (plan.columns[0].read_as, plan.columns[0].note) == ("number", f"in {unit}")
    kept, _ = looked_at(tmp_path / "d.csv", text, category=("a",))
    assert f"a={words[0]}" in kept.names
    with pytest.raises(BraidedError, match=r"d.csv:20: column 'a' is '5 parsecs': features must be numbers"):
        looked_at(tmp_path / "d.csv", text + "5 parsecs,1\n", unit=("a",), **spelled)


@pytest.mark.parametrize(
    "words", [["5 kg", "7 lb"], ["A-12", "A-13"], ["3 Series", "5 Series"], ["12A", "13B"], ["Q1", "Q2"]]
)
def test_what_is_no_unit_makes_no_numbers(words: list[str], tmp_path: Path) -> None:
    read, _ = looked_at(tmp_path / "d.csv", "a,y\n" + "".join(f"{word},{i % 2}\n" for i, word in enumerate(words * 9)))
    assert read.names == tuple(f"a={word}" for word in words)


def test_columns_without_a_name_that_are_empty_do_not_matter(tmp_path: Path) -> None:
    for end in (",", ",,"):
        read, plan = looked_at(tmp_path / "d.csv", f"a,kind{end}\n1,u{end}\n2,v{end}\n")
        assert (plan.target, read.targets, read.values[:, 0].tolist()) == ("kind", ["u", "v"], [1, 2])
        assert {column.read_as for column in plan.columns[1:]} == {"empty"}


def test_text_becomes_a_bounded_number_of_features(tmp_path: Path) -> None:
    records = [
        {"note": "Please call back, please", "y": 0}, {"note": None, "y": 1}, {"note": "B\u00fcro", "y": 1}
    ]  # fmt: skip
    rules = Rules(text=("note",), text_features=512)
    read = read_whole(IterableStream(records, rules=rules)).table
    assert read.names == tuple(f"note~{i}" for i in range(512))
    # please twice, call, back; please call, call back, back please.
    sizes = sorted(abs(read.values[0][read.values[0] != 0]))
    np.testing.assert_allclose(sizes, [np.log(2)] * 5 + [np.log(3)])
    assert {np.sign(value) for value in read.values[0]} == {-1, 0, 1}
    assert np.isnan(read.values[1]).all()
    encoder = Encoder(rules)
    assert encoder.encode_one({"note": "PLEASE call back please"}) == dict(
        zip(read.names, read.values[0].tolist(), strict=True)
    )
    for given, message in (
        ({"text_features": 0}, "`text_features` is 0"),
        ({"thousands": "."}, "`thousands` '.' is wha"),
    ):
        with pytest.raises(BraidedError, match=message):
            Rules(**given)  # type: ignore[arg-type]


def messages(n: int) -> list[dict[str, str]]:
    """Short messages: one telling phrase of a topic among phrases that are in all of them."""
    topics = {
        "refund": ["money back", "charged twice", "wrong amount", "double payment"],
        "delivery": ["parcel not here", "package lost", "courier never came", "tracking stuck"],
        "login": ["cannot log in", "password reset", "account locked", "code not accepted"],
    }
    filling = ["hello", "please", "since monday", "again", "as i wrote", "on my phone", "regards", "no idea why"]
    chance = random.Random(3)
    found = []
    for _ in range(n):
        topic = chance.choice(list(topics))
        phrases = [*chance.choices(filling, k=3), chance.choice(topics[topic])]
        chance.shuffle(phrases)
        found.append({"message": " ".join(phrases), "kind": topic})
    return found


def test_words_tell_what_whole_texts_do_not() -> None:
    errors = {}
    for name, rules in (("words", Rules(text=("message",))), ("whole", Rules(categories="hash", hash_buckets=128))):
        job = Job(
            RunOptions(stream="messages", models=("olr",)), source=IterableStream(messages(800), "kind", rules=rules)
        )
        list(job.run())
        errors[name] = job.finished[0].result["errors"]
    assert errors["words"] < 0.3 * errors["whole"], errors


def test_the_plan_is_a_document_and_bounded_in_words() -> None:
    records = [{**{f"f{j}": float(i * j) for j in range(200)}, "gap": None if i else 1.0, "y": i % 2} for i in range(9)]
    told: list[str] = []
    stream = IterableStream(records, rules=Rules(tell=told.append))
    read_whole(stream)
    plan = stream.counts.plan
    assert plan is not None
    assert len(told) == 3
    assert told[1:] == [
        "  gap  number, 8 missing", "  200 columns (f0, f1, f10, f100, f101 and 195 more): numbers, none missing"
    ]  # fmt: skip
    assert Plan.from_document(json.loads(json.dumps(plan.document()))) == plan


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"text": "comment"}, "`text` is 'comment': give a tuple of text"),
        ({"drop": (1,)}, "`drop` is .*: give a tuple of text"),
        ({"day_first": 1}, "`day_first` is 1: give True, False or None"),
        ({"max_features": 1e6}, "`max_features` is 1000000.0: give a whole number"),
        ({"recognise": 0}, "`recognise` is 0: give True or False"),
        ({"weight": 3}, "`weight` is 3: give text or None"),
    ],
)
def test_rules_that_could_not_be_loaded_again_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(BraidedError, match=words):
        Rules(**wrong)
