//! What a policy adds to a pod.

use serde_json::Value as Json;

use crate::pod_corpus::{hook_sidecar_count, set_hook_sidecar_count};

/// What a policy added to a pod: volumes, mounts of `compute` as `NAME PATH SUBPATH`, and the increase of the hook
/// count.
#[derive(Debug, PartialEq)]
pub(crate) struct PodAdditions {
    pub(crate) volumes: Vec<Json>,
    pub(crate) mounts: Vec<String>,
    pub(crate) counted: u64,
}

pub(crate) fn additions(before: &Json, after: &Json) -> PodAdditions {
    let mut rest = after.clone();
    let volumes = split_off(&mut rest["spec"]["volumes"], &before["spec"]["volumes"]);
    let compute_index = before["spec"]["containers"].as_array().unwrap().iter();
    let compute_index = compute_index
        .clone()
        .position(|container| container["name"] == "compute")
        .unwrap();
    let old = &before["spec"]["containers"][compute_index];
    let container = &mut rest["spec"]["containers"][compute_index];
    let mounts = split_off(&mut container["volumeMounts"], &old["volumeMounts"]);
    set_hook_sidecar_count(container, hook_sidecar_count(before));
    assert_eq!(rest, *before);
    for mount in &mounts {
        assert_eq!(mount["readOnly"], true, "{mount}");
    }
    let text = |value: &Json| value.as_str().unwrap_or("-").to_owned();
    let mounts = mounts.iter().map(|mount| {
        ["name", "mountPath", "subPath"]
            .map(|key| text(&mount[key]))
            .join(" ")
    });
    PodAdditions {
        volumes,
        mounts: mounts.collect(),
        counted: hook_sidecar_count(after) - hook_sidecar_count(before),
    }
}

/// Removes and returns the items that are new at the end of a list.
fn split_off(list: &mut Json, before: &Json) -> Vec<Json> {
    let old = before.as_array().unwrap().len();
    list.as_array_mut().unwrap().split_off(old)
}
