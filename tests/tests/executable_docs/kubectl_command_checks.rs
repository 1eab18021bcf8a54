//! Checks commands of kubectl in blocks that need a cluster.

use std::collections::BTreeMap;

use serde_json::Value;
use tests::binaries::workspace;

use crate::page_blocks::source;
use crate::page_shell_session::PageSession;
use crate::shell_script_splitter::without_checkout;
use crate::yaml_blocks;

/// kubectl's verbs with the flags that pages may use. `-n` is allowed for all verbs.
const KUBECTL_VERBS: &[(&str, &[&str])] = &[
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

/// The names of containers in a launcher pod of KubeVirt v1.9.
const LAUNCHER_CONTAINERS: [&str; 2] = ["compute", "hook-sidecar-0"];

/// KubeVirt's label with the VM's name.
const VM_LABEL: &str = "vmi.kubevirt.io/id=";

/// virt-operator's setting of the launcher's image.
const LAUNCHER_IMAGE: &str = "VIRT_LAUNCHER_IMAGE=";

/// Checks the verb and the names of the flags. Returns the verb.
pub(crate) fn check_kubectl_flags<'a>(location: &str, words: &[&'a str]) -> &'a str {
    let known = KUBECTL_VERBS
        .iter()
        .find(|(verb, _)| words.first() == Some(verb));
    let (_, flags) = known.unwrap_or_else(|| panic!("{location}: no verb of kubectl's"));
    // A single dash is the standard input; the command of `exec` follows two dashes.
    let flags_used = words
        .iter()
        .take_while(|word| **word != "--")
        .filter(|word| word.starts_with('-') && **word != "-");
    for flag in flags_used {
        let name = flag.split('=').next().unwrap();
        assert!(flags.contains(&name), "{location}: {name}");
    }
    words[0]
}

/// Checks a command of kubectl. `sed_input` is the file that `sed` has edited for the standard input.
pub(crate) fn check_kubectl(
    location: &str,
    words: &[String],
    sed_input: Option<&str>,
    session: &mut PageSession,
) {
    let mut words: Vec<&str> = words.iter().map(|word| without_checkout(word)).collect();
    if words.first() == Some(&"-n") {
        words.drain(..2);
    }
    let verb = check_kubectl_flags(location, &words);
    let argument_of = |flag: &str| {
        let index = words.iter().position(|word| *word == flag)?;
        words.get(index + 1).copied()
    };
    if let Some(container) = argument_of("-c") {
        assert!(
            LAUNCHER_CONTAINERS.contains(&container),
            "{location}: {container}"
        );
    }
    if let Some(label) = argument_of("-l") {
        assert!(label.starts_with(VM_LABEL), "{location}: {label}");
    }
    match verb {
        // By default kubectl prints only the last ten lines of pods that a label selects.
        "logs" if argument_of("-l").is_some() => {
            assert!(words.contains(&"--tail=-1"), "{location}")
        }
        "patch" if words[1] == "serviceaccount" => {
            let patch: Value = serde_json::from_str(argument_of("-p").unwrap()).unwrap();
            let secret = &patch["imagePullSecrets"][0]["name"];
            assert_eq!(
                secret.as_str(),
                session.pull_secret.as_deref(),
                "{location}"
            );
        }
        "patch" => {
            let file = argument_of("--patch-file");
            let file = file.and_then(|file| {
                if file == "/dev/stdin" {
                    sed_input
                } else {
                    Some(file)
                }
            });
            let patch = file.map(source);
            let patch = patch.unwrap_or_else(|| argument_of("-p").unwrap().to_owned());
            yaml_blocks::check_patch(words[1], &patch)
                .unwrap_or_else(|error| panic!("{location}: {error}"));
        }
        "create" if words[1] == "secret" => {
            assert_eq!(words[2], "docker-registry", "{location}");
            session.pull_secret = Some(words[3].to_owned());
        }
        "create" => add_config_map(location, &words, session),
        "set" => assert!(
            words.iter().any(|word| word.starts_with(LAUNCHER_IMAGE)),
            "{location}"
        ),
        "kustomize" => {
            let file = workspace().join(words[1]).join("kustomization.yaml");
            assert!(file.is_file(), "{location}");
        }
        "apply" | "delete" if words.contains(&"-k") => {
            let directory = workspace().join(argument_of("-k").unwrap());
            assert!(directory.join("kustomization.yaml").is_file(), "{location}");
        }
        "delete" if !words.contains(&"-f") => assert_eq!(
            words[1..],
            [
                "mutatingadmissionpolicies,mutatingadmissionpolicybindings",
                "wasm-launcher-canary"
            ],
            "{location}"
        ),
        "apply" | "delete" => {
            let file = argument_of("-f").unwrap();
            let known = file == "-" || workspace().join(file).is_file();
            assert!(
                known || session.current_dir.join(file).is_file(),
                "{location}"
            );
        }
        _ => {}
    }
}

/// Checks that the files of a ConfigMap exist, and adds it to the session, for sidecars on the same page.
fn add_config_map(location: &str, words: &[&str], session: &mut PageSession) {
    assert_eq!(words[1], "configmap", "{location}");
    let mut keys = BTreeMap::new();
    let files = words.iter();
    for file in files.filter_map(|word| word.strip_prefix("--from-file=")) {
        let (key, path) = file
            .split_once('=')
            .unwrap_or((file.rsplit('/').next().unwrap(), file));
        let path = session.current_dir.join(path);
        assert!(
            path.is_file(),
            "{location}: {} is not there",
            path.display()
        );
        keys.insert(key.to_owned(), path);
    }
    session.config_maps.insert(words[2].to_owned(), keys);
}
