# make tour    set up once, then tell the stories
# make test    set up once, then lint, types and all tests
# make docs    the documentation as a site, in site/
# make versions    contract suite, modes and tour on each supported TensorFlow, in an environment of its own

PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
VERSIONS ?= 2.16.2 2.21.0 2.22.0rc0
VERSION_TESTS ?= tests/contract tests/define/test_modes.py tests/override/test_modes.py
export TF_CPP_MIN_LOG_LEVEL ?= 3
export TF_ENABLE_ONEDNN_OPTS ?= 0
export CUDA_VISIBLE_DEVICES ?= -1
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1

.PHONY: tour test lint types unit browser docs bench versions clean
.SECONDARY:

tour: $(STAMP)
	$(BIN)/pullback tour

test: lint types unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/pyright

unit: $(STAMP) browser
	$(BIN)/python -m pytest -n $(WORKERS)

# Pages are tested in a real browser: chromium, or whatever BROWSER names.
browser:
	@command -v "$${BROWSER:-chromium}" > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } \
	|| { echo 'The tests need chromium: install it, or name a browser of its kind: make BROWSER=/path/to/it'; exit 1; }

docs: $(STAMP)
	$(BIN)/zensical build --strict --clean

bench: $(STAMP)
	for file in benchmarks/[a-z]*.py; do PYTHONPATH=. $(BIN)/python $$file || exit 1; done

versions: $(VERSIONS:%=on-%)

on-%: .venv-%/.installed
	.venv-$*/bin/python -m pytest -n $(WORKERS) $(VERSION_TESTS)
	.venv-$*/bin/pullback tour

# NumPy, Keras and the rest are whatever fits that TensorFlow: constraints.txt holds for one TensorFlow alone.
.venv-%/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-$*
	printf 'tensorflow==%s\ntensorflow-cpu==%s\n' $* $* > .venv-$*/constraints.txt
	.venv-$*/bin/python -m pip install --quiet hatchling editables
	.venv-$*/bin/python -m pip install --quiet -c .venv-$*/constraints.txt --no-build-isolation -e '.[tensorflow-cpu,test]'
	touch $@

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pullback needs Python 3.11+: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt hatchling editables
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .venv-* site .cache
