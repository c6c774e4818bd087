# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# What was compiled once is not compiled again by each process of the tests, whatever the caller's environment says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick fuzz serve check format bench chaos simulate fleet soak samples settings-page conformance conformance-list clean

demo: $(STAMP)
	$(BIN)/python bench/demo.py

# Several at a time, in the order of tests/conftest.py: most tests wait for processes, not for a core.
WORKERS ?= 4
test: $(STAMP)
	$(BIN)/python -m pytest tests -rs -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# What needs no service, no PostgreSQL, no S3 and no browser: under 60 s of CPU.
QUICK := tests/batching/test_longjson.py tests/batching/test_model.py tests/classification tests/coordination tests/dispatch/test_answer_checks.py \
	tests/docs/test_architecture.py tests/domain tests/links tests/reading/files tests/reading/office tests/reading/pdf tests/settings tests/simulator
quick: $(STAMP)
	$(BIN)/python -m pytest $(QUICK)

# FUZZ_SECONDS=3600 is an hour. schemathesis has its own environment: it is no dependency of Quire.
FUZZ_SECONDS ?= 600
fuzz: $(STAMP)
	test -x .venv-fuzz/bin/st || (python3 -m venv .venv-fuzz && .venv-fuzz/bin/pip install -q schemathesis==4.32.5)
	$(BIN)/python bench/fuzz.py --seconds $(FUZZ_SECONDS)

coverage: $(STAMP)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest tests
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

serve: $(STAMP)
	$(BIN)/quire serve

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)
	$(BIN)/python bench/run.py

# A fleet is hurt at its state changes; the same SEED draws the same faults. FAULTS=44 is each kind twice, about five minutes.
FAULTS ?= 44
chaos: $(STAMP)
	$(BIN)/python bench/chaos.py --faults $(FAULTS) $(if $(SEED),--seed $(SEED))

# Seeded schedules of claims, leases, epochs and lost data on virtual time.
SCHEDULES ?= 1000
simulate: $(STAMP)
	$(BIN)/python bench/simulate.py --schedules $(SCHEDULES) $(if $(SEED),--first $(SEED))

# Hosts are network namespaces; skipped with a sentence where they can't be made.
fleet: $(STAMP)
	$(BIN)/python bench/fleet.py $(if $(SEED),--seed $(SEED))

DOCUMENTS ?= 20000
soak: $(STAMP)
	$(BIN)/python bench/soak.py --documents $(DOCUMENTS)

samples: $(STAMP)
	$(BIN)/python samples/make.py

settings-page: $(STAMP)
	$(BIN)/python -c "import quire.settings as s; print(s.render_markdown(), end='')" > docs/settings.md

# SOURCE=004 runs the requirements of one source; the page keeps the outcomes of the others.
conformance: $(STAMP)
	$(BIN)/python -m pytest tests/conformance$(if $(SOURCE),/test_source_$(SOURCE).py) -p tests.conformance.conformance_report -n 2 --dist loadfile

conformance-list: $(STAMP)
	$(BIN)/python -m tests.conformance.requirement_list

clean:
	rm -rf $(VENV) quire-data

# What is imported is compiled when it first is: most of what comes along never is.
$(STAMP): pyproject.toml constraints.txt
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)
