# Two commands do everything on a machine with Python >= 3.11 and make: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
UV := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url

.PHONY: demo test lab golden-from-lab help-text lock clean

demo: $(VENV)/run.stamp ## capture, verify and replay the golden recordings, in a throw-away archive
	$(BIN)/python -m forensic.demo

test: $(VENV)/test.stamp ## everything that CI checks
	$(BIN)/python -m pytest

lab: $(VENV)/test.stamp ## real clients with our hooks: all that they do is recorded, nothing is disturbed; needs the lab, npm and root
	PYTHONPATH=tests:tests/lab $(BIN)/python tests/lab/lab_table.py --install $(LAB_OPTIONS)

golden-from-lab: $(VENV)/test.stamp ## add the golden recordings that are live captures and not there; needs the same
	PYTHONPATH=tests:tests/lab $(BIN)/python tests/lab/lab_golden.py $(LAB_OPTIONS)
	$(BIN)/python -m pytest -q tests/test_golden.py tests/test_manifests.py --snapshot-update

help-text: $(VENV)/run.stamp ## renew the text that `forensic --help` shows
	$(BIN)/python -m forensic.cli.app --help > forensic/cli/help.txt

lock: ## renew the pins; needs uv
	echo 'hatchling>=1.27' | $(UV) pyproject.toml - -o requirements/lock.txt
	$(UV) pyproject.toml --extra dev -c requirements/lock.txt -o requirements/lock-dev.txt

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "forensic needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: requirements/lock.txt pyproject.toml | $(BIN)/python
	$(PIP) --require-hashes -r requirements/lock.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/test.stamp: requirements/lock-dev.txt $(VENV)/run.stamp
	$(PIP) --require-hashes -r requirements/lock-dev.txt
	touch $@
