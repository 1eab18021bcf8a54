#!/bin/sh
# Runs a command in which cargo reports clippy's lints of what it compiles, each as an error: clippy-driver is rustc with more
# lints. `cargo clippy` would read every dependency a second time.
#
#   scripts/lib/with-lints.sh cargo build ...

# How cargo-clippy hands on its arguments, in the version that rust-toolchain.toml names.
CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
RUSTC_WORKSPACE_WRAPPER=clippy-driver
export CLIPPY_ARGS RUSTC_WORKSPACE_WRAPPER
exec "$@"
