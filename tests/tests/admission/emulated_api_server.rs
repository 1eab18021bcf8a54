//! The part of an API server that decides about a request: policies, then the validation of pods as far as the policies
//! can break it.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use crate::cel_expression::{Scope, evaluate};
use crate::policy_files::{NamedExpression, Policies, Policy};
use crate::real_api_server;

/// An API server with policies.
pub(crate) struct ApiServer {
    pub(crate) policies: Policies,
    /// The feature gate ImageVolume. Without it the server drops image volumes and their mounts, silently.
    pub(crate) image_volumes: bool,
}

/// A request to create or update an object.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) object: Json,
    /// The object before the update.
    pub(crate) old: Option<Json>,
    pub(crate) namespace: Json,
}

impl Request {
    pub(crate) fn create(object: Json) -> Self {
        let namespace = json!({"kind": "Namespace", "metadata": {"name": "default"}});
        Self {
            object,
            old: None,
            namespace,
        }
    }

    fn operation(&self) -> &'static str {
        if self.old.is_some() {
            "UPDATE"
        } else {
            "CREATE"
        }
    }

    fn scope(&self) -> Scope {
        let old = self.old.clone().unwrap_or_default();
        let request = json!({"operation": self.operation()});
        Scope::from([
            ("object", self.object.clone()),
            ("oldObject", old),
            ("request", request),
        ])
    }
}

impl ApiServer {
    pub(crate) fn new(policies: Policies) -> Self {
        Self {
            policies,
            image_volumes: true,
        }
    }

    /// The object as it is stored, or the reason of the refusal.
    pub(crate) fn admit(&self, request: Request) -> Result<Json, String> {
        let answer = self.evaluate(request.clone());
        real_api_server::agrees(self, &request, &answer);
        answer
    }

    /// The answer of the emulation alone.
    fn evaluate(&self, mut request: Request) -> Result<Json, String> {
        for policy in &self.policies.mutating {
            if applies(policy, &request)? {
                mutate(policy, &mut request)?;
            }
        }
        if request.object["kind"] == "Pod" {
            if !self.image_volumes {
                drop_image_volumes(&mut request.object);
            }
            is_valid_pod(&request.object)?;
        }
        for policy in &self.policies.validating {
            if applies(policy, &request)? {
                validate(policy, &request)?;
            }
        }
        Ok(request.object)
    }
}

fn applies(policy: &Policy, request: &Request) -> Result<bool, String> {
    // The only values with which an error refuses the request.
    assert_eq!(policy.failure_policy, "Fail", "{}", policy.name);
    let object = &request.object;
    let (group, resource) = match object["kind"].as_str().unwrap() {
        "Pod" => ("", "pods"),
        "Namespace" => ("", "namespaces"),
        "VirtualMachine" => ("kubevirt.io", "virtualmachines"),
        "VirtualMachineInstance" => ("kubevirt.io", "virtualmachineinstances"),
        "VirtualMachineInstanceReplicaSet" => ("kubevirt.io", "virtualmachineinstancereplicasets"),
        "VirtualMachinePool" => ("pool.kubevirt.io", "virtualmachinepools"),
        kind => panic!("{kind} is not asked about"),
    };
    let holds = |list: &[String], value: &str| list.iter().any(|item| item == value);
    let constraints = &policy.match_constraints;
    let mut rules = constraints.resource_rules.iter();
    let rule = rules.any(|rule| {
        let version = holds(&rule.api_versions, "v1") || holds(&rule.api_versions, "*");
        version
            && holds(&rule.operations, request.operation())
            && holds(&rule.api_groups, group)
            && holds(&rule.resources, resource)
    });
    let mut labels = constraints.object_selector.match_labels.iter();
    // Each Namespace has its name as this label.
    let of_namespace = |key: &String| match key.as_str() {
        "kubernetes.io/metadata.name" => &request.namespace["metadata"]["name"],
        other => &request.namespace["metadata"]["labels"][other],
    };
    let mut namespace = constraints.namespace_selector.match_labels.iter();
    if !namespace.all(|(key, value)| *of_namespace(key) == **value) {
        return Ok(false);
    }
    if !rule || !labels.all(|(key, value)| object["metadata"]["labels"][key] == **value) {
        return Ok(false);
    }
    for NamedExpression { name, expression } in &policy.match_conditions {
        match evaluate(expression, &request.scope()) {
            Ok(Json::Bool(true)) => {}
            Ok(Json::Bool(false)) => return Ok(false),
            other => {
                return Err(format!(
                    "{}: match condition {name}: {other:?}",
                    policy.name
                ));
            }
        }
    }
    Ok(true)
}

