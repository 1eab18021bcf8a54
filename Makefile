# `make demo` and `make test` work on a fresh Debian 12 or 13: each installs what it needs first.
.DEFAULT_GOAL := help
DRIVER ?= $(if $(MIGRATE),migration,qemu)
.PHONY: help setup demo test test-faults test-peer test-sigstore test-apiserver test-cluster test-kubevirt-programs test-upgrade lint fmt doc deny advisories msrv package semver fuzz cross book measure static image context dist reproducible release test-release shellcheck
SECONDS ?= 60
BASE ?= origin/main

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-22s %s\n", $$1, $$2 }' Makefile

setup: ## install what building, testing and the demo need (Debian packages, Rust, componentize-py, Go, user 107)
	@scripts/setup

demo: ## boot a real VM through two WASM hooks and check every step (MIGRATE=1: migrate one; DRIVER=test: without QEMU and root)
	@scripts/setup $(if $(filter test,$(DRIVER)),build,run)
	@DRIVER=$(DRIVER) scripts/demo

test: ## formatting, lints, and all tests, the ones with real QEMU included
	@scripts/setup
	@scripts/test

test-faults: ## the fault matrix: what dies, hangs, fills up or ends at every phase, and what leaks (ROWS=PART_OF_A_NAME)
	@scripts/setup run
	@scripts/test-faults $(if $(ROWS),"$(ROWS)")

test-peer: ## KubeVirt's own virt-handler against the release launcher, 150 VMs; PEER=DIR PEER_OUT=DIR name the harness
	@scripts/test-peer

lint: ## formatting and lints only
	@scripts/setup build
	@PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH"; cargo fmt --all --check && cargo clippy --workspace --all-targets -- -D warnings

shellcheck: ## the shell scripts; needs shellcheck, which Debian has
	@scripts/setup shellcheck
	@shellcheck .ci/run scripts/lib/*.sh $$(grep -rlI '^#!/bin/sh' scripts tests src)
	@shellcheck --shell=sh tests/src/pod/network.sh tests/src/pod/stock_image_additions.sh

fmt: ## format the sources
	@PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH"; cargo fmt --all

doc: ## rustdoc of all crates; a warning is an error
	@scripts/setup build
	@PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH"; RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

deny: ## licences, sources and duplicate versions of dependencies (deny.toml)
	@scripts/setup deny
	@scripts/deny

test-sigstore: ## signatures of modules against Sigstore's library and cosign; needs node, npm and the network
	@scripts/setup build
	@PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH"; cargo build --bin virt-hook
	@scripts/test-sigstore "$${CARGO_TARGET_DIR:-target}/debug/virt-hook"

test-apiserver: ## admission policies on a real kube-apiserver; KUBE_APISERVER=PROGRAM ETCD=PROGRAM, and kubectl
	@scripts/setup build
	@scripts/test-apiserver

test-cluster: ## this launcher in a real Kubernetes with KubeVirt's own control plane, beside KubeVirt's launcher (tests/cluster/README.md; ROWS=core|all|NAMES)
	@scripts/setup run
	@scripts/test-cluster

test-kubevirt-programs: ## KubeVirt's virt-probe, virt-freezer and libvirt-hook-client with this launcher and a guest; KUBEVIRT_PROGRAMS=DIR has them
	@scripts/setup run
	@PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH:/usr/sbin:/sbin"; cargo test --workspace --test e2e virt_probe_virt_freezer_and_hook_client -- --ignored

test-upgrade: ## a VM of another launcher migrates to this one and back; FROM=COMMIT, or STOCK_LAUNCHER=DIR with KubeVirt's own
	@scripts/setup run
	@scripts/test-upgrade

advisories: ## known vulnerabilities of dependencies; needs the network
	@scripts/setup deny
	@scripts/deny advisories

msrv: ## the hook SDK with the oldest Rust that it states
	@scripts/setup build
	@scripts/msrv

# Also for WebAssembly: only there are the bindings' calls to the host compiled. Cargo warns of each test that a package leaves
# out because it reads files of the workspace.
package: ## the crates of the hook SDK as they are published, each built from its package
	@scripts/setup build
	@PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH"; packages="-p hooks-sdk-domain-xml -p hooks-sdk-quantity -p hooks-sdk"; \
		cargo package $$packages && cargo package $$packages --target wasm32-wasip2

# hooks-sdk re-exports types of the other two crates, which semver-checks does not follow.
semver: ## the hook SDK's API against a git revision (BASE=REVISION)
	@scripts/setup semver
	@PATH="$${CARGO_TARGET_DIR:-target}/tools/bin:$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH"; cargo semver-checks --baseline-rev "$(BASE)" -p hooks-sdk-domain-xml -p hooks-sdk-quantity -p hooks-sdk

fuzz: ## every fuzz target for SECONDS each; needs a nightly toolchain
	@scripts/setup fuzz
	@scripts/fuzz "$(SECONDS)"

cross: ## all programs type-checked for aarch64, those without libvirt linked too
	@scripts/setup cross
	@scripts/check-aarch64

book: doc ## the documentation as a searchable site, with the rustdoc
	@scripts/setup book
	@scripts/build-book

measure: ## time and memory of a launcher with one hook, against the reference's
	@scripts/setup run
	@scripts/measure

static: ## virt-hook as one static file for amd64, for an image FROM scratch (release build)
	@scripts/setup build
	@scripts/build-static-virt-hook

context: ## what deploy/image/Containerfile copies (CONTEXT=NEW_DIRECTORY [IMAGE_POLICY=FILE] [IMAGE_HOOKS=DIR] [KUBEVIRT_VERSION=V])
	@scripts/setup build
	@scripts/build-launcher-image --context "$(CONTEXT)" "$(IMAGE_POLICY)" "$(IMAGE_HOOKS)"

image: ## the launcher's image on KubeVirt's (IMAGE_BASE=OCI_LAYOUT IMAGE=NEW_DIRECTORY [IMAGE_POLICY=FILE] [IMAGE_HOOKS=DIR] [KUBEVIRT_VERSION=V])
	@scripts/setup build
	@scripts/build-launcher-image "$(IMAGE_BASE)" "$(IMAGE)" "$(IMAGE_POLICY)" "$(IMAGE_HOOKS)"

dist: ## release binaries, checksums and SBOM (DIST=DIRECTORY; default: dist-files in the target directory)
	@scripts/setup dist
	@scripts/dist "$(or $(DIST),$${CARGO_TARGET_DIR:-target}/dist-files)"

release: ## everything that a release publishes: archives, package, image, SDKs, provenance, checksums (RELEASE=NEW_DIRECTORY [SIGN_KEY=PEM] [RELEASE_URL=URL])
	@scripts/setup dist
	@scripts/release "$(RELEASE)"

test-release: ## a release's files in empty roots, with nothing else of this project; as root (RELEASE=DIRECTORY [PUBLIC_KEY=PEM])
	@scripts/test-release "$(RELEASE)"

reproducible: ## two release builds of this commit in different directories have the same digests (DIST=DIRECTORY keeps them)
	@scripts/setup dist
	@scripts/dist --twice $(if $(DIST),"$(DIST)")
