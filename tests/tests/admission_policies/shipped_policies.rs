//! The policies of `deploy/admission`, with what they must add to a launcher pod.

use serde_json::{Value as Json, json};

use crate::emulated_api_server::ApiServer;
use crate::pod_additions::PodAdditions;
use crate::pod_corpus::Annotations;
use crate::policy_files::policies;

pub(crate) const IMAGE: (&str, &str) = ("image", "registry.example/hooks:1");

/// An emulated API server with the policies of these files and the guard. The files of v1beta1 have the same policies.
pub(crate) fn server_with_policies(names: &[&str]) -> ApiServer {
    let files = names.iter().map(|name| policy_file(name, "v1"));
    let guard = "deploy/admission/guard/refuse-unusable-hook-annotations.yaml".to_owned();
    let paths: Vec<String> = files.chain([guard]).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    ApiServer::new(policies("v1", &paths))
}

/// The file of a policy for an API version.
pub(crate) fn policy_file(name: &str, version: &str) -> String {
    let directory = match name {
        "launcher-canary" => "canary",
        _ => "admission",
    };
    format!("deploy/{directory}/{version}/{name}.yaml")
}

pub(crate) fn image_volume(name: &str, reference: &str) -> Json {
    json!({"name": name, "image": {"reference": reference, "pullPolicy": "IfNotPresent"}})
}

pub(crate) fn strings(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

/// The policies that VM owners use with annotations: the policy's file name, the annotations, and the expected
/// additions.
pub(crate) fn annotation_policies() -> Vec<(&'static str, Annotations, PodAdditions)> {
    let config_map = |name: &str| json!({"name": format!("wasm-config-map-{name}"), "configMap": {"name": name, "defaultMode": 292}});
    let claim = json!({"name": "wasm-claim-hooks", "persistentVolumeClaim": {"claimName": "hooks", "readOnly": true}});
    vec![
        (
            "counted-hooks-from-image",
            &[IMAGE, ("hooks", "banner, serial")],
            PodAdditions {
                volumes: vec![image_volume("wasm-hooks", IMAGE.1)],
                mounts: strings(&[
                    "wasm-hooks /var/run/kubevirt-hooks/wasm-banner banner",
                    "wasm-hooks /var/run/kubevirt-hooks/wasm-serial serial",
                ]),
                counted: 2,
            },
        ),
        (
            "standing-hooks-from-image",
            &[IMAGE, ("standing", "banner,serial")],
            PodAdditions {
                volumes: vec![image_volume("wasm-standing-hooks", IMAGE.1)],
                mounts: strings(&[
                    "wasm-standing-hooks /etc/virt-launcher/hooks/banner banner",
                    "wasm-standing-hooks /etc/virt-launcher/hooks/serial serial",
                ]),
                counted: 0,
            },
        ),
        (
            "standing-hooks-from-config-map",
            &[("config-maps", "banner,serial")],
            PodAdditions {
                volumes: vec![config_map("banner"), config_map("serial")],
                mounts: strings(&[
                    "wasm-config-map-banner /etc/virt-launcher/hooks/banner -",
                    "wasm-config-map-serial /etc/virt-launcher/hooks/serial -",
                ]),
                counted: 0,
            },
        ),
        (
            "standing-hooks-from-pvc",
            &[("claim", "hooks"), ("claim-hooks", "banner")],
            PodAdditions {
                volumes: vec![claim],
                mounts: strings(&["wasm-claim-hooks /etc/virt-launcher/hooks/banner banner"]),
                counted: 0,
            },
        ),
    ]
}
