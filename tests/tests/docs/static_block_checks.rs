//! Static checks of blocks that a test cannot run.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::Value;
use tests::binaries::{binary, workspace};

use crate::doc_session::DocSession;
use crate::page_blocks::source;
use crate::shell_commands::commands;
use crate::yaml_blocks;

/// The reasons why a block is not run: it needs a cluster, it runs the tests themselves, it changes the machine, or it
/// is a file for another program to run.
pub(crate) const ROLES: [&str; 4] = ["cluster", "gate", "install", "script"];
/// The daemons that run a host's QEMU: libvirt's only one, and one of several.
const LIBVIRT_UNITS: [&str; 2] = ["libvirtd", "virtqemud"];

/// kubectl's verbs with their known flags; `-n` is known for all.
const KUBECTL: &[(&str, &[&str])] = &[
    ("annotate", &["--overwrite"]),
    ("apply", &["-f", "-k", "--server-side"]),
    ("delete", &["-f", "-k", "--ignore-not-found"]),
    ("wait", &["--for", "--timeout"]),
    ("kustomize", &[]),
    (
        "create",
        &[
            "--from-file",
            "--docker-server",
            "--docker-username",
            "--docker-password",
            "--dry-run",
            "-o",
        ],
    ),
    ("describe", &[]),
    ("exec", &["-c", "-it"]),
    ("get", &["-A", "-l", "-o", "--field-selector"]),
    ("logs", &["-l", "-c", "--tail"]),
    ("patch", &["--type", "-p", "--patch-file"]),
    ("set", &[]),
];
/// KubeVirt v1.9's names of a launcher's containers, and the label with the VM's name.
const CONTAINERS: [&str; 2] = ["compute", "hook-sidecar-0"];
const VM_LABEL: &str = "vmi.kubevirt.io/id=";
/// virt-operator's setting of the launcher's image.
const LAUNCHER_IMAGE: &str = "VIRT_LAUNCHER_IMAGE=";

pub(crate) fn check_block(at: &str, role: &str, script: &str, session: &mut DocSession) {
    // The file that `sed` reads, for the command after it.
    let mut edited = None;
    for words in commands(script) {
        let at = format!("{at}: {}", words.join(" "));
        let (program, rest) = words.split_first().unwrap();
        match (role, program.as_str()) {
            ("cluster", "kubectl") => kubectl(&at, rest, edited.take().as_deref(), session),
            // Pipes and shell variables.
            ("cluster", "grep") => {}
            ("cluster", "sed") => edited = rest.get(1).map(|file| of_checkout(file).to_owned()),
            ("cluster", "export") => assert!(rest[0].starts_with("CHECKOUT="), "{at}"),
            ("cluster", "podman") => podman(&at, rest),
            // Its verb and flags are checked with those of all pages.
            ("cluster", "virt-hook") if rest.iter().any(|word| word == "--vm") => {
                deploy(&at, rest, session);
            }
            ("cluster", "virt-hook") => {}
            ("cluster", name) if name.ends_with("=$") => {}
            // It copies images between a registry and a layout.
            ("cluster", "skopeo") => {
                assert_eq!((rest[0].as_str(), rest.len()), ("copy", 3), "{at}")
            }
            ("gate" | "cluster", "make") => make(&at, rest),
            ("gate", "cargo") => cargo(&at, rest),
            ("gate", "scripts/measure") => assert!(workspace().join(program).is_file(), "{at}"),
            ("install", "sudo") => packages(&at, rest),
            ("install", "rustup") => targets(&at, rest),
            ("install", "cargo") => installs(&at, rest),
            ("install", "cd") => {}
            // Its verb and flags are checked with those of all pages.
            ("install", "virt-hook") => {}
            // They put files into their places.
            ("install", "cp" | "install" | "mkdir") => {}
            ("install", "systemctl") => units(&at, rest),
            // Its verb and flags are checked with those of all pages.
            ("script", "exec") => assert_eq!(rest[0], "virt-hook", "{at}"),
            _ => panic!("{at}: how can that be held against anything?"),
        }
    }
}

/// A path as a command of a page names it: from the workspace's root, or below `$CHECKOUT`, which is that directory.
fn of_checkout(word: &str) -> &str {
    word.strip_prefix("$CHECKOUT/").unwrap_or(word)
}

