//! Wishes, `hook.yaml` and the operator's policy are enforced on real modules and sidecars.
mod domain_changes;
mod hook_yaml_settings_and_mistakes;
mod hostile_yaml;
mod module_and_sidecar_admission;

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::fixture::sidecar_server::{Behaviour, Sidecar};
use crate::fixture::{HookDirs, XML, invocation, sha256_hex};
use hook_host::{
    Chain, CollectConfig, CollectError, HookError, HookPoint, Outcome, PolicySource, StandingHooks,
    admit_modules, collect,
};

/// The list of paths in the misbehaving hook's description, which tests overwrite.
const PATHS_PLACEHOLDER: &str = r#"["/domain/**"                                        ]"#;
/// The list of directories in the misbehaving hook's description, which tests overwrite.
const DIRS_PLACEHOLDER: &str = "[                                        ]";

/// The misbehaving hook with this list of wishes in place of a placeholder.
fn misbehaving_hook_wishing(list: &str, placeholder: &str) -> Vec<u8> {
    let padded = format!(
        "{:<width$}]",
        list.trim_end_matches(']'),
        width = placeholder.len() - 1
    );
    crate::fixture::misbehaving_hook_with(placeholder, &padded)
}

/// Collects one module with this `hook.yaml`.
async fn collect_with_hook_yaml(module: &[u8], yaml: &str) -> Result<Chain, CollectError> {
    let dirs = HookDirs::new();
    dirs.put_modified_an_hour_ago("h", "hook.yaml", yaml.as_bytes());
    dirs.put_modified_an_hour_ago("h", "odd.wasm", module);
    collect(dirs.config(1)).await
}

async fn chain_of_misbehaving_hook(yaml: &str) -> Chain {
    collect_with_hook_yaml(
        &std::fs::read(crate::fixture::misbehaving_hook()).unwrap(),
        yaml,
    )
    .await
    .unwrap()
}

async fn refusal(module: &[u8], yaml: &str) -> String {
    collect_with_hook_yaml(module, yaml)
        .await
        .err()
        .unwrap()
        .to_string()
}

async fn define(chain: &Chain, vmi: &str) -> Result<String, HookError> {
    let defined = chain.on_define_domain(&invocation(), vmi, XML.into()).await;
    defined.map(|(xml, _)| xml)
}

/// Writes a policy file, and returns its path.
fn write_policy(dirs: &HookDirs, name: &str, text: &str) -> PathBuf {
    let path = dirs.at("../policy", name);
    std::fs::write(&path, text).unwrap();
    path
}
