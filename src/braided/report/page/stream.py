"""The stream and how it was run: features, speed, keys, columns, and how the report was made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape

import numpy as np

from braided.encode.plan import Plan
from braided.evaluation import History
from braided.evaluation.key_tally import ENOUGH, FIRST
from braided.report import plot
from braided.report.page.markup import MAX_LISTED, places, section, table
from braided.report.page.subject import Subject
from braided.report.plot.over_time import mean_throughput, rows_of_strip
from braided.report.provenance import provenance
from braided.report.table import ages_rows, counted, keys_over_time_rows, keys_rows, keys_words

#: Columns of the stream that are listed.
_MAX_COLUMNS = 200


def features(subject: Subject) -> str:
    """Availability, of the first run, and speed."""
    history = next(iter(subject.histories.values()))[0]
    pictures = (_availability(subject, history) if history.features else "") + _throughput(subject)
    return section("Features and speed", f'<div class="pictures">{pictures}</div>')


def _availability(subject: Subject, history: History) -> str:
    rows, left_out = rows_of_strip(history)
    order = np.argsort(-history.present, kind="stable").tolist()
    listed = order if len(order) <= MAX_LISTED else order[: MAX_LISTED // 2] + order[-MAX_LISTED // 2 :]
    numbers = [[str(history.features[i]), f"{history.present[i]:,}", f"{history.present[i] / history.records:.1%}"]
               for i in listed]  # fmt: skip
    words = "Share of records that had each feature, over time: the fuller the colour, the larger the share."
    if left_out:
        words += (
            f" Shown are the {len(rows) // 2} most and the {len(rows) // 2} least available; "
            f"{left_out:,} in between are left out."
        )
    words += " Of the first seed." if subject.seeds > 1 else ""
    return subject.picture(
        "Availability of features",
        words,
        lambda ax: plot.availability(history, ax=ax),
        table(["feature", "records", "share"], numbers),
        height=max(0.8 + 0.15 * len(rows), 1.4),
    )


def _throughput(subject: Subject) -> str:
    everything = subject.everything
    speeds = {name: mean_throughput(seeds) for name, seeds in subject.histories.items()}
    ends = everything[0].blocks()[:, 0]
    rows = [[f"{ends[place]:,.0f}", *(f"{speed[place]:,.0f}" for speed in speeds.values())]
            for place in places(len(ends))]  # fmt: skip
    return subject.picture(
        "Throughput",
        "Records per second, predicting and learning, without reading the stream.",
        lambda ax: plot.throughput(everything, ax=ax),
        table(["records", *speeds], rows),
    )


def columns(plan: Plan | None) -> str:
    """How each column was read; nothing of a stream whose columns are known."""
    if plan is None:
        return ""
    rows = [(column.name, column.words(), column.hint) for column in plan.columns[:_MAX_COLUMNS]]
    more = len(plan.columns) - len(rows)
    left_out = f"<p>And {more:,} more columns, which metrics.json has.</p>" if more else ""
    notes = "".join(f"<p>{escape(note)}.</p>" for note in plan.notes)
    words = f"<p>As the first {counted(plan.records, 'record')} showed.</p>{notes}"
    return section("How it was read", words + table(["column", "read as", "hint"], rows, "words") + left_out)


def how_it_was_made(about: Mapping[str, str], command: str | None = None) -> str:
    """Versions, machine and what else is known, with the command line if there was one."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    given = f"<pre><code>{escape(command)}</code></pre>" if command else ""
    return section("How it was made", given + table(["", ""], {**provenance(), "date": date, **about}.items(), "words"))


def keys(subject: Subject) -> str:
    """What went wrong for the keys of a fleet."""
    found = subject.document["runs"][0].get("keys")
    if found is None:
        return ""
    words = (
        f"{keys_words(found)}. By key: the most frequent, and the worst of those with {ENOUGH} records or more; "
        f"'first {FIRST}' is of a key's first records."
    )
    of_seed = " Of the first seed." if subject.seeds > 1 else ""
    parts = [f"<p>{escape(words + of_seed)}</p>", table(*keys_rows(found, subject.regression))]
    if "until" in found:
        error = "The mean absolute error" if subject.regression else "Errors in percent"
        words = (
            f"{error} of the same keys over time. Each column counts the records from the end of the column before it "
            "up to the record that it names."
        )
        parts += [f"<p>{words}</p>", table(*keys_over_time_rows(found, subject.regression))]
    parts += ["<p>All keys, by what they had learned:</p>", table(*ages_rows(found, subject.regression))]
    return section("Keys", "".join(parts))
