//! The migration options that each version of KubeVirt sends: the corpus in /tests/corpus/migration-options.

#![allow(clippy::unwrap_used)]

use kubevirt_api::migration_options::MigrationOptions;

/// What each version's virt-handler sends for the same cluster and VMI.
#[test]
fn versions_options_mean_the_same() {
    let directory = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/corpus/migration-options"
    );
    let sent = |version: &str, name: &str| {
        let path = format!("{directory}/{version}/{name}.options.json");
        let json = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        MigrationOptions::from_json(&json).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let mut compared = 0;
    for file in std::fs::read_dir(format!("{directory}/main")).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        let name = file.strip_suffix(".options.json").unwrap();
        let latest = sent("main", name);
        let known_to_v1_9 = MigrationOptions {
            downtime_tuning: None,
            ..latest.clone()
        };
        assert_eq!(sent("v1.9.0", name), known_to_v1_9, "{name}");
        let oldest = sent("v1.8.4", name);
        let known_to_v1_8 = MigrationOptions {
            // v1.8 sends memory over one connection where post-copy is allowed.
            parallel_migration_threads: oldest.parallel_migration_threads,
            max_downtime_ms: 0,
            stall_detector_options: None,
            compression: None,
            ..known_to_v1_9
        };
        assert_eq!(oldest, known_to_v1_8, "{name}");
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
    let tuning = sent("main", "downtime-tuning").downtime_tuning.unwrap();
    assert_eq!((tuning.initial_ms, tuning.steps), (Some(100), Some(5)));
}
