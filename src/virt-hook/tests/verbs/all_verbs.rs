//! Behaviour that all verbs share: errors, exit codes, colours, help, the version.

use super::{ProgramOutput, smbios, text, virt_hook, vmi, write};

/// The module was built before the WIT package was renamed.
#[test]
fn error_about_a_module_of_the_former_wit_package_has_the_new_name() {
    let module = tests::binaries::workspace()
        .join("tests/fixtures/modules-of-former-wit-package/smbios.wasm");
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = vmi(temp_dir.path());
    for (code, arguments) in [
        (2, &["inspect", text(&module)][..]),
        (1, &["check", text(&module), "--without-libvirt"]),
        (2, &["render", "--vmi", text(&vmi), "--hook", text(&module)]),
    ] {
        let refused = virt_hook(arguments);
        assert_eq!(refused.code, code, "{}{}", refused.out, refused.err);
        let all = refused.out + &refused.err;
        let documented = all.lines().filter(|line| {
            line.contains("built for kubevirt:hooks@0.1.0")
                && line.contains("virt-hook:hooks@0.1.0 now: build it again")
        });
        assert_eq!(documented.count(), 1, "{all}");
    }
}

#[test]
fn a_difference_is_coloured_on_request_and_plain_in_a_pipe() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    let arguments = [
        "render",
        "--vmi",
        text(&vmi),
        "--hook",
        text(&module),
        "--diff",
    ];
    let plain = virt_hook(&arguments).success_stdout();
    assert!(
        plain.contains("\n-\t\t<baseBoard></baseBoard>\n+\t\t<baseBoard>\n")
            && !plain.contains('\u{1b}'),
        "{plain}"
    );
    let always = [&arguments[..], &["--color", "always"]].concat();
    assert!(
        virt_hook(&always)
            .success_stdout()
            .contains("\u{1b}[31m-\t\t<baseBoard></baseBoard>\u{1b}[0m")
    );
    let never_arguments = [&arguments[..], &["--color", "never"]].concat();
    assert_eq!(
        without_duration(&virt_hook(&never_arguments).success_stdout()),
        without_duration(&plain)
    );
    let json = virt_hook(&[&always[..], &["--json"]].concat());
    assert!(!json.out.contains("\\u001b"));
    assert_ne!(
        json.json()["result"]["before"],
        json.json()["result"]["xml"]
    );
}

/// The lines without the one that has the duration.
fn without_duration(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| !line.contains(" us, "))
        .collect()
}

#[test]
fn terminals_get_colours_unless_no_color_is_set() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
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
        ProgramOutput::from(output.unwrap()).success_stdout()
    };
    assert!(on_terminal("").contains("\u{1b}[31m"));
    assert!(!on_terminal("1").contains("\u{1b}["));
}

#[test]
fn every_verb_has_help() {
    let help = virt_hook(&["--help"]).success_stdout();
    let verbs = [
        "new",
        "check",
        "inspect",
        "run",
        "render",
        "host-facts",
        "test",
        "bench",
        "compile",
        "serve",
        "replay",
        "wrap",
        "image",
        "sign",
        "verify",
        "push",
        "pull",
    ];
    for verb in verbs {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb}: {help}");
        let help = virt_hook(&[verb, "--help"]).success_stdout();
        for part in ["Examples:", "Exit codes:", "--json"] {
            assert!(help.contains(part), "{verb}: {help}");
        }
    }
}

#[test]
fn version_is_also_printed_as_json() {
    let shown = virt_hook(&["--version"]).success_stdout();
    assert!(shown.starts_with("virt-hook "), "{shown}");
    let json = virt_hook(&["--version", "--json"]).json();
    let result = &json["result"];
    assert_eq!(result["wit"], "virt-hook:hooks@0.1.1");
    assert!(
        result["wasmtime"].as_str().unwrap().starts_with("48."),
        "{json}"
    );
    assert!(result.as_object().unwrap().contains_key("commit"), "{json}");
}

