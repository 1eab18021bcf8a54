//! The compile child. This test is its own compiler, as the real programs are, so it has a `main`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod fixture;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hook_host::wasm::{
    Call, CallContext, CodeOrigin, DigestPin, LoadError, LoadOptions, Loader, Module,
    functions_file, precompile,
};
use hook_host::{Compiler, Limits, compile_child};

fn main() -> ExitCode {
    if let Some(code) = compile_child() {
        return code;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        compiles_keeps_and_finds_again().await;
        is_limited().await;
        says_what_is_wrong().await;
        is_gone_when_nobody_waits().await;
        precompiles_for_an_image().await;
        explodes().await;
        is_confined().await;
        is_swapped_while_it_is_read().await;
        keeps_functions_for_the_next_build().await;
    });
    println!("compile child: 9 tests passed");
    ExitCode::SUCCESS
}

fn options(dir: &tempfile::TempDir) -> LoadOptions {
    LoadOptions {
        compiler: Compiler::Child {
            program: std::env::current_exe().unwrap(),
        },
        artifacts_dir: Some(dir.path().join("artifacts")),
        ..LoadOptions::default()
    }
}

fn artifacts(dir: &tempfile::TempDir) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.path().join("artifacts")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

const CALL: Call<'_> = Call::OnDefineDomain {
    vmi: "keep",
    domain_xml: fixture::XML,
};

async fn assert_answers(module: &Module) {
    let answer = module.call(&CallContext::default(), &CALL).await;
    assert!(answer.result.is_ok());
}