/// Checks the verb, which is returned, and the names of the flags.
pub(crate) fn check_kubectl_flags<'a>(at: &str, words: &[&'a str]) -> &'a str {
    let known = KUBECTL.iter().find(|(verb, _)| words.first() == Some(verb));
    let (_, flags) = known.unwrap_or_else(|| panic!("{at}: no verb of kubectl's"));
    // A single dash is the standard input; after two is the command of `exec`.
    let flags_used = words
        .iter()
        .take_while(|word| **word != "--")
        .filter(|word| word.starts_with('-') && **word != "-");
    for flag in flags_used {
        let name = flag.split('=').next().unwrap();
        assert!(flags.contains(&name), "{at}: {name}");
    }
    words[0]
}

fn kubectl(at: &str, words: &[String], edited: Option<&str>, session: &mut DocSession) {
    let mut words: Vec<&str> = words.iter().map(|word| of_checkout(word)).collect();
    if words.first() == Some(&"-n") {
        words.drain(..2);
    }
    let verb = check_kubectl_flags(at, &words);
    let after = |flag: &str| {
        let index = words.iter().position(|word| *word == flag)?;
        words.get(index + 1).copied()
    };
    if let Some(container) = after("-c") {
        assert!(CONTAINERS.contains(&container), "{at}: {container}");
    }
    if let Some(label) = after("-l") {
        assert!(label.starts_with(VM_LABEL), "{at}: {label}");
    }
    match verb {
        // Without it kubectl prints the last ten lines of a pod that a label selects.
        "logs" if after("-l").is_some() => assert!(words.contains(&"--tail=-1"), "{at}"),
        "patch" if words[1] == "serviceaccount" => {
            let patch: Value = serde_json::from_str(after("-p").unwrap()).unwrap();
            let secret = &patch["imagePullSecrets"][0]["name"];
            assert_eq!(secret.as_str(), session.pull_secret.as_deref(), "{at}");
        }
        "patch" => {
            let file = after("--patch-file");
            let file = file.and_then(|file| {
                if file == "/dev/stdin" {
                    edited
                } else {
                    Some(file)
                }
            });
            let patch = file.map(source);
            let patch = patch.unwrap_or_else(|| after("-p").unwrap().to_owned());
            yaml_blocks::is_patch(words[1], &patch).unwrap_or_else(|error| panic!("{at}: {error}"));
        }
        "create" if words[1] == "secret" => {
            assert_eq!(words[2], "docker-registry", "{at}");
            session.pull_secret = Some(words[3].to_owned());
        }
        "create" => config_map(at, &words, session),
        "set" => assert!(
            words.iter().any(|word| word.starts_with(LAUNCHER_IMAGE)),
            "{at}"
        ),
        "kustomize" => {
            let file = workspace().join(words[1]).join("kustomization.yaml");
            assert!(file.is_file(), "{at}");
        }
        "apply" | "delete" if words.contains(&"-k") => {
            let directory = workspace().join(after("-k").unwrap());
            assert!(directory.join("kustomization.yaml").is_file(), "{at}");
        }
        "delete" if !words.contains(&"-f") => assert_eq!(
            words[1..],
            [
                "mutatingadmissionpolicies,mutatingadmissionpolicybindings",
                "wasm-launcher-canary"
            ],
            "{at}"
        ),
        "apply" | "delete" => {
            let file = after("-f").unwrap();
            let known = file == "-" || workspace().join(file).is_file();
            assert!(known || session.current_dir.join(file).is_file(), "{at}");
        }
        _ => {}
    }
}

fn podman(at: &str, words: &[String]) {
    match words[0].as_str() {
        "run" => podman_run(at, words),
        "build" => {
            let flag = words.iter().position(|word| word == "--file").unwrap();
            let file = workspace().join(of_checkout(&words[flag + 1]));
            assert!(file.is_file(), "{at}");
        }
        "push" => assert_eq!(words.len(), 2, "{at}"),
        // The e2e test of the standalone VM connects to the console.
        "exec" => assert_eq!(words[2], "standalone-vm", "{at}"),
        "unshare" => assert_eq!(words[1], "chown", "{at}"),
        other => panic!("{at}: podman {other}"),
    }
}