/// Texts are logged without Rust's quotes and escapes.
#[test]
fn verbose_lines_have_no_rust_escapes() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
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

#[test]
fn missing_modules_and_empty_vmis_have_exit_code_2_with_every_verb() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    let empty = write(temp_dir.path(), "empty.yaml", "");
    let missing_module = "/nonexistent/hook.wasm";
    for arguments in [
        &["inspect", missing_module][..],
        &["check", missing_module],
        &["run", missing_module, "--vmi", text(&vmi)],
        &["render", "--vmi", text(&vmi), "--hook", missing_module],
        &["test", "--hook", missing_module, text(temp_dir.path())],
        &["bench", missing_module],
        &["compile", missing_module, "--into", text(temp_dir.path())],
        &["wrap", missing_module, "--out", "x.wasm"],
        &["image", missing_module, "--out", "layout"],
        &["sign", missing_module, "--key", missing_module],
        &["verify", missing_module, "--key", missing_module],
        &["serve", "--module", missing_module],
        &["replay", "/nonexistent.json", "--hook", missing_module],
        &["run", text(&module), "--vmi", text(&empty)],
        &["render", "--vmi", text(&empty)],
        &["host-facts", text(&empty)],
        &["check", text(&module), "--vmi", text(&empty)],
        &["bench", text(&module), "--vmi", text(&empty)],
    ] {
        let output = virt_hook(arguments);
        assert_eq!(
            output.code, 2,
            "{arguments:?}: {}{}",
            output.out, output.err
        );
        assert_eq!(
            output.err.lines().count(),
            1,
            "{arguments:?}: {}",
            output.err
        );
    }
}

#[test]
fn file_that_is_no_module_has_exit_code_2_with_every_verb() {
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = vmi(temp_dir.path());
    write(temp_dir.path(), "cases/one/vmi.yaml", super::VMI);
    let cases = temp_dir.path().join("cases");
    let out = temp_dir.path().join("out");
    let module_bytes = std::fs::read(smbios()).unwrap();
    let policy = write(temp_dir.path(), "policy.yaml", "allow: {paths: []}\n");
    for (name, content) in [
        ("empty.wasm", &b""[..]),
        ("text.wasm", b"no WebAssembly"),
        ("core.wasm", b"\0asm\x01\0\0\0"),
        ("truncated.wasm", &module_bytes[..module_bytes.len() / 2]),
    ] {
        let module = temp_dir.path().join(name);
        std::fs::write(&module, content).unwrap();
        let module = text(&module);
        for arguments in [
            &["inspect", module][..],
            &["check", module],
            &["run", module, "--vmi", text(&vmi)],
            &["render", "--vmi", text(&vmi), "--hook", module],
            &["test", "--hook", module, text(&cases)],
            &["compare", "--hook", module, "--vmi", text(&vmi)],
            &["bench", module],
            &["compile", module, "--into", text(&out)],
            &["image", module, "--out", text(&out)],
            &["deploy", module, "--as", "configmap"],
            &["policy", "check", text(&policy), "--module", module],
            &["wrap", module, "--out", text(&out)],
        ] {
            // A core module can be wrapped, if it is a hook.
            if name == "core.wasm" && arguments[0] == "wrap" {
                continue;
            }
            let output = virt_hook(arguments);
            assert_eq!(
                output.code, 2,
                "{arguments:?}: {}{}",
                output.out, output.err
            );
            assert_eq!(output.out, "", "{arguments:?}");
            assert!(!output.err.contains("use it as it is"), "{}", output.err);
        }
    }
    let component = smbios();
    let wrapped = virt_hook(&["wrap", text(&component), "--out", text(&out)]);
    assert_eq!(wrapped.code, 2, "{}", wrapped.err);
    assert!(wrapped.err.contains("use it as it is"), "{}", wrapped.err);
    let empty_vmi = write(temp_dir.path(), "vmi.json", "{}");
    assert_eq!(virt_hook(&["render", "--vmi", text(&empty_vmi)]).code, 2);
}
