"""Dates and times as numbers, in whatever form and file they come."""

from __future__ import annotations

import datetime
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import pyarrow

from braided import BraidedError
from braided.encode.dates import DURATION, SHAPES, TIME, DateForm
from braided.encode.encoder import Encoder
from braided.records import Records
from braided.run import Job, RunOptions
from braided.streams import IterableStream, Rules, open_stream, read_whole

#: A Friday, day 5 of its year, 10:20.
FORMS = [
    "2024-01-05 10:20", "2024-01-05T10:20:00Z", "2024-01-05T12:20:00+02:00", "2024/01/05 10:20:00.000",
    "5 Jan 2024 10:20", "January 5, 2024 10:20 AM", "Fri, 05 Jan 2024 10:20:00 GMT", "05.01.2024 10:20",
    "05.01.24 10:20", "05/Jan/2024:10:20:00 +0000",
]  # fmt: skip
PARTS = ("age", "hour", "hour.sin", "hour.cos", "weekday", "day_of_year.sin", "day_of_year.cos")


def table(path: Path, text: str, **rules: Any) -> Records:
    path.write_text(text)
    return read_whole(open_stream(str(path), rules=Rules(**rules))).table


@pytest.mark.parametrize("word", FORMS)
def test_a_date_becomes_its_age_and_where_it_falls(word: str, tmp_path: Path) -> None:
    later = word.replace("05", "06").replace("5 Jan", "6 Jan").replace(" 5,", " 6,")
    read = table(tmp_path / "d.csv", f'a,when,y\n1,,0\n2,"{word}",0\n3,"{later}",1\n')
    assert read.names == ("a", *(f"when.{part}" for part in PARTS))
    assert np.isnan(read.values[0, 1:]).all(), "missing"
    written = 12 if "+02:00" in word else 10  # parts are as the clock showed, the age is not
    angle, year = 2 * math.pi * (written + 1 / 3) / 24, 2 * math.pi * 4 / 366
    expected = [0, written + 1 / 3, math.sin(angle), math.cos(angle), 4, math.sin(year), math.cos(year)]
    np.testing.assert_allclose(read.values[1, 1:], expected, rtol=1e-12)
    assert read.values[2, 1] == 86_400


def test_days_without_times_have_no_hour_and_ages_alone_can_be_had(tmp_path: Path) -> None:
    text = "when,y\n2024-03-02,0\n2024-03-01,1\n"
    names = ("when.age", "when.weekday", "when.day_of_year.sin", "when.day_of_year.cos")
    assert table(tmp_path / "d.csv", text).names == names
    age = table(tmp_path / "d.csv", text, dates="age")
    assert (age.names, age.values.tolist()) == (("when.age",), [[0], [-86_400]])
    assert table(tmp_path / "d.csv", f"a,{text}".replace("\n2024", "\n7,2024"), dates="drop").names == ("a",)
    times = table(tmp_path / "d.csv", "at,y\n06:00,0\n18:30:00,1\n")
    assert times.names == ("at.hour", "at.hour.sin", "at.hour.cos")
    np.testing.assert_allclose(times.values[:, 0], [6, 18.5])


