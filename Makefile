# Two commands matter: `make run` and `make test`. What they need they install themselves.

PYTHON ?= python3
BIN := .venv/bin
STAMPS := .venv/stamps
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check
WEB := backend/pillarbox/web/index.html
SOURCES := $(shell find frontend project.inlang -type f -not -path '*/paraglide/*' 2>/dev/null) vite.config.ts

.PHONY: run test bench lint types units integration browser-tests wheel client lock clean

run: $(STAMPS)/run $(WEB)
	@exec $(BIN)/pillarbox serve

test: lint types units integration wheel browser-tests

bench: $(STAMPS)/bench node_modules/.stamp
	npm --prefix benchmarks/palette ci --silent
	$(BIN)/python -m benchmarks

# -- the parts of `make test` ------------------------------------------------------------------------

lint: $(STAMPS)/dev node_modules/.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	npx biome check .
	$(BIN)/python tools/check_files.py

types: $(STAMPS)/dev $(WEB)
	npx pyright
	npx svelte-check --tsconfig ./tsconfig.json --fail-on-warnings
	$(MAKE) client
	git diff --exit-code --stat -- frontend/src/lib/api/schema.d.ts

units: $(STAMPS)/dev $(WEB)
	npx vitest run
	$(BIN)/pytest tests/unit

integration: $(STAMPS)/dev $(WEB)
	$(BIN)/python tools/debian.py pgbouncer
	$(BIN)/pytest tests/integration tests/chaos

wheel: $(STAMPS)/dev $(WEB)
	$(BIN)/pytest tests/wheel

browser-tests: $(STAMPS)/dev $(WEB)
	$(BIN)/python tools/debian.py chromium
	$(BIN)/pytest e2e

# -- what is made ------------------------------------------------------------------------------------

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Pillarbox needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …")'
	$(PYTHON) -m venv .venv
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: $(STAMPS)/venv requirements/run.txt pyproject.toml
	$(PIP) --require-hashes -r requirements/run.txt
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(STAMPS)/dev: $(STAMPS)/run requirements/dev.txt
	$(PIP) --require-hashes -r requirements/dev.txt
	@touch $@

$(STAMPS)/bench: $(STAMPS)/run requirements/bench.txt
	$(PIP) --require-hashes -r requirements/bench.txt
	@touch $@

node_modules/.stamp: package.json package-lock.json
	@command -v npm >/dev/null || { echo "Pillarbox needs Node 20 or newer with npm to build its page"; exit 1; }
	npm ci
	@touch $@

$(WEB): node_modules/.stamp $(SOURCES)
	npm run build
	@touch $@

client: $(STAMPS)/run node_modules/.stamp
	$(BIN)/pillarbox openapi > .venv/openapi.json
	npx openapi-typescript .venv/openapi.json --alphabetize --output frontend/src/lib/api/schema.d.ts
	npx biome format --write frontend/src/lib/api/schema.d.ts

COMPILE := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate pyproject.toml
lock: $(STAMPS)/venv
	$(PIP) uv
	$(COMPILE) --group install -o requirements/run.txt
	$(COMPILE) --group install --group dev -o requirements/dev.txt
	$(COMPILE) --group install --group dev --group bench -o requirements/bench.txt

clean:
	rm -rf .venv node_modules backend/pillarbox/web dist
