# `make demo` runs the main example, `make test` the checks; both set up what they need in .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test interop bench format clean

demo: .venv/demo
	$(BIN)/python examples/01_planar2ctrl.py

test: .venv/test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto -m "not slow and not interop"

interop: .venv/interop
	$(BIN)/pytest -n auto -m "slow or interop"

bench: .venv/interop
	$(BIN)/python benchmarks/run.py

format: .venv/test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# each stamp is one set of extras, installed anew when pyproject.toml changes
.venv/demo: EXTRAS = zig,data,plot
.venv/test: EXTRAS = zig,data,plot,test
.venv/interop: EXTRAS = zig,data,plot,test,interop
.venv/demo .venv/test .venv/interop: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf .venv build