/// The container has the command and the mounts of the Pod of `deploy/standalone`.
fn podman_run(at: &str, words: &[String]) {
    let pod: Value = serde_saphyr::from_str(&source("deploy/standalone/pod.yaml")).unwrap();
    let container = &pod["spec"]["containers"][0];
    let command = container["command"].as_array().unwrap().iter();
    let mounts = container["volumeMounts"].as_array().unwrap().iter();
    let has = |text: &str| words.iter().any(|word| word == text);
    for word in command.chain([&container["image"]]) {
        let word = word.as_str().unwrap();
        assert!(has(word), "{at}: {word}");
    }
    for path in mounts.map(|mount| mount["mountPath"].as_str().unwrap()) {
        let is_mount = |word: &String| word.split(':').any(|part| part == path);
        assert!(words.iter().any(is_mount), "{at}: {path}");
    }
}

/// The files of a ConfigMap must exist. Sidecars on the same page can mount them.
fn config_map(at: &str, words: &[&str], session: &mut DocSession) {
    assert_eq!(words[1], "configmap", "{at}");
    let mut keys = BTreeMap::new();
    let files = words.iter();
    for file in files.filter_map(|word| word.strip_prefix("--from-file=")) {
        let (key, path) = file
            .split_once('=')
            .unwrap_or((file.rsplit('/').next().unwrap(), file));
        let path = session.current_dir.join(path);
        assert!(path.is_file(), "{at}: {} is not there", path.display());
        keys.insert(key.to_owned(), path);
    }
    session.config_maps.insert(words[2].to_owned(), keys);
}

/// `virt-hook deploy` with the VM that the page wrote by hand: who follows both has the hook once.
fn deploy(at: &str, words: &[String], session: &DocSession) {
    let Some(vm) = &session.vm else {
        return;
    };
    let file = words.iter().position(|word| word == "--vm").unwrap() + 1;
    fs::write(session.current_dir.join(&words[file]), vm).unwrap();
    let mut program = Command::new(binary("virt-hook").unwrap());
    let program = program.args(words).current_dir(&session.current_dir);
    let output = program.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{at}: {said}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let (before, after) = (yaml_blocks::sidecars(vm), yaml_blocks::sidecars(&printed));
    assert_eq!(after.len(), before.len(), "{at}: {printed}");
    let config_map =
        |sidecar: &yaml_blocks::Sidecar| sidecar.config_map.as_ref().unwrap().name.clone();
    for name in after.iter().map(config_map) {
        assert!(session.config_maps.contains_key(&name), "{at}: {name}");
    }
}

/// Checks that the Makefile has the target, and that its scripts parse.
fn make(at: &str, words: &[String]) {
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
    assert!(output.status.success(), "{at}: {stderr}");
}

/// Checks that the package belongs to the workspace, whose packages the whole run tests.
fn cargo(at: &str, words: &[String]) {
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
        ["test", "-p", name] => assert!(manifest(name), "{at}: {name} is not a package here"),
        ["bench", "--workspace", "--bench", name] => {
            let benches = workspace().join("src/hook-host/benches");
            assert!(benches.join(name).with_extension("rs").is_file(), "{at}");
        }
        _ => panic!("{at}: the gate does no such thing"),
    }
}

/// Checks that scripts/setup installs the same packages.
fn packages(at: &str, words: &[String]) {
    let (apt, names) = words.split_at(2);
    assert_eq!(apt, ["apt", "install"], "{at}");
    let setup = source("scripts/setup");
    for name in names {
        let mut known = setup.split(|c: char| c.is_whitespace() || "'|".contains(c));
        assert!(known.any(|known| known == name), "{at}: {name}");
    }
}

fn units(at: &str, words: &[String]) {
    assert_eq!((words[0].as_str(), words.len()), ("restart", 2), "{at}");
    assert!(LIBVIRT_UNITS.contains(&words[1].as_str()), "{at}");
}

fn targets(at: &str, words: &[String]) {
    assert_eq!(words[..2], ["target", "add"], "{at}");
    let toolchain = source("rust-toolchain.toml");
    for target in &words[2..] {
        assert!(toolchain.contains(&format!("\"{target}\"")), "{at}");
    }
}

fn installs(at: &str, words: &[String]) {
    let path = words.iter().skip_while(|word| *word != "--path").nth(1);
    let main = workspace().join(path.unwrap()).join("src/main.rs");
    assert!(words[0] == "install" && main.is_file(), "{at}");
}