async fn compiles_keeps_and_finds_again() {
    let (dir, odd) = (tempfile::tempdir().unwrap(), fixture::misbehaving_hook());
    let started = Instant::now();
    let module = Module::load(odd, options(&dir)).await.unwrap();
    let cold = started.elapsed();
    assert_answers(&module).await;
    let kept = artifacts(&dir);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(
        kept[0]
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(module.digest())
    );

    // What is there already needs no compiler.
    let program = PathBuf::from("/nowhere/at/all");
    let options_of_second_load = LoadOptions {
        compiler: Compiler::Child { program },
        ..options(&dir)
    };
    let started = Instant::now();
    Module::load(fixture::misbehaving_hook(), options_of_second_load)
        .await
        .unwrap();
    let warm = started.elapsed();
    let mut calls: Vec<Duration> = Vec::new();
    for _ in 0..200 {
        calls.push(module.call(&CallContext::default(), &CALL).await.duration);
    }
    calls.sort();
    println!(
        "load cold {cold:?}, warm {warm:?}; call p50 {:?}",
        calls[100]
    );
    println!("{}", memory());
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let lines = status
        .lines()
        .filter(|line| line.starts_with("Rss") || line.starts_with("VmHWM"));
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The confined child reads and writes the functions, and the code is the same.
async fn keeps_functions_for_the_next_build() {
    let dir = tempfile::tempdir().unwrap();
    let (path, functions) = (dir.path().join("odd.wasm"), dir.path().join("functions"));
    let file = functions_file(&functions, &path);
    // The version is data.
    let built = async |version: &str| {
        let module = fixture::misbehaving_hook_with("\"1.2.3\"", version);
        std::fs::write(&path, module).unwrap();
        let loader = Loader::new(options(&dir));
        let mut code = Vec::new();
        for loader in [loader.with_functions_dir(functions.clone()), loader] {
            let module = loader.load(&path, "odd").await.unwrap();
            assert!(matches!(module.code_origin(), CodeOrigin::Compiled { .. }));
            assert_answers(&module).await;
            let artifact = artifacts(&dir).pop().unwrap();
            code.push(std::fs::read(&artifact).unwrap());
            // The other loader is to compile it, too.
            std::fs::remove_file(artifact).unwrap();
        }
        assert!(code[0] == code[1], "other code");
        std::fs::read(&file).unwrap()
    };
    let first = built("\"1.2.2\"").await;
    let mode = std::fs::metadata(&file).unwrap().mode();
    assert_eq!((mode & 0o777, first.is_empty()), (0o600, false));
    built("\"1.2.4\"").await;
    // A file that is damaged is as good as none.
    std::fs::write(&file, &first[..first.len() - 1]).unwrap();
    let last = built("\"1.2.5\"").await;
    assert!(last.len() > first.len() / 2, "{}", last.len());
    // A module that is refused leaves nothing.
    std::fs::write(&path, b"\0asm\x0d\0\x01\0\xff\0").unwrap();
    let loader = Loader::new(options(&dir)).with_functions_dir(functions.clone());
    assert!(loader.load(&path, "odd").await.is_err());
    assert_eq!(std::fs::read_dir(&functions).unwrap().count(), 1);
    assert!(std::fs::read(&file).unwrap() == last);
}

async fn is_limited() {
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

async fn says_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    // A section that fits, with nonsense in it.
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

async fn is_gone_when_nobody_waits() {
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

/// A module that would keep a compiler busy for minutes.
async fn explodes() {
    let dir = tempfile::tempdir().unwrap();
    let module = fixture::handwritten_guest::explosion(400);
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

/// While it compiles: what the process has given up, as the kernel tells it.
async fn is_confined() {
    let dir = tempfile::tempdir().unwrap();
    let module = fixture::handwritten_guest::explosion(400);
    let options = LoadOptions {
        limits: Limits {
            compile_deadline: Duration::from_secs(60),
            compile_processor_time: Duration::from_secs(2),
            ..Limits::default()
        },
        ..options(&dir)
    };
    let memory = options.limits.compile_memory;
    let loading = Module::from_bytes(&module, "explosion", options);
    let confined = async {
        loop {
            let children = std::fs::read_to_string("/proc/thread-self/children").unwrap();
            for child in children.split_whitespace() {
                let file = |name| std::fs::read_to_string(format!("/proc/{child}/{name}"));
                let (Ok(status), Ok(limits)) = (file("status"), file("limits")) else {
                    continue;
                };
                if status.contains("Seccomp:\t2") {
                    return (status, limits);
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let (status, limits) = tokio::select! {
        seen = confined => seen,
        loaded = loading => panic!("never confined: {:?}", loaded.err()),
    };
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    let of_files = limits
        .lines()
        .find(|line| line.starts_with("Max file size"));
    let of_files: Vec<&str> = of_files.unwrap().split_whitespace().collect();
    assert_eq!(of_files[3..5], [memory.to_string(), memory.to_string()]);
}

/// Written over after it was hashed, by the last one that could: the compiler's own program.
async fn is_swapped_while_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (module, other) = (dir.path().join("m.wasm"), dir.path().join("other.wasm"));
    std::fs::copy(fixture::misbehaving_hook(), &module).unwrap();
    std::fs::write(&other, fixture::misbehaving_hook_with("1.2.3", "6.6.6")).unwrap();
    let program = dir.path().join("swap-and-compile");
    let (from, to) = (other.display(), module.display());
    let this = std::env::current_exe().unwrap();
    let script = format!(
        "#!/bin/sh\n/bin/cat {from} > {to}\nexec {} \"$@\"\n",
        this.display()
    );
    let text = program.with_extension("text");
    std::fs::write(&text, script).unwrap();
    // Another process writes it: children that other tests fork may hold open what this one does.
    let mut install = std::process::Command::new("install");
    install.args(["-m", "755"]).args([&text, &program]);
    assert!(install.status().unwrap().success());
    let load = async |pin: Option<DigestPin>| {
        std::fs::copy(fixture::misbehaving_hook(), &module).unwrap();
        let loader = Loader::new(LoadOptions {
            compiler: Compiler::Child {
                program: program.clone(),
            },
            artifacts_dir: None,
            ..options(&dir)
        });
        let file = std::fs::File::open(&module).unwrap();
        loader.load_pinned(&file, &module, "m", pin.as_ref()).await
    };
    // What was hashed is what is compiled, whatever happens to the file meanwhile.
    let genuine = Module::load(fixture::misbehaving_hook(), options(&dir))
        .await
        .unwrap();
    let pin = |digest: &str| DigestPin {
        sha256: digest.to_owned(),
        place: "hook.yaml:1:9".to_owned(),
    };
    for pin in [None, Some(pin(genuine.digest()))] {
        let swapped = load(pin).await.unwrap();
        assert_eq!(swapped.description().version, genuine.description().version);
        assert_eq!(swapped.digest(), genuine.digest());
    }
    let other = "0".repeat(64);
    let error = load(Some(pin(&other))).await.err().unwrap().to_string();
    assert!(
        error.contains(genuine.digest()) && error.contains("hook.yaml:1:9"),
        "{error}"
    );
}

/// Beside this program, which is the place of an image when root built it.
async fn precompiles_for_an_image() {
    let outer = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (dir, image) = (tempfile::tempdir().unwrap(), outer.path().join("image"));
    let precompiled = precompile(fixture::misbehaving_hook(), &image, &options(&dir))
        .await
        .unwrap();
    let CodeOrigin::Compiled { peak_memory, .. } = precompiled.module.code_origin() else {
        panic!("{:?}", precompiled.module.code_origin());
    };
    assert!(peak_memory.unwrap() > 1 << 20, "{peak_memory:?}");
    let status = std::fs::metadata(&precompiled.artifact).unwrap();
    assert_eq!(
        (status.len(), status.mode() & 0o777),
        (precompiled.size, 0o644)
    );

    let from_image = LoadOptions {
        precompiled_dirs: vec![image],
        ..options(&dir)
    };
    let module = Module::load(fixture::misbehaving_hook(), from_image)
        .await
        .unwrap();
    let CodeOrigin::Precompiled { artifact } = module.code_origin() else {
        assert!(!is_roots(outer.path()), "{:?}", module.code_origin());
        println!("artifacts beside this program are not root's, so they were rightly not used");
        return;
    };
    assert_eq!(*artifact, precompiled.artifact.canonicalize().unwrap());
    assert_answers(&module).await;
}

fn is_roots(path: &Path) -> bool {
    let path = path.canonicalize().unwrap();
    path.ancestors().all(|path| {
        let status = std::fs::metadata(path).unwrap();
        status.uid() == 0 && status.mode() & 0o022 == 0
    })
}
