# Everything a newcomer or a CI machine does with this tree. `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DISTRO_PYTHON ?= 3.11

# Properties are tried on the same examples every time, so that a run tells about the change and not about luck;
# `make search` looks further afield.
SEED ?= 20260101
TESTING = PROPTEST_RNG_SEED=$(SEED) $(BIN)/python build_support/testing.py $(if $(WORKERS),--workers $(WORKERS))

.DEFAULT_GOAL := help
.PHONY: help build demo test test-rust test-quick test-real test-steady test-unit test-faults test-guest clients test-clients test-peer search lint format audit lock coverage bench docs \
	docs-serve generate pictures hooks former wheel deb rpm check-deb check-systemd check-rpm smoke sdist release-check release-notes clean distclean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What the installed package is made of: when one of these is newer, it is built and installed again.
SOURCES := $(shell find rust python proto build_support Cargo.toml Cargo.lock pyproject.toml clippy.toml \
	-type f -not -name '*.so' -not -path '*/__pycache__/*' -not -path '*/wheel-data/*' 2>/dev/null)

build: $(VENV)/.installed ## The commands in .venv/bin

$(VENV)/.tools: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Slotwise needs Python 3.11 or newer"; exit 1; }
	@$(PYTHON) build_support/toolchain.py
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "Slotwise needs Python's venv (Debian: apt install python3-venv)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	touch $@

$(VENV)/.installed: $(VENV)/.tools $(SOURCES)
	@test -e $@ || echo "Building Slotwise; the first time takes some minutes"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall .
	$(BIN)/slotwise-py condor-names >/dev/null
	touch $@

demo: build ## A personal pool at work, start to end (under two minutes after the build)
	$(BIN)/python -m slotwise.demo

test: build ## Every test that this host can run, in stages; what is skipped is named with the reason (TEST: one by its name)
	$(TESTING) $(TEST)

test-rust: ## The Rust crates' tests
	$(TESTING) --stage rust

test-quick: build ## Python tests that start no daemons of their own: unit, property, conformance, service
	$(TESTING) --stage quick

test-real: build ## Python tests with real daemons, hosts and clients
	$(TESTING) --stage real

test-steady: build ## The tests of processes N times (10), half of them beside two busy loops, with each one's failures (TEST: which)
	$(TESTING) --steady $(or $(N),10) $(TEST)

test-unit: build ## The inner loop: unit tests of Python, under half a minute
	$(BIN)/python -m pytest tests/unit -n auto -q -p no:cacheprovider

clients: $(VENV)/.tools ## The clients of HTCondor that install in seconds, in .clients; `make test` runs them, too
	$(BIN)/python build_support/clients.py

test-clients: build ## Real clients of HTCondor on a pool: dask-jobqueue, Parsl, law, Snakemake, HTMap, Toil ... (minutes)
	$(BIN)/python build_support/clients.py --large || true
	$(BIN)/python -m pytest tests/clients -rs -q -p no:cacheprovider

test-peer: build ## HTCondor's own tests on pools of ours (SNAPSHOT: a checkout of its sources; FILES: some; JOBS, 3; LIMIT, 180 s each; half an hour)
	@test -n "$(SNAPSHOT)" || { echo "SNAPSHOT=DIRECTORY: a checkout of HTCondor's sources"; exit 2; }
	$(BIN)/python -m tests.peer --jobs $(or $(JOBS),3) --limit $(or $(LIMIT),180) $(SNAPSHOT) $(FILES)

search: build ## The properties once more, on new random examples and many of them
	PROPTEST_CASES=2000 cargo test --release --workspace --quiet
	HYPOTHESIS_PROFILE=search SLOTWISE_CLASSAD_CASES=200000 SLOTWISE_CLASSAD_SEED=$$(date +%s) \
		$(BIN)/python -m pytest tests/property -q
	SLOTWISE_FUZZ_CALLS=20000 SLOTWISE_FUZZ_SEED=$$(date +%s) $(BIN)/python -m pytest tests/pool/test_fuzz.py -q

test-faults: build ## Random faults on a live pool (MINUTES, 60; SEED; ONE_HOST), and then what is lost, doubled or stuck (root, for hosts and full disks)
	$(BIN)/python -m tests.faults --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED)) $(if $(KEEP),--keep) \
		$(if $(ONE_HOST),--one-host)

test-guest: build ## Host tests in emulated guests: cgroup version 2, LVM, Docker below systemd, machines that sleep (up to an hour; root)
	@status=0; export PYTHON=$(abspath $(BIN))/python; \
	bash tests/host/guest.sh || status=1; bash tests/host/power_guest.sh || status=1; \
	INIT=systemd bash tests/host/guest.sh tests/host/test_docker.py::test_containers_are_in_slices_of_systemd_where_its_groups_are_dockers \
		|| status=1; exit $$status

lint: build ## Formatting, lints, types, import rules
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/stubtest slotwise._native --mypy-config-file pyproject.toml
	$(BIN)/lint-imports
	$(BIN)/codespell

hooks: $(VENV)/.tools ## Fast lints before each commit, in this checkout (needs pre-commit)
	@command -v pre-commit >/dev/null || { echo "no pre-commit: pipx install pre-commit"; exit 1; }
	pre-commit install

audit: $(VENV)/.tools ## Known vulnerabilities, licences and sources of the dependencies, where the tools and their data are at hand
	$(BIN)/python build_support/audit.py

