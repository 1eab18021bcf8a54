//! Tests the guard policy (`refuse-unusable-hook-annotations.yaml`).

mod annotations;
mod claims_shared_with_sidecars;
mod launcher_pods;
mod volumes_of_policies;

use crate::emulated_api_server::ApiServer;
use crate::policy_files::policies;

const IMAGE: (&str, &str) = ("image", "registry.example/hooks:1");

/// An emulated API server with the guard and these policies.
fn server(names: &[&str]) -> ApiServer {
    let mut paths: Vec<String> = names
        .iter()
        .map(|name| format!("deploy/admission/v1/{name}.yaml"))
        .collect();
    paths.push("deploy/admission/guard/refuse-unusable-hook-annotations.yaml".to_owned());
    ApiServer::new(policies(
        "v1",
        &paths.iter().map(String::as_str).collect::<Vec<_>>(),
    ))
}

/// An emulated API server with only the guard.
fn guard() -> ApiServer {
    server(&[])
}
