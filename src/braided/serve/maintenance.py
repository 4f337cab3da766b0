"""`braided serve repair`, `restore` and `backup`: what they print."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import typer

from braided.errors import BraidedError
from braided.serve import backup as backups
from braided.serve.disk import Disk
from braided.serve.folder_lock import FolderLock
from braided.serve.history import History, time_of
from braided.serve.journal import JournalError
from braided.serve.model_folder import ModelFolder
from braided.serve.repair import REMEDIES, Finding, Remedy, look, mend, model_folders
from braided.serve.settings import Settings


def repair(folder: Path, model: str | None, remedy: str | None, as_json: bool) -> None:
    """Show what is wrong, or mend it."""
    settings = Settings(folder)
    paths = [path for path in model_folders(settings) if model in (None, path.name)]
    if model is not None and not paths:
        raise BraidedError(f"{folder}: holds no model {model!r}: leave out --model to see those that there are")
    if remedy is None:
        findings = [look(path, settings) for path in paths]
        if as_json:
            typer.echo(json.dumps([asdict(finding) for finding in findings]))
            return
        for finding in findings:
            typer.echo(_told(finding, folder))
        return
    if remedy not in get_args(Remedy):
        raise BraidedError(f"--do is {remedy!r}: use one of {', '.join(REMEDIES)}")
    if model is None:
        raise BraidedError(f"--do {remedy} needs --model: say which one to repair")
    with FolderLock(folder):
        done = mend(paths[0], settings, remedy)  # type: ignore[arg-type]
    typer.echo(json.dumps({"model": model, "done": done}) if as_json else f"{model}: {done}")


def _told(finding: Finding, folder: Path) -> str:
    if finding.problem is None:
        return f"{finding.name}: ok, {finding.records} records"
    lines = [f"{finding.name}: {finding.problem}", "  it can be repaired while the service is stopped:"]
    for remedy, records in finding.remedies.items():
        left = f" ({records} records are left)" if records is not None else ""
        lines.append(f"  braided serve repair {folder} --model {finding.name} --do {remedy}")
        lines.append(f"      {REMEDIES[remedy]}{left}")
    return "\n".join(lines)


def restore(folder: Path, model: str, at: str | None, as_json: bool) -> None:
    """Show what a model can go back to, or go back."""
    settings = Settings(folder)
    paths = [path for path in model_folders(settings) if path.name == model]
    if not paths:
        raise BraidedError(f"{folder}: holds no model {model!r}: see the folders under {folder / 'models'}")
    model_folder = ModelFolder(paths[0], settings, Disk())
    if at is None:
        _show(model_folder.history(), model, as_json)
        return
    record, time = _moment(at)
    with FolderLock(folder):
        before, _ = model_folder.open()
        try:
            state = model_folder.go_back(record, time)
            model_folder.save(state)
        except (JournalError, OSError) as error:
            raise BraidedError(f"model {model}: nothing was changed, the disk says: {error}") from None
        finally:
            model_folder.close()
    figures = {"model": model, "records": state.stats.records, "records_before": before.stats.records}
    told = f"{model}: went back from record {before.stats.records} to record {state.stats.records}"
    typer.echo(json.dumps(figures) if as_json else told)


def _moment(at: str) -> tuple[int | None, float | None]:
    if at.isascii() and at.isdigit():
        return int(at), None
    try:
        return None, time_of(at)
    except (ValueError, OverflowError):
        raise BraidedError(f"--at is {at!r}: give a number of records, or a time such as 2026-03-01T10:00Z") from None


def _show(history: History, model: str, as_json: bool) -> None:
    kept = history.kept()
    if as_json:
        typer.echo(json.dumps({"model": model, "snapshots": [asdict(one) for one in kept]}))
        return
    typer.echo(f"{model}: snapshots, the oldest first")
    for one in kept:
        when = datetime.fromtimestamp(one.time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        typer.echo(f"  record {one.records}, {when}{', and every record after it' if one.whole else ''}")


def backup(folder: Path, target: Path, as_json: bool) -> None:
    """Copy all models."""
    found = backups.backup(Settings(folder), target, lambda text: None if as_json else typer.echo(text))
    typer.echo(json.dumps({"target": str(target), "records": found}) if as_json else f"all of it is in {target}")
