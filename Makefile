# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test compat lint types bench docs clean

$(STAMP): pyproject.toml plugins/mxnet_compat/pyproject.toml plugins/engine_threaded/pyproject.toml \
  plugins/storage_pooled/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[demo,test,lint]" -e plugins/mxnet_compat -e "plugins/engine_threaded[test]" -e plugins/storage_pooled
	touch $(STAMP)

# Train LeNet on MNIST; prints the test accuracy and writes pictures to demo_output/.
demo: $(STAMP)
	$(BIN)/python examples/lenet_mnist.py --output demo_output

test: $(STAMP)
	$(BIN)/python -m pytest
	$(BIN)/python -m pytest --doctest-modules mxcore docs README.md --doctest-glob="*.md" --ignore=docs/reference
	$(BIN)/python -m mxcore.testing.engine_programs --engine seeded --programs 2000 --ops 50-200

# The other ends of what is supported: NumPy 1.26, and the newer Pythons that this machine has.
compat: $(STAMP)
	sh .ci/compat $(PYTHON) "numpy==1.26.4"
	for python in python3.12 python3.13 $(wildcard $(HOME)/.pyenv/versions/3.1[23].*/bin/python); do \
	  if $$python -c "" 2>/dev/null; then sh .ci/compat $$python numpy || exit 1; \
	  else echo "$$python is not here: not tested"; fi; \
	done

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
