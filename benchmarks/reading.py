"""What it is worth to read a file well: `python benchmarks/reading.py columns` and `python benchmarks/reading.py text`.

Both run the default model and print a table for `docs/streams.md`: of `docs/deliveries.csv` read in several ways, and
of made-up messages whose words say what they are about.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import braided
from braided import MODLClassifier
from braided.kernels.tally import ANSWER, USUAL
from braided.streams import Rules, open_stream

DELIVERIES = Path(__file__).resolve().parents[1] / "docs" / "deliveries.csv"
#: Words of a phrase of each topic.
PHRASES = {
    "parcel": ("late parcel", "parcel lost", "box torn", "no delivery", "wrong address", "courier rude"),
    "invoice": ("wrong amount", "paid twice", "invoice missing", "tax wrong", "no receipt", "refund late"),
    "login": ("password lost", "no access", "login fails", "locked out", "wrong code", "page blank"),
    "praise": ("great service", "very fast", "nice staff", "good price", "works well", "thank you"),
}
COMMON = ("since monday", "please help", "as always", "for my order", "again today", "hello all")


def show(rows: dict[str, Rules], path: Path) -> None:
    """A row for each way to read a file."""
    print("| how it is read | features | errors |")
    print("|---|---|---|")
    for name, rules in rows.items():
        model = MODLClassifier()
        history = braided.record(model, open_stream(str(path), rules=rules))
        print(f"| {name} | {model.n_features} | {int(history.tally.totals[ANSWER]):,} |", flush=True)
    print(f"| the majority class so far | | {int(history.tally.totals[USUAL]):,} |")


def columns() -> None:
    """Deliveries."""
    nothing = Rules(recognise=False, decimal=".", dates="drop")
    by_hand = Rules(recognise=False, decimal=".", dates="drop", drop=("order", "customer", "note"))
    hints = Rules(drop=("order",), na=("temperature=-999",))
    few = Rules(drop=("order", "customer", "note", "placed"), na=("temperature=-999",))
    show(
        {
            "nothing recognised: each text a category, the date left out": nothing,
            "nothing recognised, and `order`, `customer` and `note` dropped by hand too": by_hand,
            "as planned": Rules(),
            "as planned, with both hints": hints,
            "with both hints, and `customer`, `note` and `placed` dropped by hand": few,
        },
        DELIVERIES,
    )


def message(rng: np.random.Generator, topic: str) -> str:
    """Three to six phrases, most of them of the topic."""
    own, others = PHRASES[topic], COMMON
    return " ".join(str(rng.choice(own if rng.random() < 0.6 else others)) for _ in range(rng.integers(3, 7)))


def text() -> None:
    """Messages of four topics; the label of 8% is drawn anew, which is wrong for three in four of them."""
    rng, topics = np.random.default_rng(0), list(PHRASES)
    lines = ["text,label"]
    for _ in range(3_000):
        topic = topics[rng.integers(4)]
        label = topics[rng.integers(4)] if rng.random() < 0.08 else topic
        lines.append(f"{message(rng, topic)},{label}")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "messages.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        show(
            {
                **{
                    f"`--text-features {n}`{' (default)' if n == 128 else ''}": Rules(text=("text",), text_features=n)
                    for n in (64, 128, 256)
                },
                "100 values one-hot, the others shared": Rules(recognise=False),
                "`--hash`, 128 buckets": Rules(hashed=("text",), hash_buckets=128),
            },
            path,
        )


if __name__ == "__main__":
    {"columns": columns, "text": text}[sys.argv[1]]()
