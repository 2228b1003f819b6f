# Spillway's commands. `make` or `make help` lists them.
.DEFAULT_GOAL := help
SHELL := bash
PY := .venv/bin/python
# More arguments for the command behind a target: make test ARGS="-k tick -x"
ARGS ?=
# Two processes share the tests, module by module (tests/conftest.py).
PARALLEL ?= -n 2 --dist loadscope --no-loadscope-reorder

# Spark's Python workers import our modules from here; another Spark on the machine must not be picked up.
export PYTHONPATH := $(CURDIR)
unexport SPARK_HOME
unexport VIRTUAL_ENV

.PHONY: help setup dev run test test-all lint fmt bench bench-long bench-recovery bench-parts bench-adapt bench-store bench-watchers bench-commands bench-migrate bench-reorder bench-order bench-advice reproduce reproduce-long fuzz chaos lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: ## make .venv with what Spillway runs with, check Java (again only when the lock changes)
	@tools/setup.sh

dev: ## the same, with what its tests and tools need
	@tools/setup.sh dev

run: setup ## console, control and engine with a live demo query; Ctrl-C stops them
	@$(PY) run.py up $(ARGS)

test: ## the tests, without the long ones and the benchmarks (Chromium included); ARGS="-n 0" in one process
	@tools/setup.sh test
	@$(PY) -m pytest $(PARALLEL) -m "not long and not bench" $(ARGS)

test-all: ## the tests and the long ones, without the benchmarks: hours
	@tools/setup.sh test
	@$(PY) -m pytest $(PARALLEL) -m "not bench" --timeout 7200 $(ARGS)

lint: dev ## ruff's rules and format, mypy in strict mode
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

fmt: dev ## format the code and fix what can be fixed
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

bench: dev ## measure against Spark's own join and DuckDB (ARGS="--help")
	@$(PY) -m tests.bench $(ARGS)

bench-long: dev ## the long benchmark: 3 x 4 M rows, 80 files a stream
	@$(PY) -m tests.bench tri-long $(ARGS)

bench-recovery: dev ## time to be back after kill -9, against reading the state from disk
	@$(PY) -m tests.bench.recovery $(ARGS)

bench-parts: dev ## what an exchange and expiry cost
	@$(PY) -m tests.bench.parts $(ARGS)

bench-adapt: dev ## what moves, spills and decisions cost
	@$(PY) -m tests.bench.adapting $(ARGS)

bench-store: dev ## a store with 7 days of samples: writes, reads, sizes
	@$(PY) -m tests.bench.store $(ARGS)

bench-watchers: dev ## fifty open pages over a full store: latency, CPU, memory
	@$(PY) -m tests.bench.watchers $(ARGS)

bench-commands: dev ## from a command to its first step, in the running demo
	@$(PY) -m tests.bench.commands $(ARGS)

bench-migrate: dev ## how long results stand still while the join order changes
	@$(PY) -m tests.bench.migrating $(ARGS)

bench-reorder: dev ## a join in another order half way: Spark's restart beside our migration
	@$(PY) -m tests.bench.reordered $(ARGS)

bench-order: dev ## W4 in a better join order: rows in between, speed, before and after
	@$(PY) -m tests.bench.better_order $(ARGS)

bench-advice: dev ## migrations: predicted beside measured, and whether the advised strategy is the best
	@$(PY) -m tests.bench.advice $(ARGS)

reproduce: setup ## the papers' figures (ARGS="fig11", ARGS="--long"); pages in docs/papers
	@$(PY) run.py reproduce $(ARGS)

reproduce-long: setup ## the same with budgets of 50 MB a node and more: hours, tens of GB in data/papers
	@$(PY) run.py reproduce --long $(ARGS)

fuzz: dev ## the tests with random examples once more, with fresh ones each time
	@HYPOTHESIS_PROFILE=fresh $(PY) -m pytest -m "hypothesis and not long and not bench" $(ARGS)

chaos: dev ## the long tests: hundreds of kills, thousands of examples of every property
	@HYPOTHESIS_PROFILE=long $(PY) -m pytest -m "(long or hypothesis) and not bench" --timeout 7200 $(ARGS)

lock: ## write the lock files anew from pyproject.toml (needs the network)
	@tools/lock.sh $(ARGS)

clean: ## remove .venv, caches and generated data, but no state and no results
	@rm -rf .venv .setup.lock .pytest_cache .mypy_cache .ruff_cache .hypothesis data/bench spark-warehouse
