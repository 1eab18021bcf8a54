//! `inspect`: reports about modules, and errors for files that are not modules.

use std::path::{Path, PathBuf};

use super::{smbios, text, virt_hook, vmi, write};

#[test]
fn inspect_reports_description_imports_and_exports() {
    let module = smbios();
    let shown = virt_hook(&["inspect", text(&module)]).success_stdout();
    for part in [
        "smbios-hook 0.1.0",
        "OnDefineDomain (priority 0)",
        "/domain/sysinfo/baseBoard/**",
        "virt-hook:hooks/handler@0.1.0",
        "MiB at most",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json = virt_hook(&["inspect", text(&module), "--json"]).json();
    let result = &json["result"];
    assert_eq!(json["verb"], "inspect");
    assert_eq!(result["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(result["hookPoints"][0]["name"], "OnDefineDomain");
    let exports = result["exports"].as_array().unwrap().iter();
    let mut handlers = exports.filter(|export| export["name"] == "virt-hook:hooks/handler@0.1.0");
    let handler = handlers.next().unwrap();
    assert_eq!(handler["functions"].as_array().unwrap().len(), 5);
    assert!(result["compilePeakMemory"].as_u64().unwrap() > 1 << 20);
}

#[test]
fn printed_policy_suffices_to_run_the_hook() {
    let (module, temp_dir) = (smbios(), tempfile::tempdir().unwrap());
    let policy = virt_hook(&["inspect", text(&module), "--policy-only"]).success_stdout();
    assert!(policy.starts_with("allow:\n"), "{policy}");
    let vmi = vmi(temp_dir.path());
    let run = |policy: &str| {
        let policy = write(temp_dir.path(), "policy.yaml", policy);
        let arguments = ["--vmi", text(&vmi), "--policy", text(&policy)];
        virt_hook(&[&["run", text(&module)], &arguments[..]].concat())
    };
    run(&policy).success_stdout();
    let narrower = policy.replace("    - /domain/sysinfo/baseBoard/**\n", "");
    assert_ne!(narrower, policy);
    let refused = run(&narrower);
    assert!(
        refused.code != 0 && refused.err.contains("\"/domain/sysinfo/baseBoard/**\""),
        "{}",
        refused.err
    );
}

const KEYMAP_DOMAIN: &str = "<domain type='kvm'><name>ns_vm</name><uuid>u</uuid><devices>\
    <graphics type='vnc' keymap='en'/></devices></domain>";

/// A module that declares the path of the keymap and sets this keymap.
fn keymap_hook(directory: &Path, keymap: &str) -> PathBuf {
    let wishes = r#"["/domain/devices/graphics/@keymap", "/domain/os/kernel"]"#;
    let domain = KEYMAP_DOMAIN.replace("'en'", &format!("'{keymap}'"));
    hook_that_returns(directory, wishes, &domain)
}

/// A module with these wishes for paths that returns this domain.
fn hook_that_returns(directory: &Path, paths: &str, domain: &str) -> PathBuf {
    let description = format!(
        r#"{{"name": "h", "hookPoints": [{{"name": "OnDefineDomain"}}], "wishes": {{"paths": {paths}}}}}"#
    );
    let module = include_str!("../../../hook-host/tests/fixture/handwritten_guest.wat")
        .replace("DESCRIPTION", &description.escape_default().to_string())
        .replace("LENGTH", &description.len().to_string())
        .replace(
            ";;FIELDS",
            &format!("(data (i32.const 1000000) \"{domain}\")"),
        )
        .replace(
            ";;DEFINE",
            &format!(
                "(return (call $done (i32.const 1000000) (i32.const {})))",
                domain.len()
            ),
        );
    let path = directory.join("hook.wasm");
    let module = hook_wrap::wrap(&wat::parse_str(module).unwrap()).unwrap();
    std::fs::write(&path, module).unwrap();
    path
}

/// A path of which only some values are dangerous is granted without these values.
#[test]
fn printed_policy_grants_no_dangerous_values() {
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = vmi(temp_dir.path());
    let domain = write(temp_dir.path(), "domain.xml", KEYMAP_DOMAIN);
    let run = |keymap: &str| {
        let module = keymap_hook(temp_dir.path(), keymap);
        let policy = virt_hook(&["inspect", text(&module), "--policy-only"]).success_stdout();
        assert!(
            policy.contains("  dangerous:\n    - /domain/os/kernel\n  dirs:"),
            "{policy}"
        );
        let comment =
            "# `dangerous` too, if it sets a value that names a file, socket or device of the host";
        assert!(policy.contains(comment), "{policy}");
        let policy = write(temp_dir.path(), "policy.yaml", &policy);
        let inputs = ["--vmi", text(&vmi), "--domain", text(&domain)];
        let policy = ["--policy", text(&policy)];
        virt_hook(&[&["run", text(&module)], &inputs[..], &policy].concat())
    };
    let harmless = run("de").success_stdout();
    assert!(harmless.contains("@keymap"), "{harmless}");
    let dangerous = run("/x");
    assert_eq!(dangerous.code, 1, "{}{}", dangerous.out, dangerous.err);
    assert!(dangerous.out.contains("@keymap"), "{}", dangerous.out);
}

const SERIAL_DOMAIN: &str =
    "<domain type='kvm'><name>ns_vm</name><uuid>u</uuid><devices></devices></domain>";

/// The way of a log file from the author's wish to the operator's policy and the run.
#[test]
fn printed_policy_has_the_conditions_of_the_wishes_and_grants_no_other_value() {
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = vmi(temp_dir.path());
    let domain = write(temp_dir.path(), "domain.xml", SERIAL_DOMAIN);
    let wishes = r#"["/domain/devices/serial/target", "/domain/devices/serial", "/domain/devices/serial/log",
        {"path": "/domain/devices/serial/log/@file", "below": "/logs", "one-of": ["/logs/a", "/logs/b, c"]},
        {"path": "/domain/iothreads", "at-most": 4, "matches": "[0-9]: #?"}]"#;
    let hook = |file: &str| {
        let serial = format!(
            "<serial type='pty'><target port='1'/><log file='{file}' append='on'/></serial>"
        );
        let domain = SERIAL_DOMAIN.replace("<devices>", &format!("<devices>{serial}"));
        hook_that_returns(temp_dir.path(), wishes, &domain)
    };
    let policy_of =
        |module: &Path| virt_hook(&["inspect", text(module), "--policy-only"]).success_stdout();
    let policy = policy_of(&hook("/logs/a"));
    assert_eq!(
        policy,
        "allow:\n  paths:\n    - /domain/devices/serial/target\n    - /domain/devices/serial/target/@*\n    \
         - /domain/devices/serial\n    - /domain/devices/serial/@*\n    - /domain/devices/serial/log\n    \
         - /domain/devices/serial/log/@*\n    - path: /domain/iothreads\n      matches: \"[0-9]: #?\"\n      \
         at-most: 4\n  dangerous:\n    - path: /domain/devices/serial/log/@file\n      below: /logs\n      \
         one-of: [\"/logs/a\",\"/logs/b, c\"]\n  dirs: []\n  config: []\n  hookPoints:\n    - OnDefineDomain\n"
    );
    let json = virt_hook(&["inspect", text(&hook("/logs/a")), "--json"]).json();
    let granted = &json["result"]["policy"]["dangerous"][0];
    assert_eq!(granted, &json["result"]["wishes"]["paths"][3]);
    assert_eq!(granted["below"], "/logs");
    let run = |file: &str, policy: &str| {
        let policy = write(temp_dir.path(), "policy.yaml", policy);
        let inputs = ["--vmi", text(&vmi), "--domain", text(&domain)];
        let module = hook(file);
        virt_hook(
            &[
                &["run", text(&module)],
                &inputs[..],
                &["--policy", text(&policy)],
            ]
            .concat(),
        )
    };
    let any_file = policy.replace("- path: /domain/devices/serial/log/@file\n      below: /logs\n      one-of: [\"/logs/a\",\"/logs/b, c\"]", "- HostPath");
    for policy in [&policy, &any_file] {
        run("/logs/a", policy).success_stdout();
        let refused = run("/etc/passwd", policy);
        assert_eq!(refused.code, 1, "{}{}", refused.out, refused.err);
        let text = "\"/etc/passwd\" is not below /logs; let the hook write a value that meets the condition, or ";
        assert!(
            refused.out.contains(text) && refused.out.contains("/domain/devices/serial/log/@file"),
            "{}",
            refused.out
        );
    }
    let narrower = policy.replace("below: /logs\n", "below: /logs/vm\n");
    let refused = run("/logs/a", &narrower);
    assert!(refused.code != 0, "{}", refused.out);
}

#[test]
fn unusable_file_and_unknown_option_are_usage_errors() {
    let temp_dir = tempfile::tempdir().unwrap();
    let garbage = write(temp_dir.path(), "garbage.wasm", "garbage");
    let refused = virt_hook(&["inspect", text(&garbage), "--json"]);
    assert_eq!(refused.code, 2);
    assert_eq!(refused.json()["error"]["kind"], "usage");
    assert!(refused.err.contains("garbage.wasm") && refused.err.lines().count() == 1);
    let missing = virt_hook(&["inspect", "/nonexistent.wasm", "--json"]);
    assert_eq!(missing.code, 2);
    assert_eq!(missing.json()["error"]["kind"], "usage");
    let unknown = virt_hook(&["inspect", "--frobnicate", "--json"]);
    assert_eq!(unknown.code, 2);
    let message = unknown.json()["error"]["message"].to_string();
    assert!(message.contains("--frobnicate"), "{message}");
}

/// Opening a pipe without a writer would block.
#[test]
fn error_contains_the_path_of_a_non_module_file() {
    let temp_dir = tempfile::tempdir().unwrap();
    let path_of = |name: &str| temp_dir.path().join(name);
    let (pipe, round) = (path_of("pipe.wasm"), path_of("round.wasm"));
    let status = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(status.unwrap().success());
    std::os::unix::fs::symlink(&round, &round).unwrap();
    for verb in ["inspect", "check", "bench"] {
        for (path, words) in [
            (temp_dir.path(), "it is a directory: name the module in it"),
            (&pipe, "it is not a regular file"),
            (&round, "symbolic links"),
        ] {
            let output = virt_hook(&[verb, text(path)]);
            assert_eq!(output.code, 2, "{verb}: {}{}", output.out, output.err);
            assert!(
                output.out.is_empty() && output.err.contains(words),
                "{}",
                output.err
            );
            assert!(output.err.contains(text(path)), "{}", output.err);
        }
    }
}

#[test]
fn component_of_another_encoding_is_distinguished_from_other_files() {
    let temp_dir = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(smbios()).unwrap();
    bytes[4] += 1;
    let newer = temp_dir.path().join("newer.wasm");
    std::fs::write(&newer, bytes).unwrap();
    let output = virt_hook(&["inspect", text(&newer)]);
    assert_eq!(output.code, 2, "{}{}", output.out, output.err);
    assert!(
        output.err.contains("version 14") && output.err.contains("version 13"),
        "{}",
        output.err
    );
}

/// The README of each example has the minimal policy, which the example's tests check.
#[test]
fn inspect_prints_the_policy_of_the_examples_readme() {
    for (name, module) in [
        ("smbios", smbios()),
        (
            "disk-tuning",
            super::example_modules::example("disk-tuning-hook"),
        ),
    ] {
        let readme = tests::binaries::workspace().join(format!("examples-hooks/{name}/README.md"));
        let readme = std::fs::read_to_string(readme).unwrap();
        let (_, policy) = readme.split_once("```yaml policy\n").unwrap();
        let (policy, _) = policy.split_once("```").unwrap();
        let shown = virt_hook(&["inspect", text(&module)]).success_stdout();
        let read = |yaml: &str| -> serde_json::Value { serde_saphyr::from_str(yaml).unwrap() };
        let (_, printed) = shown.split_once("policy that it needs:\n\n").unwrap();
        assert_eq!(
            read(printed)["allow"],
            {
                let mut allow = read(policy)["allow"].clone();
                let dangerous = allow.as_object_mut().unwrap().entry("dangerous");
                dangerous.or_insert_with(|| serde_json::json!([]));
                allow
            },
            "{name}"
        );
    }
}
