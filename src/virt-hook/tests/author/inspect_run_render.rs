//! `inspect`, `run` and `render --diff`; what all verbs have in common.

use super::{POLICY, ProgramOutput, smbios, text, virt_hook, vmi, write};

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
    let (module, place) = (smbios(), tempfile::tempdir().unwrap());
    let policy = virt_hook(&["inspect", text(&module), "--policy-only"]).ok();
    assert!(policy.starts_with("allow:\n"), "{policy}");
    let vmi = vmi(place.path());
    let run = |policy: &str| {
        let policy = write(place.path(), "policy.yaml", policy);
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

/// A module that was built before the package was renamed.
#[test]
fn every_verb_tells_the_packages_new_name() {
    let module = tests::binaries::workspace().join("tests/fixtures/former-package/smbios.wasm");
    let place = tempfile::tempdir().unwrap();
    let vmi = vmi(place.path());
    for (code, arguments) in [
        (1, &["inspect", text(&module)][..]),
        (1, &["check", text(&module), "--without-libvirt"]),
        (2, &["render", "--vmi", text(&vmi), "--hook", text(&module)]),
    ] {
        let refused = virt_hook(arguments);
        assert_eq!(refused.code, code, "{}{}", refused.out, refused.err);
        let all = refused.out + &refused.err;
        let told = all.lines().filter(|line| {
            line.contains("built for kubevirt:hooks@0.1.0")
                && line.contains("virt-hook:hooks@0.1.0 now: build it again")
        });
        assert_eq!(told.count(), 1, "{all}");
    }
}

#[test]
fn what_is_no_hook_is_refused_and_what_is_no_file_is_not_sensible() {
    let place = tempfile::tempdir().unwrap();
    let garbage = write(place.path(), "garbage.wasm", "garbage");
    let refused = virt_hook(&["inspect", text(&garbage), "--json"]);
    assert_eq!(refused.code, 1);
    assert_eq!(refused.json()["error"]["kind"], "refused");
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
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let (pipe, round) = (at("pipe.wasm"), at("round.wasm"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    std::os::unix::fs::symlink(&round, &round).unwrap();
    for verb in ["inspect", "check", "bench"] {
        for (path, words) in [
            (place.path(), "it is a directory: name the module in it"),
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
    let place = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(smbios()).unwrap();
    bytes[4] += 1;
    let newer = place.path().join("newer.wasm");
    std::fs::write(&newer, bytes).unwrap();
    let said = virt_hook(&["inspect", text(&newer)]);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    assert!(
        said.err.contains("version 14") && said.err.contains("version 13"),
        "{}",
        said.err
    );
}

#[test]
fn run_shows_what_a_hook_did() {
    let place = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(place.path()));
    let shown = virt_hook(&["run", text(&module), "--vmi", text(&vmi)]).ok();
    assert!(
        shown.starts_with("smbios_hook at OnDefineDomain: ok, 1 change, ")
            && shown.contains("    + <entry name='manufacturer'>Radical Edward</entry>\n"),
        "{shown}"
    );
    let json = virt_hook(&["run", text(&module), "--vmi", text(&vmi), "--json"]).json();
    let run = &json["result"]["runs"][0];
    assert_eq!(
        (run["outcome"].as_str(), run["changes"][0]["kind"].as_str()),
        (Some("ok"), Some("inserted"))
    );
    assert!(
        json["result"]["xml"]
            .as_str()
            .unwrap()
            .contains("Radical Edward")
    );
}

#[test]
fn run_takes_a_domain_and_a_policy() {
    let place = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(place.path()));
    let domain = "<domain type='kvm'><name>ns_vm</name><os/></domain>";
    let domain = write(place.path(), "domain.xml", domain);
    let arguments = [
        "run",
        text(&module),
        "--vmi",
        text(&vmi),
        "--domain",
        text(&domain),
    ];
    let json = virt_hook(&[&arguments[..], &["--json"]].concat()).json();
    let xml = json["result"]["xml"].as_str().unwrap();
    assert!(
        xml.starts_with("<domain type='kvm'>") && xml.contains("smbios mode="),
        "{xml}"
    );

    let policy = write(
        place.path(),
        "policy.yaml",
        "allow:\n  paths: [/domain/title]\n",
    );
    let refused = virt_hook(&[&arguments[..], &["--policy", text(&policy)]].concat());
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("policy.yaml:2:10"), "{}", refused.err);
}

#[test]
fn run_wants_to_know_where_and_tells_of_a_veto() {
    let place = tempfile::tempdir().unwrap();
    let vmi = vmi(place.path());
    let policy = write(place.path(), "policy.yaml", POLICY);
    let module = super::pod::every_point();
    let run = |more: &[&str]| {
        let given = ["--vmi", text(&vmi), "--policy", text(&policy)];
        virt_hook(&[&["run", text(&module)], &given[..], more].concat())
    };
    let asked = run(&[]);
    assert_eq!(asked.code, 2);
    assert!(
        asked.err.contains("--point") && asked.err.contains("PreStart"),
        "{}",
        asked.err
    );
    let started = run(&["--point", "PreStart"]).ok();
    assert!(started.contains("info: vm may start: Boot"), "{started}");

    let text = std::fs::read_to_string(&vmi).unwrap();
    std::fs::write(&vmi, text.replace("do: nothing", "do: veto")).unwrap();
    let veto = run(&["--point", "PreStart", "--json"]);
    assert_eq!(veto.code, 1);
    let run = &veto.json()["result"]["runs"][0];
    assert_eq!(run["outcome"], "veto");
    assert!(veto.err.contains("licence expired"), "{}", veto.err);
}

#[test]
fn run_refuses_inputs_of_another_hook_point() {
    let place = tempfile::tempdir().unwrap();
    let vmi = vmi(place.path());
    let policy = write(place.path(), "policy.yaml", POLICY);
    let device = "<disk type='file'><target dev='sda'/><alias name='ua-d'/></disk>";
    let device = write(place.path(), "disk.xml", device);
    let module = super::pod::every_point();
    let run = |more: &[&str]| {
        let given = ["--vmi", text(&vmi), "--policy", text(&policy)];
        virt_hook(&[&["run", text(&module)], &given[..], more].concat())
    };
    for (more, part) in [
        (
            &["--point", "PreStart", "--parameter", "max-downtime=5"][..],
            "--parameter is for PreMigrationSource",
        ),
        (
            &["--point", "PreStart", "--device", text(&device)],
            "--device is for OnAttachDevice",
        ),
        (&["--point", "OnAttachDevice"], "with --device"),
        (
            &["--device", text(&device), "--parameter", "max-downtime=5"],
            "--parameter",
        ),
    ] {
        let refused = run(more);
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
    // An input says which hook point is meant.
    let migrated = run(&["--parameter", "max-downtime=5", "--json"]);
    assert_eq!(migrated.result()["hookPoint"], "PreMigrationSource");
    let attached = run(&["--device", text(&device)]).ok();
    assert!(attached.contains("info: Hotplug: "), "{attached}");
}

#[test]
fn a_difference_is_coloured_when_it_is_asked_for_and_plain_in_a_pipe() {
    let place = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(place.path()));
    let arguments = [
        "render",
        "--vmi",
        text(&vmi),
        "--hook",
        text(&module),
        "--diff",
    ];
    let plain = virt_hook(&arguments).ok();
    assert!(
        plain.contains("\n-\t\t<baseBoard/>\n+\t\t<baseBoard>\n") && !plain.contains('\u{1b}'),
        "{plain}"
    );
    let always = [&arguments[..], &["--color", "always"]].concat();
    assert!(
        virt_hook(&always)
            .ok()
            .contains("\u{1b}[31m-\t\t<baseBoard/>\u{1b}[0m")
    );
    let never = [&arguments[..], &["--color", "never"]].concat();
    assert_eq!(untimed(&virt_hook(&never).ok()), untimed(&plain));
    let json = virt_hook(&[&always[..], &["--json"]].concat());
    assert!(!json.out.contains("\\u001b"));
    assert_ne!(
        json.json()["result"]["before"],
        json.json()["result"]["xml"]
    );
}

/// Without the line that says how long it took.
fn untimed(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.contains(" us, "))
        .collect()
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let place = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(place.path()));
    let command = format!(
        "{} render --vmi {} --hook {} --diff",
        env!("CARGO_BIN_EXE_virt-hook"),
        vmi.display(),
        module.display()
    );
    // util-linux's script runs a command on a terminal.
    let on_terminal = |no_color: &str| {
        let mut script = std::process::Command::new("script");
        script.args(["--quiet", "--return", "--command", &command, "/dev/null"]);
        let output = script
            .env("NO_COLOR", no_color)
            .env("TERM", "xterm")
            .output();
        ProgramOutput::from(output.unwrap()).ok()
    };
    assert!(on_terminal("").contains("\u{1b}[31m"));
    assert!(!on_terminal("1").contains("\u{1b}["));
}

