//! Limits of a compilation, and its errors.

use std::path::PathBuf;
use std::time::Duration;

use hook_host::wasm::{LoadError, LoadOptions, Module};
use hook_host::{Compiler, Limits};

use crate::{artifacts, fixture, options};

pub(crate) async fn memory_and_time_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    for (limits, part) in [
        (
            Limits {
                compile_memory: 8 << 20,
                ..Limits::default()
            },
            "8 MiB of memory",
        ),
        (
            Limits {
                compile_deadline: Duration::from_millis(1),
                ..Limits::default()
            },
            "1ms",
        ),
    ] {
        let error = Module::load(
            fixture::misbehaving_hook(),
            LoadOptions {
                limits,
                ..options(&dir)
            },
        )
        .await
        .err()
        .unwrap();
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.is_fault_of_module());
    }
    assert_eq!(artifacts(&dir), Vec::<PathBuf>::new());
}

pub(crate) async fn errors_distinguish_faults_of_the_module_and_of_the_compiler() {
    let dir = tempfile::tempdir().unwrap();
    // A section of the right length with invalid content.
    let bytes = b"\0asm\x0d\0\x01\0\x0b\x03\xff\xff\xff";
    let error = Module::from_bytes(bytes, "bad", options(&dir))
        .await
        .err()
        .unwrap();
    assert!(
        matches!(error, LoadError::Compile { size: 13, .. }),
        "{error:?}"
    );
    assert!(
        error.is_fault_of_module() && error.to_string().contains("bad.wasm (13 bytes)"),
        "{error}"
    );

    let compiler = Compiler::Child {
        program: PathBuf::from("/bin/true"),
    };
    let error = Module::load(
        fixture::misbehaving_hook(),
        LoadOptions {
            compiler,
            ..options(&dir)
        },
    )
    .await
    .err()
    .unwrap();
    assert!(
        !error.is_fault_of_module() && error.to_string().contains("/bin/true"),
        "{error}"
    );
}

pub(crate) async fn a_cancelled_load_ends_the_child() {
    let dir = tempfile::tempdir().unwrap();
    let compiler = Compiler::Child {
        program: PathBuf::from("/usr/bin/yes"),
    };
    let options = LoadOptions {
        compiler,
        ..options(&dir)
    };
    let load = Module::load(fixture::misbehaving_hook(), options);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), load)
            .await
            .is_err()
    );
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    assert_eq!(children.trim(), "");
    assert_eq!(artifacts(&dir), Vec::<PathBuf>::new());
}

pub(crate) async fn a_module_that_compiles_for_minutes_exceeds_the_limits() {
    let dir = tempfile::tempdir().unwrap();
    let module = fixture::handwritten_guest::module_that_compiles_for_minutes(400);
    for (limits, part) in [
        (
            Limits {
                compile_deadline: Duration::from_secs(1),
                ..Limits::default()
            },
            "1s",
        ),
        (
            Limits {
                compile_memory: 40 << 20,
                ..Limits::default()
            },
            "40 MiB of memory",
        ),
    ] {
        let options = LoadOptions {
            limits,
            ..options(&dir)
        };
        let loading = Module::from_bytes(&module, "explosion", options);
        let error = loading.await.err().unwrap();
        assert!(
            error.exceeds_compile_limits() && error.is_fault_of_module(),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("explosion.wasm (") && text.contains(part),
            "{text}"
        );
    }
    assert_eq!(artifacts(&dir), Vec::<PathBuf>::new());
}
