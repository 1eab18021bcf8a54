//! Checks the YAML of pages: objects of Kubernetes and KubeVirt by a list of known fields, this project's own files
//! with their parsers.

use std::path::Path;

use hooks_sdk_testing::hook_host::policy::{HookYaml, OperatorPolicy};
use serde_json::Value;

use crate::page_blocks::Block;

/// The known fields of objects on the pages: kind, API group and version, and paths, with `[]` for the items of a
/// list and `*` for arbitrary keys. The names are the JSON names of KubeVirt's v1.9 API and Kubernetes 1.36.
const KINDS: &[(&str, &str, &str)] = &[
    (
        "VirtualMachine",
        "kubevirt.io/v1",
        "metadata.name metadata.namespace spec.runStrategy \
      spec.template.metadata.annotations.* spec.template.metadata.labels.* \
      spec.template.spec.domain.memory.guest spec.template.spec.domain.devices",
    ),
    (
        VMI,
        "kubevirt.io/v1",
        "metadata.name metadata.namespace metadata.uid metadata.annotations.* metadata.labels.* \
      spec.domain.memory.guest spec.domain.cpu.cores spec.domain.devices.interfaces[].name \
      spec.domain.devices.interfaces[].masquerade spec.domain.devices.interfaces[].bridge \
      spec.domain.devices.networkInterfaceMultiqueue \
      spec.domain.devices.gpus[].name spec.domain.devices.gpus[].deviceName spec.domain.devices.hostDevices[].name \
      spec.domain.devices.hostDevices[].deviceName spec.domain.devices.disks[].name \
      spec.domain.devices.disks[].disk.bus spec.volumes[].name spec.volumes[].cloudInitNoCloud.userData \
      spec.networks[].name spec.networks[].pod spec.networks[].multus.networkName spec.volumes[].containerDisk.image \
      spec.volumes[].configMap.name",
    ),
    (
        "KubeVirt",
        "kubevirt.io/v1",
        "metadata.name metadata.namespace \
      spec.configuration.developerConfiguration.featureGates[] \
      spec.customizeComponents.patches[].resourceType spec.customizeComponents.patches[].resourceName \
      spec.customizeComponents.patches[].type spec.customizeComponents.patches[].patch \
      spec.configuration.supportContainerResources[].type \
      spec.configuration.supportContainerResources[].resources.limits.cpu \
      spec.configuration.supportContainerResources[].resources.limits.memory \
      spec.configuration.supportContainerResources[].resources.requests.cpu \
      spec.configuration.supportContainerResources[].resources.requests.memory",
    ),
    (
        "Plugin",
        "plugin.kubevirt.io/v1alpha1",
        "metadata.name spec.condition spec.failureStrategy \
      spec.domainHooks[].sidecar.socketPath spec.domainHooks[].timeout spec.domainHooks[].failureStrategy \
      spec.launcherHooks[].sidecar.socketPath spec.launcherHooks[].sidecar.permittedHooks[] \
      spec.launcherHooks[].timeout",
    ),
    (
        "MutatingAdmissionPolicy",
        "admissionregistration.k8s.io/v1",
        "metadata.name \
      spec.matchConstraints.resourceRules[].apiGroups[] spec.matchConstraints.resourceRules[].apiVersions[] \
      spec.matchConstraints.resourceRules[].operations[] spec.matchConstraints.resourceRules[].resources[] \
      spec.matchConstraints.objectSelector.matchLabels.* spec.matchConditions[].name spec.matchConditions[].expression \
      spec.variables[].name spec.variables[].expression spec.failurePolicy spec.reinvocationPolicy \
      spec.mutations[].patchType spec.mutations[].jsonPatch.expression",
    ),
    (
        "MutatingAdmissionPolicyBinding",
        "admissionregistration.k8s.io/v1",
        "metadata.name spec.policyName",
    ),
    (
        "PodMonitor",
        "monitoring.coreos.com/v1",
        "metadata.name metadata.namespace spec.namespaceSelector.any spec.selector.matchLabels.* \
      spec.podMetricsEndpoints[].path spec.podMetricsEndpoints[].relabelings[].sourceLabels[] \
      spec.podMetricsEndpoints[].relabelings[].regex spec.podMetricsEndpoints[].relabelings[].action \
      spec.podMetricsEndpoints[].relabelings[].replacement spec.podMetricsEndpoints[].relabelings[].targetLabel",
    ),
    (
        "PrometheusRule",
        "monitoring.coreos.com/v1",
        "metadata.name metadata.namespace spec.groups[].name spec.groups[].rules[].alert \
      spec.groups[].rules[].record spec.groups[].rules[].expr spec.groups[].rules[].labels.* \
      spec.groups[].rules[].annotations.*",
    ),
    (
        CONTAINER,
        "",
        "args[] volumeMounts[].name volumeMounts[].mountPath volumeMounts[].subPath",
    ),
];
const VMI: &str = "VirtualMachineInstance";
const CONTAINER: &str = "a container";

/// The documents of a YAML text.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, String> {
    serde_saphyr::from_multiple(text).map_err(|error| error.to_string())
}

