# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint types bench docs clean

$(STAMP): pyproject.toml plugins/mxnet_compat/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[demo,test,lint]" -e plugins/mxnet_compat
	touch $(STAMP)

# Train LeNet on MNIST; prints the test accuracy and writes pictures to demo_output/.
demo: $(STAMP)
	$(BIN)/python examples/lenet_mnist.py --output demo_output

test: $(STAMP)
	$(BIN)/python -m pytest
	$(BIN)/python -m pytest --doctest-modules mxcore docs README.md --doctest-glob="*.md" -p no:randomly
	$(BIN)/python -m mxcore.testing.engine_programs --engine seeded --programs 2000 --ops 50-200

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP)
	$(BIN)/mypy

# Ratios to peers: make bench MXNET=/path/to/python TORCH=/path/to/python
bench: $(STAMP)
	$(BIN)/python benchmarks/run.py $(if $(MXNET),--mxnet $(MXNET)) $(if $(TORCH),--torch $(TORCH))

# The operator reference, generated from the records.
docs: $(STAMP)
	$(BIN)/python docs/build_reference.py

clean:
	rm -rf $(VENV) demo_output build dist
