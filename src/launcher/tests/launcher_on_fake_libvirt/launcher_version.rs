//! `virt-launcher --version`: what the program is, and which KubeVirt it would stand in for.

use std::process::Command;

use serde_json::Value;

#[test]
fn version_as_json_says_which_kubevirt_is_stood_in_for_and_why() {
    let run = |kubevirt: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_virt-launcher"));
        program.args(["--version", "--json"]);
        let output = program
            .env("VIRT_LAUNCHER_KUBEVIRT_VERSION", kubevirt)
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let known = run("v1.8.4");
    assert_eq!(known["kubevirt"], "v1.8");
    assert_eq!(known["version"], virt_launcher::VERSION);
    assert_eq!(
        known["reason"],
        "KubeVirt v1.8 (--kubevirt-version says v1.8.4)"
    );
    assert_eq!(known["warnings"], serde_json::json!([]));
    let newer = run("v1.20.1");
    assert_eq!(newer["kubevirt"], "v1.10");
    assert!(newer["warnings"][0].as_str().unwrap().contains("v1.20.1"));
    let old = run("v1.7.4");
    assert_eq!(old["kubevirt"], Value::Null);
    assert!(old["reason"].as_str().unwrap().contains("v1.7.4"));
}