lock: ## Write requirements.lock and those of tests/clients anew, with the hashes of all files of its versions (needs uv)
	$(PYTHON) build_support/lock.py

format: ## Put the sources into the standard form
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: build ## How much of the package and of the crates the tests run, package by package
	$(BIN)/python build_support/coverage.py $(COVERAGE)

generate: build ## Write everything anew that is generated from other sources: messages, reference pages
	PYTHONPATH=python $(BIN)/python -m slotwise.wire.generate
	$(BIN)/python -m slotwise.config.document docs/reference
	$(BIN)/python -m slotwise.submit.document docs/reference
	$(BIN)/python -m slotwise.classad.places docs/reference
	$(BIN)/python -m slotwise.cli.document docs/reference
	$(BIN)/python -m slotwise.model.hold_explanations docs/reference
	PYTHONPATH=python $(BIN)/python -m slotwise.wire.document docs/reference
	$(BIN)/python -m slotwise.wire.callers_document docs/reference
	$(BIN)/python -m slotwise.schedd.lifecycle.diagram docs/reference
	$(BIN)/python -m slotwise.startd.slot.diagram docs/reference
	$(BIN)/python -m slotwise.starter.run.diagram docs/reference
	$(BIN)/python -m tests.support.manual.coverage
	$(BIN)/python -m tests.support.coming_from_htcondor
	$(BIN)/python -m tests.peer.document

pictures: build ## The pictures of the README, from real runs (needs chromium)
	$(BIN)/python -m tests.support.pictures

# The tools of the site are not those of the build: a virtual environment of their own.
DOCS := .venv-docs

$(DOCS)/.tools: requirements-docs.txt
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	touch $@

docs: $(DOCS)/.tools ## The documentation as a site with search, in site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@$(DOCS)/bin/python build_support/site_search.py site
	@echo "site/index.html"

docs-serve: $(DOCS)/.tools ## The same at http://127.0.0.1:8000, made anew when a page changes
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs serve --strict

# PYTHON builds; the wheel serves every Python from 3.11 on. Releases are built in a manylinux container with
# MATURIN_PEP517_ARGS="--compatibility manylinux_2_28".
wheel: ## A wheel in dist/: package, extension module, launcher
	$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

former: ## A wheel of a former version in build/former/, which tests/pool/test_versions.py works with (FORMER: its tag)
	@test -n "$(FORMER)" || { echo "which version? make former FORMER=v0.1.0"; exit 1; }
	rm -rf build/former && mkdir -p build/former/source
	git archive $(FORMER) | tar -x -C build/former/source
	CARGO_TARGET_DIR=$(CURDIR)/target/former $(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps \
		--wheel-dir build/former build/former/source
	rm -rf build/former/source

deb: build wheel ## A Debian package in dist/ (DISTRO_PYTHON: the distribution's Python, 3.11)
	$(BIN)/python packaging/build.py deb dist/slotwise-*.whl --python $(DISTRO_PYTHON) --extras web

rpm: build wheel ## An RPM package in dist/ (needs rpmbuild)
	$(BIN)/python packaging/build.py rpm dist/slotwise-*.whl --python $(DISTRO_PYTHON) --extras web

check-deb: deb ## The Debian package in a fresh Debian: used, upgraded, purged; a pool of three hosts from it (root, mmdebstrap)
	$(BIN)/python packaging/check.py dist/slotwise_*.deb
	$(BIN)/python packaging/check_hosts.py dist/slotwise_*.deb

check-systemd: deb ## The Debian package on a host that systemd runs, an emulated one: restarts, upgrades, removal (root, qemu)
	INIT=systemd COMMAND="bash packaging/check_systemd.sh $$(ls dist/slotwise_*.deb)" tests/host/guest.sh

check-rpm: rpm ## The RPM package in the same way, by rpm in a fresh Debian (root, mmdebstrap)
	$(BIN)/python packaging/check.py dist/slotwise-*.rpm

smoke: ## The wheel in dist/ in an environment of its own: a pool runs jobs
	rm -rf build/smoke && $(PYTHON) -m venv build/smoke
	build/smoke/bin/python -m pip install --quiet --disable-pip-version-check dist/slotwise-*.whl
	build/smoke/bin/slotwise --version
	build/smoke/bin/python -m slotwise.demo

sdist: ## The sources in dist/, as they go to the package index
	rm -rf build/sdist && $(PYTHON) -m venv build/sdist
	build/sdist/bin/python -m pip install --quiet --disable-pip-version-check build
	build/sdist/bin/python -m build --sdist --outdir dist .

release-check: ## Whether the tree may be released as TAG (v0.1.0): version, changelog, recorded messages, metadata
	$(PYTHON) build_support/release.py check $(TAG)

release-notes: ## The changelog's section of the present version
	@$(PYTHON) build_support/release.py notes

bench: build ## The benchmarks, side by side with HTCondor where it has the same thing
	$(BIN)/python bench/run.py

clean: ## Remove what was built; keep the virtual environment
	cargo clean --quiet
	rm -rf build_support/wheel-data dist build site coverage bench/out .pytest_cache .mypy_cache .ruff_cache .hypothesis $(VENV)/.installed
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## Remove the virtual environments too
	rm -rf $(VENV) $(DOCS) .clients
