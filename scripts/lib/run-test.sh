#!/bin/sh
# How `make test` runs a test program: the runner of cargo.
#
# These tests of the launcher wait for timers most of the time. With one thread per core they would take twice as long.
case ${1##*/} in
launcher_on_fake_libvirt-*)
    RUST_TEST_THREADS=8
    export RUST_TEST_THREADS ;;
esac
# Some tests run cargo in other directories, where this path leads nowhere.
unset CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER
exec "$@"
