//! Checks the commands in blocks that a test cannot run.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tests::binaries::{binary, workspace};

use crate::kubectl_command_checks::check_kubectl;
use crate::page_blocks::source;
use crate::page_shell_session::PageSession;
use crate::shell_script_splitter::{commands, without_checkout};
use crate::sidecars_on_pages::{Sidecar, sidecars};

/// The roles of blocks that are not run: the block needs a cluster, runs these tests, changes the machine, or is a file
/// that another program runs.
pub(crate) const ROLES: [&str; 4] = ["cluster", "gate", "install", "script"];
/// libvirt's daemons for QEMU: the monolithic and the modular one.
const LIBVIRT_UNITS: [&str; 2] = ["libvirtd", "virtqemud"];

pub(crate) fn check_block(location: &str, role: &str, script: &str, session: &mut PageSession) {
    // The file that `sed` reads, for the command after the pipe.
    let mut sed_input = None;
    for words in commands(script) {
        let location = format!("{location}: {}", words.join(" "));
        let (program, rest) = words.split_first().unwrap();
        match (role, program.as_str()) {
            ("cluster", "kubectl") => {
                check_kubectl(&location, rest, sed_input.take().as_deref(), session)
            }
            // Pipes and shell variables.
            ("cluster", "grep") => {}
            ("cluster", "sed") => {
                sed_input = rest.get(1).map(|file| without_checkout(file).to_owned())
            }
            ("cluster", "export") => assert!(rest[0].starts_with("CHECKOUT="), "{location}"),
            ("cluster", "podman") => check_podman(&location, rest),
            // Verbs and flags of virt-hook are checked in `virt_hook_commands`.
            ("cluster", "virt-hook") if rest.iter().any(|word| word == "--vm") => {
                check_deploy(&location, rest, session);
            }
            ("cluster", "virt-hook") => {}
            ("cluster", name) if name.ends_with("=$") => {}
            // skopeo copies images between a registry and a layout.
            ("cluster", "skopeo") => {
                assert_eq!((rest[0].as_str(), rest.len()), ("copy", 3), "{location}")
            }
            ("gate" | "cluster", "make") => check_make(&location, rest),
            ("gate", "cargo") => check_cargo(&location, rest),
            ("gate", "scripts/measure") => {
                assert!(workspace().join(program).is_file(), "{location}")
            }
            ("install", "sudo") => check_packages(&location, rest),
            ("install", "rustup") => check_rust_targets(&location, rest),
            ("install", "cargo") => check_cargo_install(&location, rest),
            ("install", "cd") => {}
            ("install", "virt-hook") => {}
            // Commands that copy files.
            ("install", "cp" | "install" | "mkdir") => {}
            ("install", "systemctl") => check_systemd_units(&location, rest),
            ("script", "exec") => assert_eq!(rest[0], "virt-hook", "{location}"),
            _ => panic!("{location}: how can that be held against anything?"),
        }
    }
}

fn check_podman(location: &str, words: &[String]) {
    match words[0].as_str() {
        "run" => check_podman_run(location, words),
        "build" => {
            let flag = words.iter().position(|word| word == "--file").unwrap();
            let file = workspace().join(without_checkout(&words[flag + 1]));
            assert!(file.is_file(), "{location}");
        }
        "push" => assert_eq!(words.len(), 2, "{location}"),
        // The e2e test of the standalone VM tests the command that connects to the console.
        "exec" => assert_eq!(words[2], "standalone-vm", "{location}"),
        "unshare" => assert_eq!(words[1], "chown", "{location}"),
        other => panic!("{location}: podman {other}"),
    }
}

/// Checks that `podman run` has the command and the mounts of the Pod in `deploy/standalone`.
fn check_podman_run(location: &str, words: &[String]) {
    let pod: Value = serde_saphyr::from_str(&source("deploy/standalone/pod.yaml")).unwrap();
    let container = &pod["spec"]["containers"][0];
    let command = container["command"].as_array().unwrap().iter();
    let mounts = container["volumeMounts"].as_array().unwrap().iter();
    let has = |text: &str| words.iter().any(|word| word == text);
    for word in command.chain([&container["image"]]) {
        let word = word.as_str().unwrap();
        assert!(has(word), "{location}: {word}");
    }
    for path in mounts.map(|mount| mount["mountPath"].as_str().unwrap()) {
        let is_mount = |word: &String| word.split(':').any(|part| part == path);
        assert!(words.iter().any(is_mount), "{location}: {path}");
    }
}