/// Checks a block with the parser for its content.
pub(crate) fn check_block(page: &str, block: &Block) -> Result<(), String> {
    let (path, text) = (Path::new(page), &block.text);
    let head = text.lines().next().unwrap_or_default();
    let role = match head.strip_prefix("# ") {
        Some(file) if block.role.is_empty() => file,
        _ => &block.role,
    };
    match role {
        "hook.yaml" => HookYaml::parse(path, text)
            .map(drop)
            .map_err(|error| error.to_string()),
        "policy" | "policy.yaml" | "hook-policy.yaml" => {
            let parsed = OperatorPolicy::parse(path, text);
            parsed.map(drop).map_err(|error| error.to_string())
        }
        "pod" | "pod.yaml" => documents(text)?.iter().try_for_each(check_pod_facts),
        role if role.contains("-data") => documents(text).map(drop),
        _ => documents(text)?.iter().try_for_each(check_object),
    }
}

/// Checks facts about a pod in their short form.
fn check_pod_facts(facts: &Value) -> Result<(), String> {
    let known = ["annotations", "labels", "networkStatus", "networkInfo"];
    let mut keys = facts.as_object().into_iter().flat_map(|map| map.keys());
    let unknown = keys.find(|key| !known.contains(&key.as_str()));
    unknown.map_or(Ok(()), |key| Err(format!("a pod has no {key}")))
}

/// Checks that an object has only known fields of its kind.
fn check_object(object: &Value) -> Result<(), String> {
    let text_field = |name: &str| object.get(name).and_then(Value::as_str);
    let kind = match text_field("kind") {
        Some(kind) => kind,
        None if object.get("args").is_some() => CONTAINER,
        None => VMI,
    };
    let known = KINDS.iter().find(|(name, ..)| *name == kind);
    let (_, version, paths) = known.ok_or_else(|| format!("what is the kind {kind}?"))?;
    if text_field("kind").is_some() && text_field("apiVersion") != Some(version) {
        return Err(format!("a {kind} is of {version}"));
    }
    let paths: Vec<_> = paths.split_whitespace().collect();
    let mut paths_in_object = Vec::new();
    leaves(object, String::new(), &mut paths_in_object);
    let heads = ["kind", "apiVersion"];
    let checked_paths = paths_in_object
        .iter()
        .filter(|path| !heads.contains(&path.as_str()));
    match checked_paths
        .into_iter()
        .find(|path| !paths.iter().any(|known| covers(known, path)))
    {
        Some(path) => Err(format!("{kind} has no {path}")),
        None => Ok(()),
    }
}

/// Adds the paths of all leaves.
fn leaves(value: &Value, path: String, paths_in_object: &mut Vec<String>) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                let dot = if path.is_empty() { "" } else { "." };
                // Arbitrary keys may contain dots.
                let key = if key.contains('.') { "*" } else { key };
                leaves(value, format!("{path}{dot}{key}"), paths_in_object);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let items = items.iter();
            items.for_each(|item| leaves(item, format!("{path}[]"), paths_in_object));
        }
        _ => paths_in_object.push(path),
    }
}

/// Whether a known path covers a path: itself, or one of its ancestors, which may be empty.
fn covers(known: &str, path: &str) -> bool {
    let (mut known, mut path) = (known.split('.'), path.split('.'));
    loop {
        match (known.next(), path.next()) {
            (_, None) => return true,
            (Some("*"), Some(_)) => return true,
            (Some(known), Some(step)) if known == step || known.trim_end_matches("[]") == step => {}
            _ => return false,
        }
    }
}

/// Checks that a patch has only known fields of this kind.
pub(crate) fn check_patch(kind: &str, json: &str) -> Result<(), String> {
    let mut patch: Value = serde_saphyr::from_str(json).map_err(|error| error.to_string())?;
    let known = KINDS
        .iter()
        .find(|(name, ..)| name.eq_ignore_ascii_case(kind));
    let (kind, version, _) = known.ok_or_else(|| format!("what is the kind {kind}?"))?;
    let object = patch.as_object_mut().ok_or("a patch is an object")?;
    object.insert("kind".into(), (*kind).into());
    object.insert("apiVersion".into(), (*version).into());
    check_object(&patch)
}

#[test]
fn unknown_fields_are_found() {
    let object = |text: &str| check_object(&serde_saphyr::from_str(text).unwrap());
    let head = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\n";
    object(&format!(
        "{head}spec: {{runStrategy: Always, template: {{spec: {{domain: {{devices: {{}}}}}}}}}}"
    ))
    .unwrap();
    for invalid in [
        "kind: VirtualMachine\napiVersion: v1\n".to_owned(),
        "kind: Pod\napiVersion: v1\n".to_owned(),
        format!("{head}spec: {{runstrategy: Always}}"),
        format!("{head}metadata: {{annotations: {{a.b/c: d}}}}"),
        "metadata: {annotation: {a.b/c: d}}".to_owned(),
    ] {
        assert!(object(&invalid).is_err(), "{invalid}");
    }
    check_patch(
        "kubevirt",
        r#"{"spec":{"configuration":{"featureGates":["Sidecar"]}}}"#,
    )
    .unwrap_err();
}
