# `make demo` runs the main example. `make test` runs the checks that every change must pass. `make
# check` runs the other tests: long tests, other tools, new random examples. Of tests with many long
# cases, it runs a third each day; `make campaign` runs all cases. Each target first sets up the
# environment .venv.
PYTHON ?= python3
BIN := .venv/bin

C := $(shell find blocks benchmarks examples -name '*.[ch]' -o -name '*.cpp')

# Python stores the compiled modules, because many processes import them
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test check campaign bench docs notebooks format clean

demo: .venv/demo
	$(BIN)/python examples/01_planar2ctrl.py

test: .venv/test
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(C)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto --dist worksteal -m "not (slow or interop or autodiff)"

# half the compile time, and a second optimization level with the same results; a test that hangs ends
# its worker after 10 min with a traceback
check: export RIGIDBLOCKS_OPTIMIZE := 1
check: .venv/check
	$(BIN)/pytest -n auto --dist worksteal -m "(slow or interop or hypothesis) and not autodiff" \
	    --hypothesis-profile=new --third-of-day $(shell date +%j) \
	    -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true
	$(BIN)/python tests/mutation/mutate.py --number 11

# the long tests with all cases and with the full sizes of statistical tests, and the tests that need
# JAX or PyTorch
campaign: .venv/campaign
	FULL_TESTS=1 $(BIN)/pytest -n auto --dist worksteal -m "slow or interop or hypothesis or autodiff"

bench: .venv/bench
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/figures.py

docs: .venv/check
	$(BIN)/python docs/build_site.py

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
.venv/campaign: EXTRAS = zig,data,mdf,plot,view,video,notebook,test,site,interop,autodiff
.venv/bench: EXTRAS = zig,data,mdf,plot,view,video,notebook,test,site,interop,peers
.venv/demo .venv/test .venv/check .venv/campaign .venv/bench: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf .venv build
