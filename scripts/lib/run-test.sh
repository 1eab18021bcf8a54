#!/bin/sh
# How `make test` runs a test program: the runner of cargo.
#
# These tests wait for timers and guests most of the time. With one thread per core they would take twice as long.
case ${1##*/} in
launcher_on_fake_libvirt-*)
    RUST_TEST_THREADS=8
    export RUST_TEST_THREADS ;;
e2e-*)
    # More than pods run at once (tests/src/pod_semaphore.rs): a few tests need none.
    RUST_TEST_THREADS=6
    export RUST_TEST_THREADS ;;
esac
# Some tests run cargo in other directories, where this path leads nowhere, and build what is not linted here.
unset CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS
exec "$@"
