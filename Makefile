# Everyday commands. Each makes or refreshes .venv first, so that any of them works alone in a fresh clone with
# Python 3.11 or newer and make.

PY := .venv/bin/python
PYTEST_ARGS ?=
# tests/conftest.py says how many; PYTEST_ARGS="-n 0 ..." runs them in this one, as -s and a debugger need it.
PYTEST_PROCESSES ?= -n auto
DEMO_ARGS ?=
BENCH_ARGS ?=
OLD_PEERS_ARGS ?=
FIRST_STEPS ?=
SHADOW ?= tests/shadow
# pytest rewrites the assertions of its plugins, hypothesis among them, in each process anew where Python may not
# keep what it compiled, as the environment of many containers tells it.
unexport PYTHONDONTWRITEBYTECODE
FUZZ ?= 5m
FUZZ_ARGS ?=
SIMULATE ?=
MUTANTS ?=
NESTED ?= 10000
STORM ?= 50
STREAMS ?=
FAULTS ?=
RUN_EXTRAS := compiler,dagster,demo,java,objectstore,spark,text
DEV_EXTRAS := $(RUN_EXTRAS),peer,dev,docs,ui

.DEFAULT_GOAL := help
.PHONY: help demo first-steps ui ui-shots test airflow check coverage lowest simulate mutants storm streams faults lint docs bench release protos constraints old-peers shadow fuzz nested clean env env-dev

help: ## List the targets
	@while IFS= read -r line; do case "$$line" in [a-z]*:*"## "*) \
		printf '  make %-12s %s\n' "$${line%%:*}" "$${line#*## }";; esac; done < Makefile

demo: env ## Run every operation on real flight data through Dagster on local Spark
	@.venv/bin/lance-ops warmup
	@.venv/bin/lance-ops demo $(DEMO_ARGS)

first-steps: env-dev ## Run docs/first-steps.md in an empty folder, each step with its time (FIRST_STEPS=--bare installs the wheel)
	@$(PY) tools/first_steps.py $(FIRST_STEPS)

ui: env ## Open the Dagster UI on the demo's datasets (loopback only)
	@.venv/bin/lance-ops ui

test: env-dev ## Run all tests but those of the Airflow provider (PYTEST_ARGS=... for some of them)
	@$(PY) -m lance_ops warmup
	@$(PY) tools/azurite.py
	@$(PY) -m pytest -q -m "not airflow" $(PYTEST_PROCESSES) $(PYTEST_ARGS)

airflow: env-dev ## Test the Airflow provider in an environment with Airflow (needs a package index)
	@$(PY) -m pytest -q -m airflow tests/airflow $(PYTEST_ARGS)

check: env-dev ## Style, types, floors and the unit tests: an answer within 90 seconds
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports --no-logo
	@HYPOTHESIS_PROFILE=quick $(PY) -m pytest -q -m unit $(PYTEST_PROCESSES) $(PYTEST_ARGS)

coverage: env-dev ## Measure how many lines the unit tests run, and write it into CONTRIBUTING.md
	@LANCE_OPS_COVERAGE=write $(PY) -m pytest -q -m unit $(PYTEST_PROCESSES)

lowest: env-dev ## Run the unit tests with the oldest allowed dependencies, without pandas (needs a package index)
	@$(PY) tools/lowest.py $(PYTEST_ARGS)

ui-shots: env-dev ## Take the pictures of docs/images in a browser, while the tests of the pages run
	@LANCE_OPS_PICTURES=docs/images $(PY) -m pytest -q -n 0 -m ui --basetemp=/tmp/lake tests/ui tests/fleet/report $(PYTEST_ARGS)

simulate: env-dev ## Run the product on a simulated store, seed after seed (SIMULATE="--seeds 0:1000000 --minutes 60")
	@PYTHONHASHSEED=0 $(PY) -m tests.simulator run $(SIMULATE)

mutants: env-dev ## Break the safety code in many ways, and find the seeds that notice (MUTANTS="--most 500 cleanup")
	@PYTHONHASHSEED=0 $(PY) -m tests.simulator mutants $(MUTANTS)

streams: env-dev ## Crash and kill streaming queries for much longer than the tests do (STREAMS="--foreign 100 --kills 3")
	@RUST_LOG=off $(PY) -W ignore -m tests.safety.streams $(STREAMS)

faults: env-dev ## Kill processes of a deployment at random, and all at once (FAULTS="--minutes 10 --cuts 2 --postgres")
	@RUST_LOG=off $(PY) -W ignore -m tests.safety.fleet $(FAULTS)

storm: env-dev ## Compact while four processes delete and update, and the same with the official library (STORM="50 1")
	@RUST_LOG=off $(PY) -W ignore -m tests.safety.storm $(STORM)

shadow: env-dev ## Do each read and write of tests and scripts for the peer twice and compare (SHADOW="files or folders")
	@LANCE_LOG=error $(PY) -W ignore tools/shadow.py $(SHADOW)

fuzz: env-dev ## Damage data files and indices at random for longer than the tests do (FUZZ=30m or FUZZ=1000000)
	@$(PY) -m tests.fuzz --for $(FUZZ) $(FUZZ_ARGS)

nested: env-dev ## Exchange random nested types with the official library, by scan and take (NESTED=10000 cases)
	@RUST_LOG=off $(PY) -W ignore -m tests.file.matrix.nested_campaign --cases $(NESTED)

lint: env-dev ## Check style, types, the floors, and that lance_ops/pb fits protos/
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports --no-logo
	@$(PY) tools/generate_protos.py --check

docs: env-dev ## Build the site of docs/ into site/; a dead link or a public name without a place fails
	@$(PY) -m tools.docs_reference
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	@echo "open site/index.html"

bench: env-dev ## Measure against the peer and print ratios
	@$(PY) -m benchmarks $(BENCH_ARGS)

release: ## Build sdist and wheel, try them under Python 3.11 to 3.13, and write the release notes (needs a package index)
	@python3 -m tools.release

protos: env-dev ## Generate lance_ops/pb from protos/
	@$(PY) tools/generate_protos.py

constraints: ## Pin the newest set of dependencies that resolves (needs uv)
	@uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --upgrade --quiet \
		--no-annotate --no-header --no-emit-index-url --no-emit-find-links --output-file constraints.txt

old-peers: env-dev ## Exchange files, tables and indices with old releases of the peer, and write docs/old-peers.md (needs a package index)
	@$(PY) -W ignore tools/old_peers.py $(OLD_PEERS_ARGS)

clean: ## Remove the environment, the demo's data and every cache
	@rm -rf .venv .demo .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist site
	@for entry in dagster_home/* dagster_home/.[!.]*; do \
		[ "$$entry" = dagster_home/dagster.yaml ] || rm -rf "$$entry"; done

env:
	@sh tools/bootstrap.sh $(RUN_EXTRAS)

env-dev:
	@sh tools/bootstrap.sh $(DEV_EXTRAS)
