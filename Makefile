# Two commands: `make demo` and `make test`. Both create .venv and install what they need on first use.
#   make test EXTRAS=all   also installs the heavy extras and runs their tests
#   make check             ruff, mypy, and the site of docs/ into site/
#   make slow              the tests that take minutes (reproduction of published figures)
PYTHON ?= python3
EXTRAS ?=
BIN := .venv/bin
ifeq ($(EXTRAS),all)
DEV := .venv/.all
else
DEV := .venv/.dev
endif

# The live page and the report are tested in Chromium where it is there, or can be had as a Debian package.
BROWSER := { command -v chromium && command -v chromedriver || { test "$$(id -u)" = 0 && command -v apt-get && \
	timeout 120 apt-get -qq update && timeout 600 apt-get -qq install -y chromium chromium-driver; }; } >/dev/null 2>&1

.PHONY: demo test check slow clean

demo: .venv/.core
	$(BIN)/braided run --out demo
	@echo "the learning curve is in demo/curve.png, and the whole report in demo/report.html"

test: check
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@# No --quiet here: it hides the warnings that --strict is to count.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

slow: $(DEV)
	$(BIN)/python -m pytest -q -m slow

.venv/.python:
	$(PYTHON) -c "import sys; sys.exit('braided needs Python 3.11 or later' if sys.version_info < (3, 11) else 0)"
	$(PYTHON) -m venv .venv
	touch $@

.venv/.core: .venv/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/.dev: .venv/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ .venv/.core

.venv/.all: .venv/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all]'
	$(BROWSER) || echo "no chromium could be installed: the tests of the live page and of the report will be skipped"
	touch $@ .venv/.dev .venv/.core

clean:
	rm -rf .venv demo site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
