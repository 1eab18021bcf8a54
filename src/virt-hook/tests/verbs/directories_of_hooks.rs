//! Directories of hooks that somebody prepared: links, pipes, devices and names that are none. `run` reads the good ones, and
//! refuses the others without waiting and without reading what a link leads to.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::handwritten_module::editing_module;
use super::virt_hook_program::output_in_time;
use super::{ProgramOutput, program, text, vmi, write};

/// What prepares a directory, which has a good module as `hook.wasm`.
type Prepare = fn(&Path);

fn without_module(directory: &Path) -> std::path::PathBuf {
    let module = directory.join("hook.wasm");
    fs::remove_file(&module).unwrap();
    module
}

fn rename_module(directory: &Path, name: &str) {
    fs::rename(directory.join("hook.wasm"), directory.join(name)).unwrap();
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn settings(directory: &Path, target: &str) {
    symlink(target, directory.join("hook.yaml")).unwrap();
}

const REFUSED: &[(&str, Prepare)] = &[
    ("the module is a pipe", |dir| fifo(&without_module(dir))),
    ("the module is a link to /dev/zero", |dir| {
        symlink("/dev/zero", without_module(dir)).unwrap();
    }),
    ("the module is a device", |dir| {
        let path = without_module(dir);
        let zero = makedev(1, 5);
        // Only root can make a device; a link to one is the row above.
        if mknodat(CWD, &path, FileType::CharacterDevice, Mode::RUSR, zero).is_err() {
            symlink("/dev/zero", path).unwrap();
        }
    }),
    ("the module is a directory", |dir| {
        fs::create_dir(without_module(dir)).unwrap();
    }),
    ("the module is a socket", |dir| {
        without_module(dir);
        drop(UnixListener::bind(dir.join("socket.wasm")).unwrap());
    }),
    ("hook.yaml leads to /etc/passwd", |dir| {
        settings(dir, "/etc/passwd")
    }),
    ("hook.yaml leads to /etc/passwd/", |dir| {
        settings(dir, "/etc/passwd/")
    }),
    ("hook.yaml leads out of the directory", |dir| {
        settings(dir, "../../outside/hook.yaml");
    }),
    ("hook.yaml is a pipe", |dir| fifo(&dir.join("hook.yaml"))),
    ("hook.yaml is a directory", |dir| {
        fs::create_dir(dir.join("hook.yaml")).unwrap();
    }),
    ("hook.yaml leads to the environment", |dir| {
        settings(dir, "/proc/self/environ");
    }),
    ("hook.yaml leads out through another link", |dir| {
        symlink("../../outside/", dir.join("x")).unwrap();
        settings(dir, "x/hook.yaml");
    }),
    ("hook.yaml leads nowhere", |dir| settings(dir, "nowhere")),
    ("hook.yaml leads to itself", |dir| {
        settings(dir, "hook.yaml")
    }),
    ("hook.yml", |dir| {
        write(dir, "hook.yml", "priority: 1\n");
    }),
    ("control characters in a name", |dir| {
        rename_module(dir, "a\nb\u{1b}[31m.wasm");
    }),
    ("a right-to-left override in a name", |dir| {
        rename_module(dir, "a\u{202e}b.wasm");
    }),
    ("a name that is only an extension", |dir| {
        rename_module(dir, ".wasm")
    }),
    ("an extension in capitals", |dir| {
        rename_module(dir, "hook.WASM")
    }),
    ("a module of 33 MiB", |dir| {
        fs::write(dir.join("hook.wasm"), vec![0; 33 << 20]).unwrap();
    }),
    ("an empty module", |dir| {
        fs::write(dir.join("hook.wasm"), "").unwrap();
    }),
    ("a module of another kind", |dir| {
        let content = [&b"\x7fELF"[..], &[0; 5_000]].concat();
        fs::write(dir.join("hook.wasm"), content).unwrap();
    }),
    ("the signature is a pipe", |dir| {
        fifo(&dir.join("hook.wasm.sigstore.json"));
    }),
    ("the signature is a directory", |dir| {
        fs::create_dir(dir.join("hook.wasm.sigstore.json")).unwrap();
    }),
];

const ACCEPTED: &[(&str, Prepare)] = &[
    ("the kubelet's layout of a ConfigMap", |dir| {
        write(dir, "..data/hook.yaml", "priority: 1\n");
        settings(dir, "..data/hook.yaml");
    }),
    ("HOOK.YAML, which is not read", |dir| {
        let digest = "0".repeat(64);
        write(dir, "HOOK.YAML", &format!("sha256: {digest}\n"));
    }),
];

/// Runs the hooks of a directory that a row prepares.
fn run(prepare: Prepare) -> ProgramOutput {
    let temp_dir = tempfile::tempdir().unwrap();
    let directory = temp_dir.path().join("hooks/hook");
    fs::create_dir_all(&directory).unwrap();
    write(temp_dir.path(), "outside/hook.yaml", "priority: 7\n");
    let module = editing_module(&["/domain/title"], "<os>", "<title>x</title><os>");
    fs::write(directory.join("hook.wasm"), module).unwrap();
    let vmi = vmi(temp_dir.path());
    prepare(&directory);
    let mut program = program();
    program.args(["run", text(&directory), "--vmi", text(&vmi)]);
    output_in_time(program.env("ENVIRONMENT_SECRET", "priority"))
}

#[test]
fn a_prepared_directory_of_hooks_is_read_or_refused_at_once() {
    for (row, prepare) in REFUSED {
        let refused = run(*prepare);
        assert_eq!(refused.code, 2, "{row}: {}{}", refused.out, refused.err);
        let error = refused.err.trim_end();
        assert!(!error.contains(char::is_control), "{row}: {error:?}");
        assert!(!error.contains('\u{202e}'), "{row}: {error:?}");
        for content in ["root:", "ENVIRONMENT_SECRET"] {
            assert!(!error.contains(content), "{row}: {error:?}");
        }
        assert_eq!(refused.out, "", "{row}");
    }
    for (row, prepare) in ACCEPTED {
        let accepted = run(*prepare);
        assert_eq!(accepted.code, 0, "{row}: {}{}", accepted.out, accepted.err);
    }
}

#[test]
fn a_policy_without_an_end_is_refused_at_once() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = editing_module(&["/domain/title"], "<os>", "<title>x</title><os>");
    let path = temp_dir.path().join("hook.wasm");
    fs::write(&path, module).unwrap();
    let vmi = vmi(temp_dir.path());
    for policy in [
        "/dev/zero",
        "/proc/self/mem",
        "/proc/self/environ",
        "/dev/stdin",
    ] {
        let mut program = program();
        program.args(["run", text(&path), "--vmi", text(&vmi), "--policy", policy]);
        // A pipe into which nobody writes.
        let refused = output_in_time(program.stdin(Stdio::piped()));
        assert_eq!(refused.code, 2, "{policy}: {}{}", refused.out, refused.err);
        assert!(refused.err.contains(policy), "{policy}: {}", refused.err);
    }
}
