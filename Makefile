# make demo   set up .venv, simulate stays, play the default match, print where the report is
# make test   set up .venv, check style and types, run the tests
# Both reuse .venv; PYTHON=python3.12 chooses the interpreter it is made with.

PYTHON ?= python3
BIN := .venv/bin
DEMO := data/demo.csv

.PHONY: demo test check clean
.DELETE_ON_ERROR:

demo: $(DEMO) .venv/ready
	@echo "== Playing a match: hider addnoise against every seeker"
	@$(BIN)/python main.py -d $(DEMO) -o output --hider addnoise --seeker all

$(DEMO): | .venv/ready
	@echo "== Simulating 300 intensive-care stays"
	@$(BIN)/python prepare_data.py simulate --stays 300 --features 20 --seed 0 -o $@

test: check
	@echo "== Running the tests"
	@$(BIN)/python -m pytest -n auto --dist loadgroup --durations=10

check: .venv/ready-dev
	@echo "== Checking style and types"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

.venv/ready: requirements.txt | .venv/bin/python
	@echo "== Installing what a match needs into .venv (about 2 minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

.venv/ready-dev: requirements-dev.txt requirements-cluster.txt requirements-deid.txt .venv/ready
	@echo "== Installing what the tests need into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "error: Python 3.10 or newer is needed; name one with: make PYTHON=/path/to/python3" >&2; exit 2; }
	@echo "== Creating .venv"
	@$(PYTHON) -m venv .venv || \
		{ rm -rf .venv; echo "error: no virtual environment could be made; on Debian: apt install python3-venv" >&2; exit 2; }

clean:
	rm -rf .venv output $(DEMO)