/// Evaluates with the policy's variables. A variable's error counts only where the variable is used.
fn evaluate_in(policy: &Policy, request: &Request, expression: &str) -> Result<Json, String> {
    let mut scope = request.scope();
    scope.insert("namespaceObject", request.namespace.clone());
    scope.insert("variables", json!({}));
    let mut failed = Vec::new();
    for NamedExpression { name, expression } in &policy.variables {
        match evaluate(expression, &scope) {
            Ok(value) => scope.get_mut("variables").unwrap()[name] = value,
            Err(error) => failed.push((name, error)),
        }
    }
    evaluate(expression, &scope).map_err(|error| {
        let cause = failed.iter().find(|(name, _)| {
            error
                .to_lowercase()
                .ends_with(&format!("no such key: {name}").to_lowercase())
        });
        match cause {
            Some((name, cause)) => {
                format!("composited variable {name:?} fails to evaluate: {cause}")
            }
            None => error,
        }
    })
}

fn mutate(policy: &Policy, request: &mut Request) -> Result<(), String> {
    assert_eq!(policy.reinvocation_policy, "Never", "{}", policy.name);
    for mutation in &policy.mutations {
        assert_eq!(mutation.patch_type, "JSONPatch", "{}", policy.name);
        let patch = evaluate_in(policy, request, &mutation.json_patch.expression)?;
        let patch: json_patch::Patch =
            serde_json::from_value(patch).map_err(|error| error.to_string())?;
        json_patch::patch(&mut request.object, &patch).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn validate(policy: &Policy, request: &Request) -> Result<(), String> {
    for validation in &policy.validations {
        match evaluate_in(policy, request, &validation.expression) {
            Ok(Json::Bool(true)) => {}
            Ok(Json::Bool(false)) => {
                return Err(
                    match (&validation.message, &validation.message_expression) {
                        (Some(message), None) => message.clone(),
                        (None, Some(expression)) => {
                            let message = evaluate_in(policy, request, expression)?;
                            message.as_str().unwrap().to_owned()
                        }
                        _ => panic!("{}: one message per validation", policy.name),
                    },
                );
            }
            other => {
                return Err(format!(
                    "{}: {}: {other:?}",
                    policy.name, validation.expression
                ));
            }
        }
    }
    Ok(())
}

fn drop_image_volumes(pod: &mut Json) {
    let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
    let images: BTreeSet<_> = volumes
        .iter()
        .filter(|volume| volume.get("image").is_some())
        .map(|volume| volume["name"].to_string())
        .collect();
    volumes.retain(|volume| volume.get("image").is_none());
    for container in pod["spec"]["containers"].as_array_mut().unwrap() {
        if let Some(mounts) = container["volumeMounts"].as_array_mut() {
            mounts.retain(|mount| !images.contains(&mount["name"].to_string()));
        }
    }
}

/// Kubernetes' validation of volumes and mounts.
fn is_valid_pod(pod: &Json) -> Result<(), String> {
    let none = Vec::new();
    let volumes = pod["spec"]["volumes"].as_array().unwrap_or(&none);
    let label = regex::Regex::new("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$").unwrap();
    let mut names = BTreeSet::new();
    for (at, volume) in volumes.iter().enumerate() {
        let name = volume["name"].as_str().unwrap();
        if !label.is_match(name) {
            return Err(format!(
                "spec.volumes[{at}].name: Invalid value: {name:?}: a lowercase RFC 1123 label"
            ));
        }
        if !names.insert(name) {
            return Err(format!(
                "spec.volumes[{at}].name: Duplicate value: {name:?}"
            ));
        }
        if volume["image"]["reference"] == "" {
            return Err(format!(
                "spec.volumes[{at}].image.reference: Required value"
            ));
        }
    }
    for container in pod["spec"]["containers"].as_array().unwrap() {
        let mut paths = BTreeSet::new();
        for mount in container["volumeMounts"].as_array().unwrap_or(&none) {
            let text = |key: &str| mount[key].as_str().unwrap_or_default();
            let (name, path, sub_path) = (text("name"), text("mountPath"), text("subPath"));
            if !names.contains(name) {
                return Err(format!("volumeMounts.name: Not found: {name:?}"));
            }
            if path.is_empty() || !paths.insert(path) {
                return Err(format!(
                    "mountPath: Invalid value: {path:?}: must be unique"
                ));
            }
            if sub_path.starts_with('/') {
                return Err(format!(
                    "subPath: Invalid value: {sub_path:?}: must be a relative path"
                ));
            }
            if sub_path.split('/').any(|step| step == "..") {
                return Err(format!(
                    "subPath: Invalid value: {sub_path:?}: must not contain '..'"
                ));
            }
        }
    }
    Ok(())
}
