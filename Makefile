# Every recipe that people and CI use. `make` lists them.

# Builds are shared between checkouts (a work tree and CI's clone) through one cache folder.
CACHE ?= $(or $(ASTRAGO_CACHE),$(HOME)/.cache/astrago)
export CARGO_TARGET_DIR ?= $(CACHE)/target
# What `make setup` builds because no package has it.
export PATH := $(PATH):$(CACHE)/bin
# The Python environment that tests and examples train with.
export ASTRAGO_TEST_PYTHON ?= $(CACHE)/python/bin/python3

CARGO := cargo
LOCKED := --locked

.DEFAULT_GOAL := help

help: ## List the recipes
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: ui ## Build the release binary, target/release/astrago
	$(CARGO) build $(LOCKED) --release --workspace --bin astrago
	@mkdir -p target/release
	@[ "$(CARGO_TARGET_DIR)" = "$(CURDIR)/target" ] || install -m 0755 "$(CARGO_TARGET_DIR)/release/astrago" target/release/astrago

run: build ## Build everything and start `astrago up`
	target/release/astrago up

ui: ## Build the web page (kept inside the binary)
	scripts/build-ui

test: setup ui ## Every test that needs no cluster
	$(CARGO) test $(LOCKED) --workspace
	$(MAKE) test-ui

# Built as for the tests: another selection of packages would unify features differently and recompile everything.
test-ui: setup ui ## The web page: units, then Chromium against a real `astrago up`
	$(CARGO) test $(LOCKED) --workspace --no-run
	cd ui && npm test && npm run e2e

test-steady: setup ui ## The Rust tests twenty times, alone and beside load (ROUNDS, TESTS)
	scripts/test-steady

fresh: ## Check, test and run in a bare Debian with an empty home (needs root)
	scripts/fresh

dist: ## What people install, into dist/: wheels, tarball, Debian package, image, SBOM, checksums
	scripts/dist

test-dist: ## Each of them installed into a clean root and tried there (needs root)
	scripts/dist-test

# As long as LAB_MINUTES or LAB_KILLS say. A finding names its LAB_SEED, which makes the same decisions again.
lab: export LAB_SEED ?= $(shell date +%s)
lab: export LAB_MINUTES ?= $(if $(LAB_KILLS),,60)
lab: export ASTRAGO_EGRESS ?= on
lab: ui ## Kill and disturb all of `astrago up` for an hour, and look for what it lost (LAB_MINUTES, LAB_KILLS, LAB_SEED)
	$(CARGO) test $(LOCKED) --release --workspace --test lab -- --nocapture

test-cluster: setup ui ## The end-to-end tests on a real Kubernetes control plane with Kubeflow Trainer
	scripts/cluster-build
	scripts/cluster-test

conformance: ui ## Kubernetes' own conformance tests against `astrago up` (FOCUS, SKIP)
	scripts/conformance "$(or $(FOCUS),.)" $(if $(SKIP),"$(SKIP)")

screenshots: setup ui ## Pictures of every page into docs/screenshots
	$(CARGO) test $(LOCKED) --workspace --no-run
	cd ui && npm run screenshots

check: ui ## Formatting, lints, generated files, house rules, dependency audit
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- -D warnings
	$(CARGO) xtask gen --check
	$(CARGO) xtask tidy
	scripts/audit
	$(MAKE) check-ui

check-ui: ui ## Generated and other types, lints and formatting of the web page
	cd ui && npm run --silent types -- --check && npx tsc && npm run lint

bench: setup ## The benchmarks, as ratios against a peer or a floor of the same run
	scripts/bench

fuzz: ## Fuzz every target for a minute each (FUZZ_SECONDS)
	scripts/fuzz

setup: ## What the tests need: system packages and a Python environment (cached)
	scripts/setup

fmt: ## Format the code
	$(CARGO) fmt --all

gen: ## Write the generated files
	$(CARGO) xtask gen

.PHONY: help build run ui test test-ui test-steady lab fresh dist test-dist test-cluster conformance screenshots check check-ui bench fuzz setup fmt gen
