//! PreMigrationSource: an optional interface. Its hooks can change a closed set of parameters of a migration.

use crate::fixture::handwritten_guest::HandwrittenGuest;
use crate::fixture::{HookDirs, invocation};
use hook_host::record::{Record, RecordConfig};
use hook_host::replay::replay;
use hook_host::wasm::LoadOptions;
use hook_host::{Chain, CollectConfig, HookError, MigrationParameters, PolicySource, Run, collect};

const DESCRIPTION: &str = r#"{"name": "by-hand", "hookPoints": [{"name": "PreMigrationSource"}],
    "wishes": {"migration": ["max-downtime"]}}"#;
const WITHOUT_WISHES: &str =
    r#"{"name": "by-hand", "hookPoints": [{"name": "PreMigrationSource"}]}"#;

/// A guest that returns one parameter, `name` with the value 500; or a veto.
fn guest(description: &'static str, name: &str, vetoes: bool) -> Vec<u8> {
    let length = name.len();
    let veto = "(i32.store (i32.const 32) (i32.const 1)) (i32.store (i32.const 36) (i32.const 0))
        (i32.store (i32.const 40) (i32.const 640)) (i32.store (i32.const 44) (i32.const 11))
        (return (i32.const 32))";
    let veto = if vetoes { veto } else { "" };
    let fields = format!(
        r#"(data (i32.const 512) "{name}") (data (i32.const 576) "500") (data (i32.const 640) "not at noon")
        (func (export "virt-hook:hooks/migration-source@0.1.1#pre-migration-source")
            (param i32 i32 i32 i32) (result i32)
            {veto}
            (i32.store (i32.const 700) (i32.const 512)) (i32.store (i32.const 704) (i32.const {length}))
            (i32.store (i32.const 708) (i32.const 576)) (i32.store (i32.const 712) (i32.const 3))
            (call $done (i32.const 700) (i32.const 1)))"#
    );
    let guest = HandwrittenGuest {
        fields: fields.leak(),
        description,
        ..HandwrittenGuest::default()
    };
    guest.module()
}

async fn chain(module: &[u8], policy: &str) -> (HookDirs, Chain) {
    let dirs = HookDirs::new();
    dirs.put("h", "m.wasm", module);
    dirs.put("../policy", "policy.yaml", policy.as_bytes());
    let record = RecordConfig {
        dir: dirs.hooks().join("../records"),
        secrets: false,
    };
    let config = CollectConfig {
        record: Some(record),
        policy: PolicySource::File(dirs.hooks().join("../policy/policy.yaml")),
        ..dirs.config(1)
    };
    let chain = collect(config).await;
    (dirs, chain.unwrap_or_else(|error| panic!("{error}")))
}

async fn migrate(chain: &Chain) -> Result<(MigrationParameters, Vec<Run>), HookError> {
    let parameters = MigrationParameters::default();
    chain
        .pre_migration_source(&invocation(), "{}", parameters)
        .await
}

#[tokio::test]
async fn a_declared_parameter_is_changed_recorded_and_replayed() {
    let module = guest(DESCRIPTION, "max-downtime", false);
    let (dirs, chain) = chain(&module, "allow: {migration: [max-downtime]}\n").await;
    let (after, runs) = migrate(&chain).await.unwrap();
    let expected = MigrationParameters {
        max_downtime: 500,
        ..MigrationParameters::default()
    };
    assert_eq!(after, expected);
    let change = &runs[0].changes[0];
    let values = (change.before.as_deref(), change.after.as_deref());
    assert_eq!(
        (change.path.as_str(), values),
        ("max-downtime", (Some("900"), Some("500")))
    );
    let records = std::fs::read_dir(dirs.hooks().join("../records")).unwrap();
    let path = records.map(|entry| entry.unwrap().path()).next().unwrap();
    let record = Record::read(&path).unwrap();
    assert_eq!(record.hook_point, "PreMigrationSource");
    assert_eq!(record.migration, ["max-downtime"]);
    // The reason is the one of the hook point, whatever the caller passes.
    assert_eq!(record.invocation.reason, "migration-source");
    let module = dirs.at("h", "m.wasm");
    let replayed = replay(&record, &module, false, LoadOptions::default());
    let replayed = replayed.await.unwrap();
    assert!(replayed.difference.is_none(), "{:?}", replayed.difference);
    assert_eq!(replayed.run.changes.len(), 1);
}

#[tokio::test]
async fn a_parameter_that_is_not_declared_is_denied() {
    let module = guest(WITHOUT_WISHES, "max-downtime", false);
    let (_dirs, chain) = chain(&module, "{digests: Any}\n").await;
    let error = migrate(&chain).await.unwrap_err();
    assert!(matches!(error, HookError::Denied { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("may not change the migration's max-downtime at PreMigrationSource")
            && text.contains("wishes.migration"),
        "{text}"
    );
}

#[tokio::test]
async fn the_policy_refuses_a_module_that_declares_more() {
    let dirs = HookDirs::new();
    dirs.put("h", "m.wasm", &guest(DESCRIPTION, "max-downtime", false));
    dirs.put(
        "../policy",
        "policy.yaml",
        b"allow: {migration: [bandwidth]}\n",
    );
    let config = CollectConfig {
        policy: PolicySource::File(dirs.hooks().join("../policy/policy.yaml")),
        ..dirs.config(1)
    };
    let error = collect(config).await.err().unwrap().to_string();
    assert!(
        error.contains("parameter of a migration \"max-downtime\"")
            && error.contains("allow.migration of "),
        "{error}"
    );
}

#[tokio::test]
async fn unknown_parameters_and_vetoes_are_reported() {
    let (_dirs, unknown) = chain(&guest(DESCRIPTION, "speed", false), "{digests: Any}\n").await;
    let error = migrate(&unknown).await.unwrap_err();
    assert!(
        matches!(&error, HookError::BadOutput { message, .. } if message.contains("\"speed\" is not a parameter")),
        "{error}"
    );
    let (_dirs, vetoing) = chain(&guest(DESCRIPTION, "speed", true), "{digests: Any}\n").await;
    let error = migrate(&vetoing).await.unwrap_err().to_string();
    assert_eq!(error, "hook h refuses at PreMigrationSource: not at noon");
}
