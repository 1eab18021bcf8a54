//! The SDK's copies of the host's rules accept and refuse the same: descriptions, and parameters of migrations.
#![allow(clippy::unwrap_used)]

use hook_host::MigrationParameters;
use hooks_sdk::__private::check_description;
use hooks_sdk::{Description, HookPoint, Migration, MigrationParameter, ValueCondition};

fn description() -> Description {
    Description::new("a", "1", &[HookPoint::OnDefineDomain])
}

#[test]
fn descriptions_are_valid_to_the_sdk_if_they_are_to_the_host() {
    let long_path = |bytes: usize| format!("/domain/{}", "a".repeat(bytes - 8));
    let mut descriptions = vec![
        description(),
        description().with_name("a".repeat(253)),
        description().with_name("a".repeat(254)),
        description().with_name(""),
        description().with_version("1\n"),
        description().with_paths([long_path(1024)]),
        description().with_paths([long_path(1025)]),
        description().with_paths(vec!["/domain/a"; 256]),
        description().with_paths(vec!["/domain/a"; 257]),
        description().with_config(vec!["a".repeat(300); 256]),
        description().with_config(["", "a b", "ä"]),
        description().with_migration_parameters(MigrationParameter::ALL.iter().copied()),
        description().with_pod_facts([format!("labels/{}", "a".repeat(505))]),
        description().with_pod_facts([format!("labels/{}", "a".repeat(506))]),
    ];
    for path in [
        "title",
        "/domain",
        "/domain/",
        "/domain/[",
        "/domain/**",
        "/domain/a[1][1][1][1][1][1][1][1]",
        "/domain/a[1][1][1][1][1][1][1][1][1]",
        "/domain/qemu:commandline/**",
    ] {
        descriptions.push(description().with_paths([path]));
    }
    for directory in [
        "/", "/a", "/a/", "/a//b", "a", "", "/a/../b", "/a/./b", "/..", "/a/.",
    ] {
        descriptions.push(description().with_dirs([directory]));
    }
    for fact in [
        "label/x",
        "labels/x",
        "labels/",
        "labels/*",
        "*",
        "",
        "annotations/a.example/b",
        "network-status/*/net",
        "default-network",
        "default-networks",
        "network-info",
    ] {
        descriptions.push(description().with_pod_facts([fact]));
    }
    for c in [
        '\n',
        '\u{7f}',
        '\u{85}',
        '\u{ad}',
        '\u{200b}',
        '\u{2028}',
        '\u{202e}',
        '\u{feff}',
        '\u{e0001}',
        'é',
    ] {
        descriptions.push(description().with_config([format!("a{c}b")]));
        descriptions.push(description().with_dirs([format!("/a{c}b")]));
        descriptions.push(description().with_pod_facts([format!("labels/a{c}b")]));
        descriptions.push(description().with_paths([format!("/domain/a[@b='{c}']")]));
    }
    let long = |bytes: usize| "a".repeat(bytes);
    for condition in [
        ValueCondition::below("/logs"),
        ValueCondition::below("/logs/../etc"),
        ValueCondition::below("logs"),
        ValueCondition::below(""),
        ValueCondition::below("/a\n"),
        ValueCondition::below("/").and_at_most(0),
        ValueCondition::one_of(["a", ""]),
        ValueCondition::one_of(Vec::<String>::new()),
        ValueCondition::one_of(vec!["a"; 64]),
        ValueCondition::one_of(vec!["a"; 65]),
        ValueCondition::one_of([long(4096)]),
        ValueCondition::one_of([long(4097)]),
        ValueCondition::one_of(["a\u{202e}"]),
        ValueCondition::matches(long(256)),
        ValueCondition::matches(long(257)),
        ValueCondition::matches("a\tb"),
        ValueCondition::at_most(u64::MAX),
    ] {
        descriptions.push(description().with_conditioned_path("/domain/title", condition));
    }
    for path in [
        "title",
        "/domain/[",
        "/domain/title",
        "/domain/**",
        "/domain/*",
        "/domain/@*",
        "/domain/qemu:*",
        "/domain/*/a/@b",
        "/domain/a[@b='*']",
    ] {
        let condition = ValueCondition::at_most(1);
        descriptions.push(description().with_conditioned_path(path, condition));
    }
    for description in descriptions {
        let sdk = check_description(&description);
        let host = hook_host::Description::parse(&description.to_json());
        assert_eq!(sdk.is_ok(), host.is_ok(), "{sdk:?}, but {host:?}");
    }
}

#[test]
fn parameters_of_a_migration_have_the_same_names_and_ranges() {
    let texts = MigrationParameters::default().to_texts();
    let names: Vec<&str> = texts.iter().map(|(name, _)| name.as_str()).collect();
    let of_sdk = MigrationParameter::ALL
        .iter()
        .map(|parameter| parameter.name());
    assert_eq!(of_sdk.collect::<Vec<_>>(), names);
    let numbers = [
        0,
        1,
        255,
        256,
        2_000_000,
        2_000_001,
        u64::from(u32::MAX),
        u64::from(u32::MAX) + 1,
        u64::from(u32::MAX) << 20,
        (u64::from(u32::MAX) << 20) + 1,
        u64::MAX,
    ];
    let numbers = numbers.iter().map(u64::to_string);
    let words = ["true", "false", "", "-1", "1.5", "TRUE"];
    for value in numbers.chain(words.map(str::to_owned)) {
        for parameter in MigrationParameter::ALL {
            let mut migration = Migration::new(texts.clone());
            let sdk = migration.set(*parameter, &value);
            let host = MigrationParameters::default()
                .with_texts(&[(parameter.name().to_owned(), value.clone())]);
            assert_eq!(
                sdk.is_ok(),
                host.is_ok(),
                "{parameter} {value}: {sdk:?}, but {host:?}"
            );
        }
    }
}
