//! What the child can do, and what it is given to compile.

use std::path::Path;
use std::time::Duration;

use hook_host::wasm::{DigestPin, LoadOptions, Loader, Module};
use hook_host::{Compiler, Limits};

use crate::{fixture, options};

/// Reads the confinement of the child from `/proc` while the child compiles.
pub(crate) async fn the_child_is_confined_while_it_compiles() {
    let dir = tempfile::tempdir().unwrap();
    let module = fixture::handwritten_guest::module_that_compiles_for_minutes(400);
    let options = LoadOptions {
        limits: Limits {
            compile_deadline: Duration::from_secs(60),
            compile_cpu_time: Duration::from_secs(2),
            // Less than the share of a module of this size.
            compile_memory: 256 << 20,
            ..Limits::default()
        },
        ..options(&dir)
    };
    let memory = options.limits.compile_memory;
    let loading = Module::from_bytes(&module, "explosion", options);
    let confined_child = async {
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
        found = confined_child => found,
        loaded = loading => panic!("never confined: {:?}", loaded.err()),
    };
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    let file_size_limit = limits
        .lines()
        .find(|line| line.starts_with("Max file size"));
    let file_size_limit: Vec<&str> = file_size_limit.unwrap().split_whitespace().collect();
    assert_eq!(
        file_size_limit[3..5],
        [memory.to_string(), memory.to_string()]
    );
}

/// The compile child is started by a process whose system calls are filtered, as in a container that may not use seccomp.
pub(crate) async fn nothing_is_compiled_without_confinement() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("compile-without-seccomp");
    let this = std::env::current_exe().unwrap();
    let script = format!(
        "#!/bin/sh\nexec {} {WITHOUT_SECCOMP} \"$@\"\n",
        this.display()
    );
    install(&program, &script);
    let load = async |compile_unconfined| {
        let options = LoadOptions {
            limits: Limits {
                compile_unconfined,
                ..Limits::default()
            },
            compiler: Compiler::Child {
                program: program.clone(),
            },
            artifacts_dir: None,
            ..options(&dir)
        };
        Module::load(fixture::misbehaving_hook(), options).await
    };
    let error = load(false).await.err().unwrap();
    assert!(!error.is_fault_of_module());
    let text = error.to_string();
    assert!(
        text.contains("seccomp (") && text.contains("--hook-compile-unconfined"),
        "{text}"
    );
    crate::assert_answers(&load(true).await.unwrap()).await;
}

/// The first argument with which this program starts itself again, after its system calls were filtered.
const WITHOUT_SECCOMP: &str = "without-seccomp";

/// Runs this program again without seccomp(2), if it was started for that.
pub(crate) fn run_again_without_seccomp() {
    use std::os::unix::process::CommandExt;
    let mut arguments = std::env::args_os().skip(1);
    if arguments
        .next()
        .is_none_or(|first| first != WITHOUT_SECCOMP)
    {
        return;
    }
    rustix::thread::set_no_new_privs(true).unwrap();
    let calls = [(libc::SYS_seccomp, Vec::new())].into();
    let refused = seccompiler::SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let allowed = seccompiler::SeccompAction::Allow;
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = seccompiler::SeccompFilter::new(calls, allowed, refused, arch).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
    let this = std::env::current_exe().unwrap();
    panic!(
        "{}",
        std::process::Command::new(this).args(arguments).exec()
    );
}

/// Writes a program. If this process had the file open for writing, a forked child could keep it open too, and it could
/// not be executed.
fn install(program: &Path, script: &str) {
    let text = program.with_extension("text");
    std::fs::write(&text, script).unwrap();
    let mut install = std::process::Command::new("install");
    install.args(["-m", "755"]).arg(text).arg(program);
    assert!(install.status().unwrap().success());
}

/// The program of the compile child overwrites the module before it compiles.
pub(crate) async fn the_hashed_bytes_are_compiled_even_if_the_file_is_swapped() {
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
    install(&program, &script);
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
    // The bytes that were hashed are compiled, whatever happens to the file meanwhile.
    let original = Module::load(fixture::misbehaving_hook(), options(&dir))
        .await
        .unwrap();
    let pin = |digest: &str| DigestPin {
        sha256: digest.to_owned(),
        place: "hook.yaml:1:9".to_owned(),
    };
    for pin in [None, Some(pin(original.digest()))] {
        let swapped = load(pin).await.unwrap();
        assert_eq!(
            swapped.description().version,
            original.description().version
        );
        assert_eq!(swapped.digest(), original.digest());
    }
    let other = "0".repeat(64);
    let error = load(Some(pin(&other))).await.err().unwrap().to_string();
    assert!(
        error.contains(original.digest()) && error.contains("hook.yaml:1:9"),
        "{error}"
    );
}
