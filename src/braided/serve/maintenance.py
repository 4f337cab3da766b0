"""`braided serve repair`, `restore` and `backup`: what they print."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

import typer

from braided.errors import BraidedError
from braided.serve import backup as backups
from braided.serve.disk import Disk, LookingDisk
from braided.serve.folder_lock import FolderLock
from braided.serve.history import ModelHistory, time_of, utc
from braided.serve.journal import JournalError
from braided.serve.model_folder import ModelFolder
from braided.serve.model_state import MODEL_KINDS
from braided.serve.repair import REMEDIES, Finding, Remedy, look, mend, model_folders
from braided.serve.settings import Settings
from braided.store import decode


def repair(folder: Path, model: str | None, remedy: str | None, as_json: bool) -> None:
    """Show what is wrong, or mend it; the exit status is 1 if a model is then one that is not opened."""
    settings = Settings(folder)
    paths = [path for path in model_folders(settings) if model in (None, path.name)]
    if model is not None and not paths:
        raise BraidedError(f"{folder}: holds no model {model!r}: leave out --model to see those that there are")
    if remedy is None:
        findings = [look(path, settings) for path in paths]
        if as_json:
            typer.echo(json.dumps([asdict(finding) for finding in findings]))
        else:
            for finding in findings:
                typer.echo(_told(finding, folder))
        if any(finding.problem is not None for finding in findings):
            raise typer.Exit(1)
        return
    if remedy not in get_args(Remedy):
        raise BraidedError(f"--do is {remedy!r}: use one of {', '.join(REMEDIES)}")
    if model is None:
        raise BraidedError(f"--do {remedy} needs --model: say which one to repair")
    with FolderLock(folder):
        found = look(paths[0], settings)
        if remedy not in found.remedies:
            possible = ", ".join(found.remedies) or "nothing, as it can be opened"
            raise BraidedError(f"model {model}: --do {remedy} would not help: what can be done is {possible}")
        done = mend(paths[0], settings, remedy)
    typer.echo(json.dumps({"model": model, "done": done}) if as_json else f"{model}: {done}")
    if remedy == "retry" and found.records is None:
        typer.echo(f"braided: model {model} cannot be opened yet: {found.problem}", err=True)
        raise typer.Exit(1)


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
    paths = [path for path in model_folders(Settings(folder)) if path.name == model]
    if not paths:
        raise BraidedError(f"{folder}: holds no model {model!r}: see the folders under {folder / 'models'}")
    model_folder = ModelFolder(paths[0], settings_of(paths[0], Settings(folder)), Disk())
    if at is None:
        _show(model_folder.history(), model, as_json)
        return
    record, time = _moment(at)
    with FolderLock(folder):
        before, _ = model_folder.open()
        try:
            state = model_folder.go_back(record, time)
        except (JournalError, OSError) as error:
            raise BraidedError(f"model {model}: nothing was changed, the disk says: {error}") from None
        try:
            model_folder.save_restored(state)
        except OSError as error:
            typer.echo(f"{model}: no snapshot could be written ({error}); the journal has it", err=True)
        finally:
            model_folder.close()
    figures = {"model": model, "records": state.stats.records, "records_before": before.stats.records}
    told = f"{model}: went back from record {before.stats.records} to record {state.stats.records}"
    typer.echo(json.dumps(figures) if as_json else told)


def settings_of(path: Path, settings: Settings) -> Settings:
    """With the limits under which a model was served: how many of its records wait for their label depends on them."""
    for _, file in ModelFolder(path, settings, LookingDisk()).snapshots():
        with contextlib.suppress(BraidedError, OSError):
            kept = decode(file.read_bytes(), file.name, *MODEL_KINDS).metadata.get("serve") or {}
            limits = kept.get("limits") or {}
            known = {key: limits[key] for key in ("observations", "observation_seconds") if key in limits}
            return replace(settings, limits=replace(settings.limits, **known))
    return settings


def _moment(at: str) -> tuple[int | None, float | None]:
    if at.isascii() and at.isdigit():
        return int(at), None
    try:
        return None, time_of(at)
    except (ValueError, OverflowError):
        raise BraidedError(f"--at is {at!r}: give a number of records, or a time such as 2026-03-01T10:00Z") from None


def _show(history: ModelHistory, model: str, as_json: bool) -> None:
    kept = history.kept()
    if as_json:
        typer.echo(json.dumps({"model": model, "snapshots": [one.document() for one in kept]}))
        return
    typer.echo(f"{model}: snapshots, the oldest first")
    for one in kept:
        later = ", and every record after it" if one.whole else ""
        typer.echo(f"  record {one.records}, {utc(one.time)}{later}")


def backup(folder: Path, target: Path, as_json: bool) -> None:
    """Copy all models."""
    found = backups.backup(Settings(folder), target, lambda text: None if as_json else typer.echo(text))
    typer.echo(json.dumps({"target": str(target), "records": found}) if as_json else f"the copies are in {target}")
    unopened = [name for name, records in found.items() if records is None]
    if unopened:
        typer.echo(
            f"braided: {', '.join(unopened)} cannot be opened, here as there: see braided serve repair", err=True
        )
        raise typer.Exit(1)