#[test]
fn every_verb_explains_itself() {
    let help = virt_hook(&["--help"]).ok();
    let verbs = [
        "new", "check", "inspect", "run", "render", "test", "bench", "compile", "serve", "replay",
        "wrap", "image", "sign", "verify", "push", "pull",
    ];
    for verb in verbs {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb}: {help}");
        let help = virt_hook(&[verb, "--help"]).ok();
        for part in ["Examples:", "Exit codes:", "--json"] {
            assert!(help.contains(part), "{verb}: {help}");
        }
    }
}

#[test]
fn the_version_is_a_document_too() {
    let shown = virt_hook(&["--version"]).ok();
    assert!(shown.starts_with("virt-hook "), "{shown}");
    let json = virt_hook(&["--version", "--json"]).json();
    let result = &json["result"];
    assert_eq!(result["wit"], "virt-hook:hooks@0.1.0");
    assert!(
        result["wasmtime"].as_str().unwrap().starts_with("48."),
        "{json}"
    );
    assert!(result.as_object().unwrap().contains_key("commit"), "{json}");
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

/// Texts as they are, not as Rust writes them.
#[test]
fn verbose_lines_are_for_people() {
    let place = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(place.path()));
    let run = virt_hook(&["run", text(&module), "--vmi", text(&vmi), "--verbose"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(
        run.err.contains("outcome=changed") && run.err.contains("hook=smbios"),
        "{}",
        run.err
    );
    for rust in ["\\\"", "outcome=\"", "Some("] {
        assert!(!run.err.contains(rust), "{rust}: {}", run.err);
    }
}

/// A module that is not there, a text in its place, an empty VMI.
#[test]
fn what_cannot_be_used_has_exit_code_2_with_every_verb() {
    let place = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(place.path()));
    let empty = write(place.path(), "empty.yaml", "");
    let gone = "/nonexistent/hook.wasm";
    for arguments in [
        &["inspect", gone][..],
        &["check", gone],
        &["run", gone, "--vmi", text(&vmi)],
        &["render", "--vmi", text(&vmi), "--hook", gone],
        &["test", "--hook", gone, text(place.path())],
        &["bench", gone],
        &["compile", gone, "--into", text(place.path())],
        &["wrap", gone, "--out", "x.wasm"],
        &["image", gone, "--out", "layout"],
        &["sign", gone, "--key", gone],
        &["verify", gone, "--key", gone],
        &["serve", "--module", gone],
        &["replay", "/nonexistent.json", "--hook", gone],
        &["run", text(&module), "--vmi", text(&empty)],
        &["render", "--vmi", text(&empty)],
        &["check", text(&module), "--vmi", text(&empty)],
        &["bench", text(&module), "--vmi", text(&empty)],
    ] {
        let said = virt_hook(arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}{}", said.out, said.err);
        assert_eq!(said.err.lines().count(), 1, "{arguments:?}: {}", said.err);
    }
}