/// Runs `virt-hook deploy` with the VM of the page, which already has the hook: the output must not have it twice.
fn check_deploy(location: &str, words: &[String], session: &PageSession) {
    let Some(vm) = &session.vm else {
        return;
    };
    let file = words.iter().position(|word| word == "--vm").unwrap() + 1;
    fs::write(session.current_dir.join(&words[file]), vm).unwrap();
    let mut program = Command::new(binary("virt-hook").unwrap());
    let program = program.args(words).current_dir(&session.current_dir);
    let output = program.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{location}: {stderr}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let (before, after) = (sidecars(vm), sidecars(&printed));
    assert_eq!(after.len(), before.len(), "{location}: {printed}");
    let config_map_name = |sidecar: &Sidecar| sidecar.config_map.as_ref().unwrap().name.clone();
    for name in after.iter().map(config_map_name) {
        assert!(
            session.config_maps.contains_key(&name),
            "{location}: {name}"
        );
    }
}

/// Checks with `make -n` that the Makefile has the target.
fn check_make(location: &str, words: &[String]) {
    let words = match words {
        [flag, directory, rest @ ..] if flag == "-C" && directory == "$CHECKOUT" => rest,
        words => words,
    };
    let mut make = Command::new("make");
    let output = make
        .arg("-n")
        .args(words)
        .current_dir(workspace())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{location}: {stderr}");
}

/// Checks that the package is in the workspace, all of whose packages `make test` tests.
fn check_cargo(location: &str, words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let manifest = |name: &str| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let spec = cargo
            .args(["pkgid", "--offline", "-p", name])
            .current_dir(workspace());
        spec.output().unwrap().status.success()
    };
    match words[..] {
        ["test", "-p", "CRATE"] | ["test", "natively"] => {}
        ["test", "-p", name] => assert!(manifest(name), "{location}: {name} is not a package here"),
        ["bench", "--workspace", "--bench", name] => {
            let benches = workspace().join("src/hook-host/benches");
            assert!(
                benches.join(name).with_extension("rs").is_file(),
                "{location}"
            );
        }
        _ => panic!("{location}: the gate does no such thing"),
    }
}

/// Checks that scripts/setup installs the same packages.
fn check_packages(location: &str, words: &[String]) {
    let (apt, names) = words.split_at(2);
    assert_eq!(apt, ["apt", "install"], "{location}");
    let setup = source("scripts/setup");
    for name in names {
        let mut known = setup.split(|c: char| c.is_whitespace() || "'|".contains(c));
        assert!(known.any(|known| known == name), "{location}: {name}");
    }
}

/// Checks that the restarted unit is a daemon of libvirt.
fn check_systemd_units(location: &str, words: &[String]) {
    assert_eq!(
        (words[0].as_str(), words.len()),
        ("restart", 2),
        "{location}"
    );
    assert!(LIBVIRT_UNITS.contains(&words[1].as_str()), "{location}");
}

/// Checks that rust-toolchain.toml has the same targets.
fn check_rust_targets(location: &str, words: &[String]) {
    assert_eq!(words[..2], ["target", "add"], "{location}");
    let toolchain = source("rust-toolchain.toml");
    for target in &words[2..] {
        assert!(toolchain.contains(&format!("\"{target}\"")), "{location}");
    }
}

/// Checks that `cargo install` builds a program of the workspace.
fn check_cargo_install(location: &str, words: &[String]) {
    let path = words.iter().skip_while(|word| *word != "--path").nth(1);
    let main = workspace().join(path.unwrap()).join("src/main.rs");
    assert!(words[0] == "install" && main.is_file(), "{location}");
}
