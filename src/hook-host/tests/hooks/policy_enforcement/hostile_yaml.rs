//! Hostile YAML of both files, one row each: what a launcher says to it with a real module.

use super::*;

use crate::fixture::handwritten_guest::HandwrittenGuest;
use hook_host::Version;
use hook_host::policy::HostVersions;
use serde_json::Value;

/// The rows: `text` of `file`, with `{SHA}` for the module's sha256; or `text`, then `repeat` so many `times` with `{N}`
/// counted, then `tail`. `policy` is the operator's beside a `hook.yaml`.
const ROWS: &str = include_str!("hostile_yaml.jsonl");

const DESCRIPTION: &str = r#"{"name": "title", "hookPoints": [{"name": "OnDefineDomain"}],
    "wishes": {"paths": ["/domain/title/**"]}}"#;

fn module() -> Vec<u8> {
    let guest = HandwrittenGuest {
        description: DESCRIPTION,
        ..HandwrittenGuest::default()
    };
    guest.module()
}

fn text(row: &Value, sha256: &str) -> String {
    let member = |name: &str| row[name].as_str().unwrap_or_default();
    let times = row["times"].as_u64().unwrap_or_default();
    let repeated = (0..times).map(|n| member("repeat").replace("{N}", &n.to_string()));
    let text = format!(
        "{}{}{}",
        member("text"),
        repeated.collect::<String>(),
        member("tail")
    );
    with_digest(&text, sha256)
}

fn with_digest(text: &str, sha256: &str) -> String {
    text.replace("{SHA upper}", &sha256.to_uppercase())
        .replace("{SHA}", sha256)
}

/// The refusal of the module `h/hook.wasm` with the file of this row, without the directories of files; `None` if it runs.
async fn refusal_of_row(dirs: &HookDirs, row: &Value, sha256: &str) -> Option<String> {
    let text = text(row, sha256);
    let hook_yaml = dirs.at("h", "hook.yaml");
    let policy = match row["file"].as_str().unwrap() {
        "policy" => Some(write_policy(dirs, "y.yaml", &text)),
        _ => {
            dirs.put_modified_an_hour_ago("h", "hook.yaml", text.as_bytes());
            let policy = row["policy"].as_str();
            policy.map(|policy| write_policy(dirs, "narrow.yaml", policy))
        }
    };
    let config = CollectConfig {
        policy: policy.map_or(PolicySource::None, PolicySource::File),
        namespace: "default".to_owned(),
        versions: HostVersions {
            libvirt: Some(Version::new(11, 3, 0)),
            ..HostVersions::default()
        },
        ..dirs.config(1)
    };
    let refusal = collect(config).await.err().map(|error| error.to_string());
    if hook_yaml.exists() {
        std::fs::remove_file(hook_yaml).unwrap();
    }
    let hooks = dirs.hooks().display().to_string();
    let without_directories = |text: String| {
        text.replace(&format!("{hooks}/../policy/"), "")
            .replace(&format!("{hooks}/h/"), "")
    };
    refusal.map(without_directories)
}

#[tokio::test]
async fn hostile_yaml_is_refused_with_its_place() {
    let module = module();
    let sha256 = sha256_hex(&module);
    // All rows share the compiled module.
    let dirs = HookDirs::new();
    dirs.put_modified_an_hour_ago("h", "hook.wasm", &module);
    let mut wrong = Vec::new();
    for row in ROWS.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let (name, message) = (
            row["name"].as_str().unwrap(),
            row["message"].as_str().unwrap_or_default(),
        );
        let message = with_digest(message, &sha256);
        let found = refusal_of_row(&dirs, &row, &sha256).await;
        let is_as_expected = match (&found, row["expected"].as_str().unwrap()) {
            (None, "ok") => true,
            (Some(found), "refused") => found.contains(&message),
            _ => false,
        };
        if !is_as_expected {
            wrong.push(format!("{name}: {found:?}\n   not {message:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ROWS.lines().count() > 130);
}
