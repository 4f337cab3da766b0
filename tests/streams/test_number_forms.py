"""How numbers are spelled: taken for sure where it is, and said where it is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from braided.encode.number_form import PLAIN, NumberForm, recognised
from braided.encode.plan import ColumnPlan
from braided.streams import Rules, open_stream, read_whole


def plan_of(path: Path, words: list[str], between: str = ";") -> tuple[ColumnPlan, list[str]]:
    """How a column of words is planned, and the names of its features."""
    path.write_text(f"a{between}y\n" + "".join(f"{word}{between}{i % 2}\n" for i, word in enumerate(words)))
    stream = open_stream(str(path), rules=Rules())
    names = read_whole(stream).table.names
    return stream.counts.plan.columns[0], list(names)  # type: ignore[attr-defined]


def test_a_group_of_thousands_begins_with_no_zero() -> None:
    assert NumberForm(",", ".").plain("0.123") is None
    assert NumberForm(".", ",").plain("000,123") is None
    assert NumberForm(",", ".").plain("10.123") == "10123"


NUMBERS = np.random.default_rng(0)
ONE_GROUP = [f"{n // 1000},{n % 1000:03}" for n in NUMBERS.integers(1_000, 9_999, 60).tolist()]
PAIRS = [f"{a},{b}" for a, b in NUMBERS.integers(1, 90, (60, 2)).tolist()]
AMOUNTS = [f"{n:,}" for n in NUMBERS.integers(1, 9_999, 60).tolist()]


@pytest.mark.parametrize(
    ("columns", "decimal", "thousands"),
    [
        ([["030 123 456", "030 222 333 444"]], ".", ""),
        ([["555 123", "555 124"]], ".", ""),
        ([["555 123 456", "555 124 457"]], ".", ""),
        ([["1.234", "2.345"], ["1,5", "2,5"]], ",", ""),
        ([ONE_GROUP], ".", ""),
        ([PAIRS], ".", ""),
        ([["1 234 567", "12 345"]], ".", ""),
        ([["1.234,5", "950"], ["555 123"]], ",", ""),
        ([AMOUNTS], ".", ""),
        ([[f"{n / 100:.2f}".replace(".", ",") for n in range(60)]], ",", ""),
        ([[f"{n / 100}".replace(".", ",") for n in range(60)]], ",", ""),
    ],
)
def test_decimal_commas_are_read_where_semicolons_separate_fields(
    columns: list[list[str]], decimal: str, thousands: str
) -> None:
    form = recognised(columns, ";", None, None)
    assert form == NumberForm(decimal, thousands)
    assert (form is PLAIN) == (decimal == "." and not thousands)


def test_elsewhere_points_stand_before_decimals_unless_said() -> None:
    for delimiter in (",", "|", None):
        assert recognised([["1,5", "2,25"]], delimiter, None, None) is PLAIN
    assert recognised([["1,5", "2,25"]], "|", ",", ".") == NumberForm(",", ".")


def test_numbers_are_no_identifiers(tmp_path: Path) -> None:
    plan, _ = plan_of(tmp_path / "d.csv", ONE_GROUP)
    first = ONE_GROUP[0]
    ways = f"`thousands=','` for {first.replace(',', '')} or `decimal=','` for {first.replace(',', '.')}"
    assert plan.read_as == "dropped"
    assert plan.note == f"looks like numbers, such as {first}: give {ways}; `hashed=['a']` keeps it as it is"
    quoted, _ = plan_of(tmp_path / "d.csv", [f'"{word}"' for word in ONE_GROUP], ",")
    assert quoted == plan


def test_a_telephone_is_no_number(tmp_path: Path) -> None:
    plan, _ = plan_of(tmp_path / "d.csv", [f"030 {n} {n + 1}" for n in range(200, 260)])
    assert (plan.read_as, "number" in plan.note) == ("dropped", False)


POINTED = [f"{n:,}".replace(",", ".") for n in NUMBERS.integers(100, 9_999, 60).tolist()]


def test_points_that_may_be_between_thousands_get_a_hint_and_no_guess(tmp_path: Path) -> None:
    plan, names = plan_of(tmp_path / "d.csv", ["6.411", "763", *POINTED])
    assert (plan.read_as, names) == ("number", ["a"])
    assert plan.hint == "if 6.411 is 6411, give `decimal=','` `thousands='.'`"
    for words in (["6.411", "763", "2.5"], ["6.411", "7.630"], ["6.411", "0"], ["6.411", "7630"], ["0.411", "763"]):
        assert plan_of(tmp_path / "d.csv", words)[0].hint == "", words
    said = open_stream(str(tmp_path / "d.csv"), rules=Rules(decimal="."))
    (tmp_path / "d.csv").write_text("a;y\n6.411;0\n763;1\n")
    read_whole(said)
    assert said.counts.plan.columns[0].hint == "", "a user has said what a point is"  # type: ignore[attr-defined]


@pytest.mark.parametrize("around", ["{}-", "({})"])
def test_amounts_with_their_sign_behind_or_in_brackets_look_like_numbers(around: str, tmp_path: Path) -> None:
    amounts = [f"{n // 9},{n % 100:02}" for n in range(1_000, 1_060)]
    words = [around.format(word) if i % 2 else word for i, word in enumerate(amounts)]
    hint = f"looks like numbers, such as {words[1]}: if that is -{amounts[1]}, write it so"
    plan, _ = plan_of(tmp_path / "d.csv", words)
    assert (plan.read_as, plan.note) == ("dropped", f"{hint}; `hashed=['a']` keeps it as it is")
    plan, _ = plan_of(tmp_path / "d.csv", words[:4] * 20)
    assert (plan.read_as, plan.hint) == ("category", hint)
    codes, _ = plan_of(tmp_path / "d.csv", [around.format(f"K{i}") for i in range(60)])
    assert codes.note == "60 different values in 60 records; `hashed=['a']` keeps it"
