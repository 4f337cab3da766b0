"""The command line."""

from __future__ import annotations

import importlib
import json
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from rich.console import Console

from braided import __version__
from braided.cli.datasets import app as datasets_app
from braided.errors import BraidedError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Online deep learning for data streams whose features come and go.",
)
bench_app = typer.Typer(no_args_is_help=True, help="Benchmarks: commands that measure and print, on this machine, now.")
app.add_typer(bench_app, name="bench")
app.add_typer(datasets_app, name="datasets")

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]


def _version(value: bool) -> None:
    if value:
        typer.echo(f"braided {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    stream: Annotated[
        str,
        typer.Argument(
            help="Data set (shuttle, german, svmguide3, magic04, a8a, higgs, susy, mnist, imnist, cifar10; of River's "
            "phishing, segments, bananas, sea, sea-drift, hyperplane, led, rbf, rbf-drift, agrawal, agrawal-drift), "
            "a file (CSV, TSV, JSON lines, ARFF or LIBSVM, plain, .gz or .zst; Parquet, Arrow or Feather), a folder of "
            "such files, sqlite:///FILE or postgresql://... with --query, or - for JSON lines "
            '{"x": {...}, "y": ...} on standard input.'
        ),
    ] = "shuttle",
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="modl, its parts (olr, mlp, set, modl-olr+mlp, modl-olr+set) and variants (modl-glr, modl-5), odl, "
            "fodl, auxdrop-odl, auxdrop-fodl, auxdrop-ogd, olvf, majority, river-logistic, river-arf. Repeatable.",
        ),
    ] = None,
    preset: Annotated[str, typer.Option(help="default, paper or released.")] = "default",
    combiner: Annotated[
        str | None,
        typer.Option(help="score-sum, multiplication, ensemble, moe, greedy or kalman; the preset's if not given."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE: replace a setting of the learners, e.g. learning_rate=0.05. Repeatable."),
    ] = None,
    drift: Annotated[
        str | None,
        typer.Option(
            help="Learn faster for a while whenever this detector reports drift of the error: adwin, page-hinkley, "
            "ddm, eddm, fhddm, hddm-a or hddm-w."
        ),
    ] = None,
    mask: Annotated[
        str,
        typer.Option(
            help="How features go missing: iid; trapezoidal (ten chunks, each with more features); sudden (each "
            "feature has one long outage); burst (outages of random length); value (large values go missing more)."
        ),
    ] = "iid",
    available: Annotated[
        float | None, typer.Option(help="Probability that a feature is available in a record (not for trapezoidal).")
    ] = None,
    always: Annotated[int | None, typer.Option(help="The first so many features are always available.")] = None,
    shuffle: Annotated[
        bool | None, typer.Option("--shuffle/--no-shuffle", help="Order the records by the seed, or as they come.")
    ] = None,
    seed: Annotated[int, typer.Option(help="First seed.")] = 0,
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 1,
    limit: Annotated[int | None, typer.Option(help="Stop after so many records.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Label column: its name, or its number from 0 in a CSV file without a header.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Leave out this column. Repeatable.")] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether a CSV file's first line names its columns; else seen."),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="What stands between a CSV file's fields: one character or tab; else seen.")
    ] = None,
    query: Annotated[str | None, typer.Option(help="SQL, for sqlite:///FILE and postgresql://...")] = None,
    categories: Annotated[
        str,
        typer.Option(
            help="Text columns: onehot (a feature for each value), hash (for each of --hash-buckets) or refuse."
        ),
    ] = "onehot",
    hash_buckets: Annotated[int, typer.Option(help="Features that a hashed column becomes at most.")] = 64,
    on_error: Annotated[
        str,
        typer.Option(
            help="A value that does not fit its column: stop the run, skip the record, or take the value as missing."
        ),
    ] = "stop",
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for more lines of a CSV or JSON lines file, or files in a folder.")
    ] = False,
    idle: Annotated[
        float | None, typer.Option(help="End --follow after so many seconds without a record; else Ctrl-C ends it.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="BRAIDED_DATA", help="Folder with the data sets, one sub-folder each.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for report.html, curve.csv, metrics.json and curve.png.")
    ] = None,
    max_features: Annotated[int, typer.Option(help="Refuse a stream with more features than this.")] = 10_000,
    max_classes: Annotated[int, typer.Option(help="Refuse a stream with more classes than this.")] = 1_000,
    checkpoint: Annotated[
        Path | None, typer.Option(help="File to write model and progress to, at intervals and at the end.")
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 2.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint, if it is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run models over a stream: predict each record, count the error, then learn it.

    Data sets of the paper follow its protocol (shuffled by seed, features missing at random) unless options say
    otherwise.
    """
    from braided.report.table import check_folder, summary_table, write_folder
    from braided.run.job import Job, RunOptions
    from braided.run.progress import Display
    from braided.streams.readers.follow import stopped_by_interrupt
    from braided.streams.readers.sql import without_password

    options = RunOptions(
        stream=stream,
        models=tuple(dict.fromkeys(model or ["modl"])),
        preset=preset,
        combiner=combiner,
        mask=mask,
        available=available,
        always=always,
        shuffle=shuffle,
        seed=seed,
        seeds=seeds,
        limit=limit,
        target=target,
        header=header,
        delimiter=delimiter,
        drop=tuple(drop or ()),
        query=query,
        categories=categories,
        hash_buckets=hash_buckets,
        on_error=on_error,
        follow=follow,
        idle=idle,
        max_features=max_features,
        max_classes=max_classes,
        options=tuple(option or ()),
        drift=drift,
    )
    errors = Console(stderr=True)
    if out is not None:
        check_folder(out)
        if checkpoint is not None and checkpoint.resolve() == out.resolve():
            raise BraidedError(f"--out and --checkpoint are both {out}: give a folder and a file")
    if resume and checkpoint is not None and not checkpoint.exists():
        typer.echo(f"no checkpoint at {checkpoint} yet: starting from the first record", err=True)
    job = Job(
        options,
        data_dir,
        checkpoint,
        checkpoint_every,
        resume,
        collect=out is not None,
        tell=lambda message: errors.print(message, markup=False, highlight=False, soft_wrap=True),
    )
    with Display(errors) as display, stopped_by_interrupt(job.stop if follow else None):
        display.follow(job.run())
    document = job.document()
    if out is not None:
        for path in write_folder(job, out, shlex.join(["braided", *map(without_password, sys.argv[1:])])):
            typer.echo(f"wrote {path}", err=True)
    if as_json:
        typer.echo(json.dumps(document))
    else:
        Console().print(summary_table(document))


@app.command()
def reproduce(
    what: Annotated[
        list[str],
        typer.Argument(help="table1, table2, table3, merge, ablation, glr, five, lr, depth, curves, toy, or all."),
    ],
    preset: Annotated[str, typer.Option(help="Of MODL and the baselines: released, paper or default.")] = "released",
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds a cell, instead of the paper's 20 or 5.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one for each core if not given.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many records of each stream.")] = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Only this data set. Repeatable.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A minute's worth: 1,000 records, 2 seeds, fewer cells.")
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(help="Run on a Ray cluster: its address, or local for one on this machine. Needs braided[ray]."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for CSV, JSON, PNG, index.html and finished runs.")] = Path(
        "results"
    ),
    page: Annotated[Path | None, typer.Option(help="Also write all that stands in --out as a Markdown page.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="BRAIDED_DATA", help="Folder with the data sets, one sub-folder each.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Reproduce tables and figures of the paper, ours beside theirs.

    Every run is kept under --out as it ends and never done twice: after an interruption the same command goes on.
    """
    from braided.presets import PRESETS
    from braided.report.table import check_folder
    from braided.reproduce.command import Reproduction, Wanted, checked, screen_table
    from braided.reproduce.executors import Executor, Processes, Ray

    if preset not in PRESETS:
        raise BraidedError(f"preset {preset!r} is not known: use one of {', '.join(PRESETS)}")
    check_folder(out)
    wanted = Wanted(checked(what), preset, seeds, limit, tuple(dataset or ()), quick, out, page)
    executor: Executor = Processes(jobs) if ray is None else Ray(ray, jobs)
    documents = Reproduction(wanted, data_dir, executor, Console(stderr=True)).run()
    if as_json:
        typer.echo(json.dumps(documents[0] if len(documents) == 1 else {"what": "all", "documents": documents}))
    else:
        for document in documents:
            Console().print(screen_table(document))
    failed = sum(cell.get("failed", 0) for document in documents for cell in document["cells"])
    if failed:
        typer.echo(
            f"braided: {failed} runs failed: their cells say why; run the command again to try them again", err=True
        )
        raise typer.Exit(1)


@app.command()
def serve(
    folder: Annotated[Path, typer.Option("--dir", help="Folder for the models; made if it is not there.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than loopback only with --token-file.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="File of lines `read TOKEN` and `write TOKEN`; write includes read.")
    ] = None,
    durability: Annotated[
        str,
        typer.Option(
            help="sync: on disk before it is acknowledged; interval: at most --interval later; none: when the system "
            "sees fit."
        ),
    ] = "sync",
    interval: Annotated[float, typer.Option(help="Seconds between two syncs, with --durability interval.")] = 1.0,
    snapshot_seconds: Annotated[float, typer.Option(help="Seconds between snapshots of a model that learns.")] = 60.0,
    snapshot_records: Annotated[int, typer.Option(help="Records between snapshots.")] = 100_000,
    segment_bytes: Annotated[int, typer.Option(help="Length at which a new journal file begins.")] = 2**24,
    max_body: Annotated[int, typer.Option(help="Bytes of a request's body.")] = 8 * 2**20,
    max_records: Annotated[int, typer.Option(help="Records in one request.")] = 1_000,
    max_models: Annotated[int, typer.Option(help="Models.")] = 16,
    max_features: Annotated[int, typer.Option(help="Features of a model.")] = 1_000,
    max_classes: Annotated[int, typer.Option(help="Classes of a model.")] = 100,
    max_in_flight: Annotated[int, typer.Option(help="Requests at once.")] = 256,
    request_seconds: Annotated[float, typer.Option(help="Seconds for one request.")] = 30.0,
    observe_count: Annotated[int, typer.Option(help="Observed records that may wait for their label.")] = 10_000,
    observe_seconds: Annotated[float, typer.Option(help="Seconds that they may wait.")] = 86_400.0,
) -> None:
    """Serve models over HTTP: learn, predict, and lose nothing that was acknowledged. A live page is at /."""
    command = _extra("braided.serve.command", "serve")
    settings_module = _extra("braided.serve.settings", "serve")
    limits = settings_module.Limits(
        body_bytes=max_body,
        records=max_records,
        models=max_models,
        features=max_features,
        classes=max_classes,
        in_flight=max_in_flight,
        request_seconds=request_seconds,
        observations=observe_count,
        observation_seconds=observe_seconds,
    )
    command.serve(
        settings_module.Settings(
            folder=folder,
            host=host,
            port=port,
            token_file=token_file,
            durability=durability,
            interval_seconds=interval,
            snapshot_seconds=snapshot_seconds,
            snapshot_records=snapshot_records,
            segment_bytes=segment_bytes,
            limits=limits,
        )
    )


@app.command()
def feed(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="What to send: anything that `braided run` reads.")],
    to: Annotated[str, typer.Option(help="Address of the model, e.g. http://127.0.0.1:8000/models/demo.")],
    token_file: Annotated[
        Path | None, typer.Option(help="File whose first `write TOKEN` line is used; else $BRAIDED_TOKEN, if set.")
    ] = None,
    client: Annotated[
        str | None, typer.Option(help="Name under which the service counts what it has; by default made from the file.")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the model, with the defaults, if needed.")] = False,
    batch: Annotated[int, typer.Option(help="Records in one request.")] = 500,
    limit: Annotated[int | None, typer.Option(help="Stop after so many records.")] = None,
    target: Annotated[str | None, typer.Option(help="Label column.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Leave out this column. Repeatable.")] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="Whether a CSV file's first line names its columns.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="What stands between a CSV file's fields.")] = None,
    query: Annotated[str | None, typer.Option(help="SQL, for sqlite:///FILE and postgresql://...")] = None,
    categories: Annotated[str, typer.Option(help="Text columns: onehot, hash or refuse.")] = "onehot",
    hash_buckets: Annotated[int, typer.Option(help="Features that a hashed column becomes at most.")] = 64,
    on_error: Annotated[str, typer.Option(help="A value that does not fit: stop, skip or missing.")] = "stop",
    data_dir: Annotated[
        Path | None, typer.Option(envvar="BRAIDED_DATA", help="Folder with the data sets, one sub-folder each.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Send a stream to a service, from where the service's acknowledged count stands; may be broken off and repeated.

    Options that change what is sent are part of the client's name: with others the stream is sent from its start.
    """
    from braided.streams import Rules

    feeding = _extra("braided.serve.feed", "serve")
    errors = Console(stderr=True)
    rules = Rules(
        categories,
        hash_buckets,
        on_error,
        tuple(drop or ()),
        tell=lambda message: errors.print(message, markup=False, highlight=False, soft_wrap=True),
    )
    settings = feeding.FeedSettings(
        stream, to, token_file, client, create, batch, limit, target, header, data_dir, delimiter, query, rules
    )
    result = feeding.feed(settings, errors)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        typer.echo(
            f"{result['sent']:,} records sent, {result['acknowledged']:,} acknowledged in all; "
            f"the model has learned {result['records']:,}"
        )


def _extra(module: str, extra: str) -> ModuleType:
    """A module that needs an extra, or what to do about it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "braided":
            raise
        raise BraidedError(f"{error.name} is not installed: pip install 'braided[{extra}]'") from None


def _bench(benchmark: ModuleType, records: int, as_json: bool) -> None:
    """Measure, and print the figures for a person or a program."""
    result = benchmark.measure(records, Console(stderr=True))
    if as_json:
        typer.echo(json.dumps(result))
    else:
        Console().print(benchmark.table(result))


@bench_app.command()
def speed(
    records: Annotated[int, typer.Option(help="Records per measurement.")] = 2_000, as_json: JsonOption = False
) -> None:
    """Time per record beside eager PyTorch and a memory-traffic floor; cold start and compile time."""
    from braided.bench import speed as benchmark

    _bench(benchmark, records, as_json)


@bench_app.command()
def default(
    records: Annotated[int, typer.Option(help="Records per measurement.")] = 2_000, as_json: JsonOption = False
) -> None:
    """The default model, one record at a time, beside deep-river's MLP (set up on first use, in the user's cache)."""
    from braided.bench import default as benchmark

    _bench(benchmark, records, as_json)


@bench_app.command()
def candidates(
    seeds: Annotated[
        int, typer.Option(min=1, help="Seeds on the smallest streams; a fifth of them on the others.")
    ] = 5,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one for each core if not given.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="BRAIDED_DATA", help="Folder with the data sets, one sub-folder each.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """What the default was chosen among: errors of each candidate on many streams, and its cost (many minutes)."""
    from braided.bench import candidates as benchmark

    result = benchmark.measure(seeds, jobs, data_dir, Console(stderr=True))
    if as_json:
        typer.echo(json.dumps(result))
    else:
        typer.echo(benchmark.markdown(result))


@bench_app.command()
def memory(
    records: Annotated[int, typer.Option(help="Records to learn.")] = 1_000_000, as_json: JsonOption = False
) -> None:
    """Resident memory while a long stream is learned: it must stay where it is."""
    from braided.bench import memory as benchmark

    _bench(benchmark, records, as_json)


@bench_app.command()
def depth(
    records: Annotated[int, typer.Option(help="Records per measurement.")] = 1_000, as_json: JsonOption = False
) -> None:
    """Time per record of ODL and Fast ODL at several depths and widths, beside the paper's wall-clock ratios."""
    from braided.bench import depth as benchmark

    _bench(benchmark, records, as_json)


@bench_app.command("serve")
def bench_serve(
    records: Annotated[int, typer.Option(help="Records per measurement.")] = 20_000, as_json: JsonOption = False
) -> None:
    """Learning over HTTP with sync durability, and predictions meanwhile, beside learning in this process."""
    _bench(_extra("braided.bench.serve", "serve"), records, as_json)


def main() -> None:
    """Run the command line; bad input is one line on standard error and exit code 2."""
    try:
        app()
    except BraidedError as error:
        print(f"braided: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        print(f"braided: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("braided: interrupted", file=sys.stderr)
        sys.exit(130)
