//! `render` of several files, directories and patterns.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{failure, text, virt_hook, warnings, xml};

fn vmi(name: &str) -> String {
    format!(
        "kind: VirtualMachineInstance\nmetadata: {{name: {name}, namespace: ns}}\nspec: {{domain: {{devices: {{}}, memory: \
         {{guest: 64Mi}}}}}}\n"
    )
}

/// A directory with two VMs in two files, and a Service.
fn two_vms() -> tempfile::TempDir {
    let temp_dir = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("a.yaml", vmi("a")),
        ("b.yml", vmi("b")),
        (
            "service.json",
            r#"{"kind": "Service", "metadata": {"name": "s"}}"#.to_owned(),
        ),
        ("notes.txt", "no manifest".to_owned()),
    ] {
        fs::write(temp_dir.path().join(name), content).unwrap();
    }
    temp_dir
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn each_domain_is_behind_a_comment_that_names_file_and_vm() {
    let temp_dir = two_vms();
    let path = |name: &str| temp_dir.path().join(name);
    let (a, b, pattern) = (path("a.yaml"), path("b.yml"), path("?.y*ml"));
    for vmis in [
        &[text(temp_dir.path())][..],
        &[text(&a), text(&b)],
        &[text(&pattern)],
    ] {
        let output = virt_hook(&[&["render", "--vmi"], vmis].concat(), b"");
        let both = xml(&output);
        for (file, name) in [(&a, "a"), (&b, "b")] {
            let comment = format!("<!-- {}: ns/{name} -->\n<domain ", file.display());
            assert_eq!(both.matches(&comment).count(), 1, "{vmis:?}: {both}");
            let alone = xml(&virt_hook(&["render", "--vmi", text(file)], b""));
            assert!(both.contains(&alone), "{vmis:?}: {both}");
        }
        let note = format!(
            "objects that are not VMs: {}\n",
            path("service.json").display()
        );
        assert_eq!(
            warnings(&output).contains(&note),
            vmis.len() == 1 && vmis[0] != text(&pattern)
        );
    }
}

#[test]
fn each_domain_is_written_to_a_file_of_its_name() {
    let temp_dir = two_vms();
    let into = temp_dir.path().join("deep/domains");
    let arguments = [
        "render",
        "--vmi",
        text(temp_dir.path()),
        "--into",
        text(&into),
    ];
    for _ in 0..2 {
        let shown = xml(&virt_hook(&arguments, b""));
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert_eq!(names(&into), ["ns_a.xml", "ns_b.xml"]);
    }
    let one = temp_dir.path().join("a.yaml");
    let alone = xml(&virt_hook(&["render", "--vmi", text(&one)], b""));
    assert_eq!(fs::read_to_string(into.join("ns_a.xml")).unwrap(), alone);
    let json = virt_hook(&[&arguments[..], &["--json"]].concat(), b"");
    let json: Value = serde_json::from_str(&xml(&json)).unwrap();
    let vms = json["result"]["vms"].as_array().unwrap();
    assert_eq!(vms.len(), 2);
    assert_eq!(vms[0]["name"], "ns/a");
    assert_eq!(vms[0]["domain"], "ns_a");
    assert_eq!(vms[0]["written"], text(&into.join("ns_a.xml")));
    assert_eq!(vms[0]["file"], text(&one));
}

#[test]
fn a_vm_that_is_refused_keeps_no_other_from_being_rendered() {
    let temp_dir = two_vms();
    let wrong = "kind: VirtualMachineInstance\nmetadata: {name: wrong, namespace: ns}\nspec: {volumes: 7}\n";
    fs::write(temp_dir.path().join("c.yaml"), wrong).unwrap();
    fs::write(temp_dir.path().join("cut.json"), "{\"kind\": ").unwrap();
    let into = temp_dir.path().join("domains");
    let output = virt_hook(
        &[
            "render",
            "--vmi",
            text(temp_dir.path()),
            "--into",
            text(&into),
        ],
        b"",
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(names(&into), ["ns_a.xml", "ns_b.xml"]);
    let log = warnings(&output);
    for part in [
        "c.yaml is not rendered: the VMI's field spec.volumes",
        "cut.json is not rendered: ",
        "2 of 4 VMs are not rendered: ",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_is() {
    let temp_dir = two_vms();
    let into = temp_dir.path().join("domains");
    let again = temp_dir.path().join("z.yaml");
    fs::write(&again, vmi("a")).unwrap();
    let arguments = [
        "render",
        "--vmi",
        text(temp_dir.path()),
        "--into",
        text(&into),
    ];
    let (code, stderr) = failure(&virt_hook(&arguments, b""));
    assert_eq!(code, 2);
    assert!(
        stderr.contains("ns/a is in ") && stderr.contains("z.yaml: leave one of them out"),
        "{stderr}"
    );
    assert!(!into.exists());
    fs::write(&again, vmi("'../../../tmp/escaped'")).unwrap();
    let output = virt_hook(&arguments, b"");
    assert_eq!(output.status.code(), Some(1));
    let log = warnings(&output);
    assert!(log.contains("it would lead to another directory"), "{log}");
    assert_eq!(names(&into), ["ns_a.xml", "ns_b.xml"]);
    // A file is in the way.
    fs::remove_file(&again).unwrap();
    fs::remove_dir_all(&into).unwrap();
    fs::write(&into, "a file").unwrap();
    let (code, stderr) = failure(&virt_hook(&arguments, b""));
    assert_eq!(code, 3);
    assert!(stderr.contains("domains: "), "{stderr}");
}

#[test]
fn one_vm_is_not_chosen_from_several_files() {
    let temp_dir = two_vms();
    let arguments = ["render", "--vmi", text(temp_dir.path()), "--vmi-name", "a"];
    let (code, stderr) = failure(&virt_hook(&arguments, b""));
    assert_eq!(code, 2);
    assert!(
        stderr.contains("name only this file with --vmi"),
        "{stderr}"
    );
}

#[test]
fn a_note_that_vms_of_several_files_have_is_told_once() {
    let temp_dir = two_vms();
    let directory = text(temp_dir.path());
    let output = virt_hook(&["render", "--vmi", directory], b"");
    let log = warnings(&output);
    let note = format!("note: {directory}/a.yaml and 1 more: this VMI has no status, ");
    assert!(log.contains(&note), "{log}");
    assert_eq!(log.matches("has no status").count(), 1, "{log}");
}
