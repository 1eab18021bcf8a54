//! `inspect`: what it says of modules, and of files that are none.

use super::{smbios, text, virt_hook, vmi, write};

#[test]
fn inspect_says_what_a_module_is() {
    let module = smbios();
    let shown = virt_hook(&["inspect", text(&module)]).ok();
    for part in [
        "smbios-hook 0.1.0",
        "OnDefineDomain (priority 0)",
        "/domain/sysinfo/**",
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
    let mut handlers = exports.filter(|one| one["name"] == "virt-hook:hooks/handler@0.1.0");
    let handler = handlers.next().unwrap();
    assert_eq!(handler["functions"].as_array().unwrap().len(), 5);
    assert!(result["compilePeakMemory"].as_u64().unwrap() > 1 << 20);
}

#[test]
fn the_policy_that_inspect_prints_is_a_file_that_suffices() {
    let (module, temp_dir) = (smbios(), tempfile::tempdir().unwrap());
    let policy = virt_hook(&["inspect", text(&module), "--policy-only"]).ok();
    assert!(policy.starts_with("allow:\n"), "{policy}");
    let vmi = vmi(temp_dir.path());
    let run = |policy: &str| {
        let policy = write(temp_dir.path(), "policy.yaml", policy);
        let arguments = ["--vmi", text(&vmi), "--policy", text(&policy)];
        virt_hook(&[&["run", text(&module)], &arguments[..]].concat())
    };
    run(&policy).ok();
    let narrower = policy.replace("    - /domain/sysinfo/**\n", "");
    assert_ne!(narrower, policy);
    let refused = run(&narrower);
    assert!(
        refused.code != 0 && refused.err.contains("\"/domain/sysinfo/**\""),
        "{}",
        refused.err
    );
}

#[test]
fn what_is_no_hook_is_refused_and_what_is_no_file_is_not_sensible() {
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

/// A pipe that nobody writes to would be waited for.
#[test]
fn what_is_no_module_file_is_named_at_once() {
    let temp_dir = tempfile::tempdir().unwrap();
    let at = |name: &str| temp_dir.path().join(name);
    let (pipe, round) = (at("pipe.wasm"), at("round.wasm"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    std::os::unix::fs::symlink(&round, &round).unwrap();
    for verb in ["inspect", "check", "bench"] {
        for (path, words) in [
            (temp_dir.path(), "it is a directory: name the module in it"),
            (&pipe, "it is no regular file"),
            (&round, "symbolic links"),
        ] {
            let said = virt_hook(&[verb, text(path)]);
            assert_eq!(said.code, 2, "{verb}: {}{}", said.out, said.err);
            assert!(
                said.out.is_empty() && said.err.contains(words),
                "{}",
                said.err
            );
            assert!(said.err.contains(text(path)), "{}", said.err);
        }
    }
}

#[test]
fn a_component_of_another_encoding_is_told_from_other_files() {
    let temp_dir = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(smbios()).unwrap();
    bytes[4] += 1;
    let newer = temp_dir.path().join("newer.wasm");
    std::fs::write(&newer, bytes).unwrap();
    let said = virt_hook(&["inspect", text(&newer)]);
    assert_eq!(said.code, 2, "{}{}", said.out, said.err);
    assert!(
        said.err.contains("version 14") && said.err.contains("version 13"),
        "{}",
        said.err
    );
}

/// Each example's README has the narrowest policy, which its tests check.
#[test]
fn inspect_prints_the_policy_of_the_examples_readme() {
    for (name, module) in [
        ("smbios", smbios()),
        ("disk-tuning", super::pod::example("disk-tuning-hook")),
    ] {
        let readme = tests::binaries::workspace().join(format!("examples-hooks/{name}/README.md"));
        let readme = std::fs::read_to_string(readme).unwrap();
        let (_, policy) = readme.split_once("```yaml policy\n").unwrap();
        let (policy, _) = policy.split_once("```").unwrap();
        let shown = virt_hook(&["inspect", text(&module)]).ok();
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
