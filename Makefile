# Builds, runs and tests Sluicegate on a fresh Debian 12: `make help`.
#
# BoringSSL is built once, into $(TARGET)/boringssl-<version>, and shared by every profile and by clippy. Plain `cargo build`
# works too, and builds BoringSSL for itself. To use a BoringSSL of your own, export BORING_BSSL_PATH.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help setup run build fmt fmt-check clippy doc deny venv example test test-long install clean
MAKEFLAGS += --no-print-directory

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
export CARGO_TARGET_DIR := $(TARGET)
export PATH := $(PATH):$(HOME)/.cargo/bin

# What the tests run: optimised, with debug assertions. Its settings are in Cargo.toml.
PROFILE ?= ci
CARGO ?= cargo
# How long the fuzz targets of a crate run, one after the other.
FUZZ_SECONDS ?= 60
# Where a command takes arguments: make run ARGS="-c sluicegate.toml".
ARGS ?=
PREFIX ?= /usr/local
DESTDIR ?=

# Packages that are no members of the workspace.
OUTSIDE := cc/examples/own-controller cc/fuzz server/fuzz
PACKAGES := cmake g++ git libclang-dev pkg-config python3-venv
RUST_NEEDED := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
BORING_VERSION := $(shell sed -n '/^name = "boring-sys"/{n;s/^version = "\(.*\)"/\1/p}' Cargo.lock)
AIOQUIC := aioquic==1.7.2
VENV := $(TARGET)/venv

ifdef BORING_BSSL_PATH
BORINGSSL :=
else
BORINGSSL := $(TARGET)/boringssl-$(BORING_VERSION)
export BORING_BSSL_PATH = $(BORINGSSL)
endif

help: ## Lists these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 14

setup: ## Installs the Debian packages that are missing and checks Rust's version
	@missing=""
	for package in $(PACKAGES); do
	    case $$package in
	        libclang-dev)
	            [ -n "$${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib/llvm-*/lib/libclang.so' >/dev/null ||
	                [ -e /usr/lib64/libclang.so ] || missing+=" $$package" ;;
	        python3-venv) python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing+=" $$package" ;;
	        *) command -v $$package >/dev/null || missing+=" $$package" ;;
	    esac
	done
	if [ -n "$$missing" ]; then
	    as_root=""
	    [ "$$(id -u)" = 0 ] || as_root=sudo
	    if command -v apt-get >/dev/null && { [ -z "$$as_root" ] || command -v sudo >/dev/null; }; then
	        echo "Installing$$missing"
	        $$as_root apt-get update -qq
	        $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing
	    else
	        echo "Missing:$$missing (names of Debian packages). Install them and try again." >&2
	        exit 1
	    fi
	fi
	if ! command -v $(CARGO) >/dev/null; then
	    echo "There is no cargo. Install Rust $(RUST_NEEDED) or newer by rustup: https://rustup.rs" >&2
	    echo "(Debian 12's own Rust is too old.)" >&2
	    exit 1
	fi
	found=$$(rustc --version | cut -d' ' -f2 | cut -d- -f1)
	if [ "$$(printf '%s\n' $(RUST_NEEDED) $$found | sort -V | head -n1)" != $(RUST_NEEDED) ]; then
	    echo "Rust is $$found ($$(command -v rustc)), $(RUST_NEEDED) or newer is needed: rustup update stable" >&2
	    echo "(rustup: https://rustup.rs; Debian 12's own Rust is too old.)" >&2
	    exit 1
	fi

# Exported by the build script of boring-sys, with its patches. It wants an empty folder, and does not run again for one
# that it has filled before; hence the clean.
$(BORINGSSL): | setup
	@echo "Building BoringSSL $(BORING_VERSION), once"
	unset BORING_BSSL_PATH
	rm -rf "$@.new"
	mkdir -p "$@.new"
	$(CARGO) clean --quiet --locked --profile $(PROFILE) -p boring-sys
	BORING_BSSL_INSTALL_DIR="$@.new" $(CARGO) build --quiet --locked --profile $(PROFILE) -p boring-sys
	mv "$@.new" "$@"

run: setup $(BORINGSSL) ## Builds with full optimisation and runs the server; ARGS="-c FILE" for a configuration
	@$(CARGO) run --locked --release -p sluicegate -- run $(ARGS)

build: setup $(BORINGSSL) ## Builds with full optimisation: target/release/sluicegate
	@$(CARGO) build --locked --release -p sluicegate