@pytest.mark.parametrize(
    ("words", "day_first", "days"),
    [
        (["1/2/2024", "13/2/2024"], None, 12),
        (["1/2/2024", "2/13/2024"], None, 42),
        (["1/2/2024", "2/2/2024"], True, 1),
        (["1/2/2024", "2/2/2024"], False, 31),
        (["1.2.2024", "2.2.2024"], None, 1),
        (["2024-02-01", "2/2/2024"], True, 1),
        (["1/2/24 1:00 PM", "13/2/24 1:00 PM"], None, 12),
    ],
)
def test_day_and_month(words: list[str], day_first: bool | None, days: int, tmp_path: Path) -> None:
    text = "when,y\n" + "".join(f"{word},0\n" for word in words)
    assert table(tmp_path / "d.csv", text, dates="age", day_first=day_first).values[1, 0] == days * 86_400


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["1/2/2024", "3/2/2024"],
            r"d.csv:2: column 'when' is '1/2/2024', and no date shows .*`day_first=True` or `day_first=F",
        ),
        (["13/2/2024", "2/13/2024"], r"mixes dates with the day first and with the month first, such as '13/2/2024'"),
        (["2024-02-01", "13/2/2024"], r"mixes dates of different forms, such as .*`day_first=True`"),
        (["2024-02-01"] * 20 + ["10:20"], r"mixes dates of different forms"),
        (["2024-02-01"] * 20 + ["2024-02-30"], r"d.csv:22: column 'when' is '2024-02-30': no day of the calendar"),
        (["2024-02-30"] + ["2024-02-01"] * 20, r"d.csv:2: column 'when' is '2024-02-30': no day of the calendar"),
        (["2024-02-01"] * 20 + ["soon"], r"d.csv:22: column 'when' is 'soon': the dates of this column have the year"),
        (
            ["13/2/2024"] * 600 + ["2/13/2024"],
            r"d.csv:602: column 'when' is '2/13/2024': no day of .*if the day stands",
        ),
        (["2024-02-01"] * 20 + ["2024-02-01 25:00"], r"column 'when' is '2024-02-01 25:00': no day"),
    ],
)
def test_dates_that_cannot_be_read_name_the_option(words: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(BraidedError, match=message) as caught:
        table(tmp_path / "d.csv", "when,y\n" + "".join(f"{word},0\n" for word in words))
    assert "\n" not in str(caught.value)


def test_a_date_that_does_not_fit_can_be_missing(tmp_path: Path) -> None:
    text = "when,y\n" + "2024-02-01,0\n" * 20 + "soon,1\n"
    read = table(tmp_path / "d.csv", text, on_error="missing")
    assert np.isnan(read.values[-1]).all()
    assert len(table(tmp_path / "d.csv", text, on_error="skip")) == 20


def test_a_skipped_record_is_not_the_first(tmp_path: Path) -> None:
    text = "a,when,y\noops,2024-01-01,0\n" + "1,2024-01-03,1\n" * 20
    assert table(tmp_path / "d.csv", text, on_error="skip", dates="age").values[0].tolist() == [1, 0]


def test_typed_dates(tmp_path: Path) -> None:
    first = datetime.datetime(2024, 1, 5, 10, 20, tzinfo=datetime.UTC)
    records = [
        {"when": first + datetime.timedelta(hours=i), "day": datetime.date(2024, 1, 5 + i),
         "took": datetime.timedelta(minutes=i), "y": i % 2}
        for i in range(3)
    ]  # fmt: skip
    read = read_whole(IterableStream(records, rules=Rules(dates="age"))).table
    assert read.names == ("day.age", "took.seconds", "when.age")
    assert read.values[2].tolist() == [2 * 86_400, 120, 7_200]
    arrow = pyarrow()
    from pyarrow import parquet

    columns = {name: [record[name] for record in records] for name in records[0]}
    parquet.write_table(arrow.table(columns), tmp_path / "d.parquet")
    again = read_whole(open_stream(str(tmp_path / "d.parquet"), rules=Rules(dates="age"))).table
    order = [again.names.index(name) for name in read.names]
    np.testing.assert_array_equal(again.values[:, order], read.values)
    fine = {"when": arrow.array([1, 2_000_000_001], arrow.timestamp("ns")), "y": [0, 1]}
    parquet.write_table(arrow.table(fine), tmp_path / "fine.parquet")
    assert read_whole(open_stream(str(tmp_path / "fine.parquet"))).table.values[1, 0] == 2
    arff = "@relation r\n@attribute when date 'yyyy-MM-dd'\n@attribute y {0,1}\n@data\n'2024-01-05',0\n?,1\n"
    assert table(tmp_path / "d.arff", arff).names[0] == "when.age"


def dated(n: int) -> list[dict[str, Any]]:
    start = datetime.datetime(2024, 1, 1)
    return [
        {"when": str(start + datetime.timedelta(minutes=97 * i)), "size": i % 7, "kind": i * 97 // 60 % 24 > 11}
        for i in range(n)
    ]  # fmt: skip


def test_a_followed_file_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    lines = [json.dumps({**item, "kind": str(item["kind"])}) + "\n" for item in dated(700)]
    (tmp_path / "whole.jsonl").write_text("".join(lines))
    expected = Job(RunOptions(stream=str(tmp_path / "whole.jsonl"), target="kind", models=("olr",)))
    list(expected.run())
    live = tmp_path / "live.jsonl"
    for start, stop in ((0, 60), (60, 400), (400, 700)):
        with live.open("a") as file:
            file.write("".join(lines[start:stop]))
        options = RunOptions(stream=str(live), follow=True, idle=0.0, target="kind", models=("olr",))
        job = Job(options, checkpoint=tmp_path / "c", every=0.0, resume=True)
        list(job.run())
    assert job.finished[0].result["state_sha256"] == expected.finished[0].result["state_sha256"]
    assert job.document()["plan"]["columns"][1]["read_as"] == "date"


def test_one_record_is_encoded_as_in_a_stream() -> None:
    records = dated(40)
    whole = read_whole(IterableStream(records, target="kind")).table
    encoder = Encoder(Rules())
    encoder.target = "kind"
    for record, row in zip(records, whole.values, strict=True):
        assert encoder.encode_one(record) == dict(zip(whole.names, row.tolist(), strict=True))
    again = Encoder.from_state(json.loads(json.dumps(encoder.state())))
    before = again.state()
    late = {"when": "2025-01-01 00:00", "size": 3, "new": "x"}
    assert again.encode_one(late, learn=False) == encoder.encode_one({**late, "new": None})
    assert again.state() == before
    with pytest.raises(BraidedError, match="the record: column 'when' is 'soon'"):
        again.encode_one({"when": "soon"})


def named(path: Path, words: list[str], **rules: Any) -> set[str]:
    """What a column of words becomes, but for its values."""
    read = table(path, "a,y\n" + "".join(f"{word},{i % 2}\n" for i, word in enumerate(words)), **rules)
    return {str(name).partition("=")[0] for name in read.names}


@pytest.mark.parametrize(
    "words",
    [
        ["76:20", "81:05", "59:59"], ["10:75", "11:80"], ["42.56.43", "12.31.20"], ["2024-13-01", "2024-02-30"],
        ["Marvin 12 2001", "Decor 1 1999"], ["10.25.12", "11.30.12"],
    ],
)  # fmt: skip
def test_what_no_calendar_has_is_no_date(words: list[str], tmp_path: Path) -> None:
    assert named(tmp_path / "d.csv", words) == {"a"}


def test_a_column_is_a_category_if_a_user_says_so(tmp_path: Path) -> None:
    for words in (["10.12.25", "11.12.25"], ["12:20", "13:50"], ["00042", "00043"]):
        assert table(tmp_path / "d.csv", f"a,y\n{words[0]},0\n{words[1]},1\n", category=("a",)).names == (
            f"a={words[0]}", f"a={words[1]}"
        )  # fmt: skip
    assert len(named(tmp_path / "d.csv", ["10.12.25", "11.12.25"])) == 4
    many = "a,y\n" + "".join(f"c{i},{i % 2}\n" for i in range(60))
    assert len(table(tmp_path / "d.csv", many, category=("a",)).names) == 60, "no identifier either"
    with pytest.raises(BraidedError, match="there is no column 'b': choose `category` from a, y"):
        named(tmp_path / "d.csv", ["1", "2"], category=("b",))


def test_a_day_ends_at_24(tmp_path: Path) -> None:
    times = table(tmp_path / "d.csv", "at,y\n23:00,0\n24:00,1\n")
    assert times.values[:, 0].tolist() == [23, 24]
    days = table(tmp_path / "d.csv", "at,y\n2024-01-05 23:00,0\n2024-01-05 24:00,1\n")
    later = table(tmp_path / "d.csv", "at,y\n2024-01-05 23:00,0\n2024-01-06 00:00,1\n")
    assert days.values.tolist() == later.values.tolist()


@pytest.mark.parametrize("word", [*FORMS, "5/1/2024 10:20"])
def test_a_typed_moment_is_taken_whatever_the_text_was(word: str) -> None:
    encoder = Encoder(Rules(day_first=True))
    text = encoder.encode_one({"when": word})
    typed = datetime.datetime(2024, 1, 5, 12 if "+02:00" in word else 10, 20)
    if "+02:00" in word:
        typed = typed.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    for cell in (typed, *(() if typed.tzinfo else (np.datetime64(typed),))):
        assert encoder.encode_one({"when": cell}) == text
    clock = Encoder()
    clock.encode_one({"at": "10:20"})
    with pytest.raises(BraidedError, match="this column holds times"):
        clock.encode_one({"at": typed})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("day_first", [True, False])
@pytest.mark.parametrize("first_us", [None, 1_704_450_000_000_000, 10**18, -(10**18)])
def test_an_example_of_a_form_is_of_that_form(shape: str, day_first: bool, first_us: int | None) -> None:
    form = DateForm(shape, day_first, True, first_us)
    example = form.example()
    assert (example is None) == (shape == DURATION)
    if example is not None and shape != TIME:
        expected = "2024-01-05T10:20" if first_us == 1_704_450_000_000_000 else "2024-01-31T10:20"
        moment = form.moment(example)
        assert np.datetime64(moment.us, "us") == np.datetime64(expected)
        assert moment.us % 60_000_000 == 0
