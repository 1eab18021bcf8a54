//! Limits of a compilation, and its errors.

use std::path::PathBuf;
use std::time::Duration;

use hook_host::wasm::{CodeOrigin, LoadError, LoadOptions, Loader, Module};
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
        (
            // More than the share of a module of this size: the error names the limit.
            Limits {
                compile_memory: 100 << 20,
                ..Limits::default()
            },
            "100 MiB of memory",
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

/// The core modules that are large in one respect, by name. Some are valid in WebAssembly only up to a size.
fn large_core_modules() -> Vec<(&'static str, String)> {
    let times = |count: usize, text: &str| text.repeat(count);
    let params = |count| format!("(param{})", times(count, " i32"));
    vec![
        (
            "a data segment",
            format!(
                "(memory 500) (data (i32.const 0) \"{}\")",
                times(20_000_000, "a")
            ),
        ),
        ("globals", times(200_000, "(global i32 (i32.const 0))")),
        (
            "types",
            (0..100_000)
                .map(|n| format!("(type (func {}))", params(n % 50)))
                .collect(),
        ),
        (
            "declared elements",
            format!("(func $f) {}", times(90_000, "(elem declare func $f)")),
        ),
        (
            "active elements",
            format!(
                "(table 100000 funcref) (func $f) (elem (i32.const 0) func{})",
                times(100_000, " $f")
            ),
        ),
        (
            "passive data",
            format!("(memory 1) {}", times(90_000, "(data \"\")")),
        ),
        ("parameters", format!("(func {})", params(1_000))),
        (
            "nested blocks",
            format!(
                "(func {} {})",
                times(20_000, "block "),
                times(20_000, "end ")
            ),
        ),
        (
            "nested conditions",
            format!(
                "(func {} {})",
                times(10_000, "i32.const 1 if "),
                times(10_000, "end ")
            ),
        ),
        (
            "targets of a table",
            format!(
                "(func block i32.const 0 br_table{} end)",
                times(1_000_000, " 0")
            ),
        ),
        (
            "a chain of multiplications",
            format!(
                "(func (param i32) (result i32) local.get 0 {})",
                times(400_000, "local.get 0 i32.mul ")
            ),
        ),
        (
            "locals",
            times(40, &format!("(func (local{}))", times(49_000, " i64"))),
        ),
        (
            "branches over many locals",
            format!(
                "(func (param i32) (local{}) loop $l {} end)",
                times(200, " i32"),
                (0..20_000)
                    .map(|n| format!(
                        "local.get 0 if local.get {} local.set {} end ",
                        n % 200,
                        (n + 7) % 200
                    ))
                    .collect::<String>()
            ),
        ),
    ]
}

/// A compilation ends, is refused, or exceeds a limit; then the next one works.
pub(crate) async fn modules_that_are_large_in_one_respect_stay_within_the_limits() {
    let dir = tempfile::tempdir().unwrap();
    for (name, core) in large_core_modules() {
        let module = wat::parse_str(format!("(component (core module {core}))")).unwrap();
        let options = LoadOptions {
            limits: Limits {
                compile_cpu_time: Duration::from_secs(2),
                compile_memory: 256 << 20,
                ..Limits::default()
            },
            artifacts_dir: None,
            ..options(&dir)
        };
        // It is no hook, so that a complete compilation ends in an error, too.
        let error = Module::from_bytes(&module, "large", options).await.err();
        let error = error.unwrap();
        assert!(error.is_fault_of_module(), "{name}: {error}");
        let text = error.to_string();
        let is_known = error.exceeds_compile_limits()
            || ["failed to compile", "is not a virt-hook:hooks"]
                .iter()
                .any(|part| text.contains(part));
        assert!(is_known, "{name}: {text}");
    }
    let hook = Module::load(fixture::misbehaving_hook(), options(&dir)).await;
    crate::assert_answers(&hook.unwrap()).await;
}

/// The limit on memory of each running child, in bytes, once the child has set it.
fn memory_limits_of_children() -> Vec<u64> {
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let limits = children.split_whitespace().filter_map(|child| {
        let limits = std::fs::read_to_string(format!("/proc/{child}/limits")).ok()?;
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max data size"))?;
        line.split_whitespace().next()?.parse().ok()
    });
    limits.collect()
}

/// Children together have one child's limit on memory, and equal modules are compiled once.
pub(crate) async fn modules_that_are_compiled_at_once_share_the_memory() {
    const LIMIT: usize = 150 << 20;
    let dir = tempfile::tempdir().unwrap();
    let module = std::fs::read(fixture::misbehaving_hook()).unwrap();
    let paths = [0, 1, 2, 3, 3]
        .into_iter()
        .enumerate()
        .map(|(number, content)| {
            let path = dir.path().join(format!("{number}.wasm"));
            // A custom section at the end, which changes the digest only.
            let section = [0, 3, 1, b'n', content];
            std::fs::write(&path, [&module[..], &section].concat()).unwrap();
            path
        });
    let paths: Vec<_> = paths.collect();
    let loader = Loader::new(LoadOptions {
        limits: Limits {
            compile_memory: LIMIT,
            ..Limits::default()
        },
        ..options(&dir)
    });
    let loads = paths.iter().map(|path| loader.load(path, "copy"));
    let mut loading = std::pin::pin!(futures_util::future::join_all(loads));
    let (mut most_children, mut most_memory) = (0, 0);
    let loaded = loop {
        tokio::select! {
            loaded = &mut loading => break loaded,
            () = tokio::time::sleep(Duration::from_millis(1)) => {
                let limits = memory_limits_of_children();
                most_children = most_children.max(limits.len());
                most_memory = most_memory.max(limits.iter().sum());
            }
        }
    };
    let compiled = loaded.into_iter().filter(|module| {
        let module = module.as_ref().unwrap();
        matches!(module.code_origin(), CodeOrigin::Compiled { .. })
    });
    assert_eq!(compiled.count(), 4);
    assert_eq!(most_children, 2);
    assert!(most_memory <= LIMIT as u64, "{most_memory} bytes");
}
