//! The JSON of descriptions, and which descriptions are invalid.

use super::*;
use crate::HookPoint;

fn description() -> Description {
    Description::new("smbios", "0.1.0", &[HookPoint::OnDefineDomain])
}

/// The error of a description that the host would refuse.
fn error(description: &Description) -> String {
    description.check().err().unwrap_or_default()
}

#[test]
#[should_panic(expected = "Shutdown is not in the hook's HOOK_POINTS")]
fn a_priority_at_another_hook_point_is_refused() {
    let _ = description().with_priority_at(HookPoint::Shutdown, 5);
}

#[test]
fn a_priority_at_a_hook_point_wins_in_either_order() {
    let points = [HookPoint::OnDefineDomain, HookPoint::Shutdown];
    let description = || Description::new("smbios", "0.1.0", &points);
    let before = description()
        .with_priority_at(HookPoint::Shutdown, -1)
        .with_priority(3);
    let after = description()
        .with_priority(3)
        .with_priority_at(HookPoint::Shutdown, -1);
    assert_eq!(before, after);
    assert_eq!(
        before.to_json(),
        r#"{"name":"smbios","version":"0.1.0","hookPoints":[{"name":"OnDefineDomain","priority":3},{"name":"Shutdown","priority":-1}]}"#
    );
}

#[test]
fn description_json_has_the_members_that_the_host_reads() {
    let wishes = Description::new("a", "1", &[])
        .with_paths(["/domain/title", "/domain/*[@x='\"']"])
        .with_config(["key"]);
    assert_eq!(
        wishes.to_json(),
        r#"{"name":"a","version":"1","hookPoints":[],"wishes":{"paths":["/domain/title","/domain/*[@x='\"']"],"config":["key"],"dirs":[]}}"#
    );
    let others = Description::new("a", "1", &[])
        .with_migration_parameters([MigrationParameter::Bandwidth])
        .with_pod_facts(["labels/*", "network-info"]);
    let json = others.to_json();
    assert!(
        json.ends_with(
            r#""dirs":[],"migration":["bandwidth"],"pod":["labels/*","network-info"]}}"#
        ),
        "{json}"
    );
    let none = Description::new("a", "1", &[]).with_no_paths().to_json();
    assert!(
        none.ends_with(r#""wishes":{"paths":[],"config":[],"dirs":[]}}"#),
        "{none}"
    );
}

#[test]
fn wishes_are_texts_of_any_type() {
    let paths: Vec<String> = vec!["/domain/title".to_owned()];
    let keys: &[&str] = &["a", "b"];
    let description = description()
        .with_paths(&paths)
        .with_paths(paths)
        .with_config(keys);
    assert_eq!(description.paths(), ["/domain/title", "/domain/title"]);
    assert_eq!(description.config_keys(), ["a", "b"]);
}

#[test]
fn wishes_that_the_host_accepts_are_valid() {
    let valid = description()
        .with_paths(["/domain/devices/disk[target/@dev='vda']/driver/@queues"])
        .with_paths([format!("/domain/{}", "a".repeat(1024 - 8))])
        .with_paths(["/domain/a[1][1][1][1][1][1][1][1]"])
        .with_config(["colour"])
        .with_dirs(["/etc/hook", "/a//b/"])
        .with_pod_facts([
            "annotations/a.example/b",
            "labels/*",
            "network-status/*/net",
        ])
        .with_pod_facts(["default-network", "network-info"]);
    assert_eq!(valid.check(), Ok(()));
    assert_eq!(
        description().with_paths(vec!["/domain/a"; 256]).check(),
        Ok(())
    );
}

#[test]
fn paths_that_the_host_refuses_are_invalid() {
    for (path, part) in [
        ("title", "does not begin with /domain/"),
        ("/domain", "does not begin with /domain/"),
        ("/domain/[", "with_paths"),
        (
            "/domain/a[1][1][1][1][1][1][1][1][1]",
            "9 predicates, more than 8",
        ),
        ("/domain/title[@x='\u{202e}']", "unprintable"),
    ] {
        let error = error(&description().with_paths([path]));
        assert!(error.contains(part), "{path}: {error}");
    }
    let long = description().with_paths([format!("/domain/{}", "a".repeat(1025 - 8))]);
    assert!(error(&long).contains("1025 bytes, more than 1024"));
    let many = description().with_paths(vec!["/domain/a"; 257]);
    assert!(error(&many).contains("257 entries, more than 256"));
}

#[test]
fn misspelt_facts_and_relative_directories_are_invalid() {
    for fact in [
        "label/x",
        "",
        "*",
        "labels",
        "labels/",
        "env/X",
        "labels/a\nb",
    ] {
        let error = error(&description().with_pod_facts([fact]));
        assert!(
            error.contains("with_pod_facts") && error.contains("annotations/KEY"),
            "{fact}: {error}"
        );
    }
    let long = description().with_pod_facts([format!("labels/{}", "a".repeat(506))]);
    assert!(error(&long).contains("513 bytes, more than 512"));
    for dir in ["a", "/a/../b", "/a/./b", "", "/a\u{200b}"] {
        let error = error(&description().with_dirs([dir]));
        assert!(error.contains("with_dirs"), "{dir}: {error}");
    }
    let key = error(&description().with_config(["a\nb"]));
    assert!(
        key.contains("with_config") && key.contains("unprintable"),
        "{key}"
    );
}

#[test]
fn long_names_are_invalid() {
    assert_eq!(description().with_name("a".repeat(253)).check(), Ok(()));
    for long in [
        description().with_name("a".repeat(254)),
        description().with_version("1\n"),
    ] {
        assert!(error(&long).contains("at most 253 printable bytes"));
    }
    let keys = vec!["a".repeat(300); 256];
    let long = description().with_config(keys);
    assert!(error(&long).contains("more than 65536"), "{}", error(&long));
}

#[test]
fn a_path_may_have_conditions_on_what_is_written_there() {
    let description = description()
        .with_paths(["/domain/title"])
        .with_conditioned_path(
            "/domain/devices/serial/log/@file",
            ValueCondition::below("/logs").and_matches(".*[.]log"),
        )
        .with_conditioned_path(
            "/domain/iothreads",
            ValueCondition::at_most(4).and_one_of(["1", "\"2\""]),
        );
    assert_eq!(description.check(), Ok(()));
    let json = description.to_json();
    let paths = "\"paths\":[\"/domain/title\",\
        {\"path\":\"/domain/devices/serial/log/@file\",\"below\":\"/logs\",\"matches\":\".*[.]log\"},\
        {\"path\":\"/domain/iothreads\",\"one-of\":[\"1\",\"\\\"2\\\"\"],\"at-most\":4}]";
    assert!(json.contains(paths), "{json}");
    assert_eq!(
        description.paths(),
        [
            "/domain/title",
            "/domain/devices/serial/log/@file",
            "/domain/iothreads"
        ]
    );
}