install: build ## Installs the binary below PREFIX (/usr/local) and the systemd unit
	@install -D -m 755 "$(TARGET)/release/sluicegate" "$(DESTDIR)$(PREFIX)/bin/sluicegate"
	install -D -m 644 deploy/sluicegate.service "$(DESTDIR)/etc/systemd/system/sluicegate.service"

fmt: setup ## Formats the code
	@$(CARGO) fmt --all
	for folder in $(OUTSIDE); do $(CARGO) fmt --manifest-path $$folder/Cargo.toml; done

fmt-check: setup
	@for component in fmt clippy; do
	    $(CARGO) $$component --version >/dev/null 2>&1 || rustup component add $${component/fmt/rustfmt}
	done
	echo "== format"
	$(CARGO) fmt --all --check
	for folder in $(OUTSIDE); do $(CARGO) fmt --manifest-path $$folder/Cargo.toml --check; done

clippy: setup $(BORINGSSL) ## Lints everything; warnings are errors
	@echo "== clippy"
	$(CARGO) clippy --quiet --locked --workspace --all-targets --profile $(PROFILE) -- -D warnings

doc: setup $(BORINGSSL) ## Builds the documentation of the crates; warnings are errors
	@echo "== documentation"
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --locked --workspace --no-deps --profile $(PROFILE)

deny: setup ## Checks licences, sources and banned crates, where cargo-deny is installed
	@echo "== dependencies"
	if $(CARGO) deny --version >/dev/null 2>&1; then
	    $(CARGO) deny --locked check bans licenses sources
	else
	    echo "skipped: cargo-deny is not installed (cargo install --locked cargo-deny)"
	fi

# A QUIC client that is not ours, for the end-to-end tests.
venv: setup $(VENV)/$(AIOQUIC)

$(VENV)/$(AIOQUIC):
	@echo "== Python client $(AIOQUIC)"
	rm -rf "$(VENV)"
	python3 -m venv "$(VENV)"
	"$(VENV)/bin/pip" install --quiet --disable-pip-version-check --retries 5 $(AIOQUIC)
	touch "$@"

# With the workspace's versions and profile, so that what is built already is not built again.
example: setup $(BORINGSSL) ## Tests the server with an algorithm of one's own, cc/examples/own-controller
	@echo "== example"
	cp Cargo.lock cc/examples/own-controller/Cargo.lock
	cd cc/examples/own-controller
	$(CARGO) test --quiet --profile $(PROFILE)
	$(CARGO) run --quiet --profile $(PROFILE) -- cc | grep -A1 '^constant$$'

# With any Rust: only running the targets needs nightly and cargo-fuzz.
fuzz-%: setup $(BORINGSSL)
	@echo "== fuzz targets of $*"
	RUSTFLAGS="--cfg fuzzing" $(CARGO) check --quiet --manifest-path $*/fuzz/Cargo.toml --target-dir "$(TARGET)/fuzz"

# The last lines are cargo test's own.
test: setup fmt-check deny venv $(BORINGSSL) clippy doc example fuzz-cc ## All checks that a change must pass, in under half an hour on two cores
	@echo "== build"
	$(CARGO) build --locked --workspace --profile $(PROFILE)
	echo "== test"
	SLUICEGATE_TEST_PYTHON="$(VENV)/bin/python" $(CARGO) test --locked --workspace --profile $(PROFILE)

test-long: setup venv $(BORINGSSL) fuzz-cc fuzz-server ## All tests, the long ones too
	@SLUICEGATE_TEST_PYTHON="$(VENV)/bin/python" $(CARGO) test --locked --workspace --profile $(PROFILE) -- --include-ignored
	echo "== fuzz"
	if rustup run nightly $(CARGO) fuzz --version >/dev/null 2>&1; then
	    for crate in cc server; do
	        targets=$$(basename -s .rs $$crate/fuzz/fuzz_targets/*.rs)
	        seconds=$$(( $(FUZZ_SECONDS) / $$(wc -w <<<"$$targets") ))
	        for target in $$targets; do
	            echo "$$crate: $$target"
	            corpus=$$crate/fuzz/corpus/$$target seeds=$$crate/fuzz/seeds/$$target
	            mkdir -p $$corpus
	            folders=$$corpus
	            [ ! -d $$seeds ] || folders+=" $$seeds"
	            rustup run nightly $(CARGO) fuzz run --fuzz-dir $$crate/fuzz $$target --sanitizer none $$folders -- \
	                -max_total_time=$$seconds -timeout=20 -seed=1
	        done
	    done
	else
	    echo "skipped: no nightly Rust with cargo-fuzz (rustup toolchain install nightly; cargo install cargo-fuzz)"
	fi

clean: ## Deletes everything that was built
	@$(CARGO) clean
