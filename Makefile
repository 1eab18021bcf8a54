# `make demo` and `make test` work on a fresh Debian 12 or 13: each installs what it needs first.
.DEFAULT_GOAL := help
DRIVER ?= qemu
.PHONY: help setup demo test lint fmt measure static

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## install what building, testing and the demo need (Debian packages, Rust, componentize-py, user 107)
	@scripts/setup

demo: ## boot a real VM through two WASM hooks and check every step (DRIVER=test: without QEMU and root)
	@scripts/setup $(if $(filter test,$(DRIVER)),build,run)
	@DRIVER=$(DRIVER) scripts/demo

test: ## formatting, lints, and all tests, the ones with real QEMU included
	@scripts/setup
	@scripts/test

lint: ## formatting and lints only
	@scripts/setup build
	@PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH"; cargo fmt --all --check && cargo clippy --workspace --all-targets -- -D warnings

fmt: ## format the sources
	@PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH"; cargo fmt --all

measure: ## time and memory of a launcher with one hook, against the reference's
	@scripts/setup run
	@scripts/measure

static: ## virt-hook as one static file, for an image FROM scratch (release build)
	@scripts/setup build
	@PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH"; cargo build --release -p virt-hook --target x86_64-unknown-linux-musl
	@ls -l "$${CARGO_TARGET_DIR:-target}/x86_64-unknown-linux-musl/release/virt-hook"
