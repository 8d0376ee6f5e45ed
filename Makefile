# `make demo` runs the main example, `make test` what every change is checked by, `make check` all the
# rest: long tests, other tools, new random examples. Each sets up what it needs in .venv first.
PYTHON ?= python3
BIN := .venv/bin

C := $(shell find blocks benchmarks examples -name '*.[ch]' -o -name '*.cpp')

# what many processes import is compiled once
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test check bench docs notebooks format clean

demo: .venv/demo
	$(BIN)/python examples/01_planar2ctrl.py

test: .venv/test
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(C)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto --dist worksteal -m "not slow and not interop"

check: .venv/check
	$(BIN)/pytest -n auto --dist worksteal -m "slow or interop or hypothesis" --hypothesis-profile=new
	$(BIN)/python tests/mutation/mutate.py --number 11

bench: .venv/bench
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/figures.py

docs: .venv/check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

notebooks: .venv/check
	$(BIN)/python docs/notebooks.py --run

format: .venv/test
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C)
	$(BIN)/ruff check --fix .

# each stamp is one set of extras, installed anew when pyproject.toml changes
.venv/demo: EXTRAS = zig,data,plot
.venv/test: EXTRAS = zig,data,mdf,plot,test
.venv/check: EXTRAS = zig,data,mdf,plot,view,video,notebook,test,site,interop
.venv/bench: EXTRAS = zig,data,mdf,plot,view,video,notebook,test,site,interop,peers
.venv/demo .venv/test .venv/check .venv/bench: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf .venv build
