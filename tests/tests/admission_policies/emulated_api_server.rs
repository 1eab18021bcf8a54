//! Emulates the admission of an API server: the policies, and the validation of those parts of a pod that they change.

use serde_json::{Value as Json, json};

use crate::admission_request::Request;
use crate::cel_expression::Scope;
use crate::pod_validation::{drop_image_volumes, validate_pod};
use crate::policy_files::{NamedExpression, Policies, Policy};

/// An emulated API server with these policies.
pub(crate) struct ApiServer {
    pub(crate) policies: Policies,
    /// The feature gate ImageVolume. Without it the server silently drops image volumes and their mounts.
    pub(crate) image_volumes: bool,
}

impl ApiServer {
    pub(crate) fn new(policies: Policies) -> Self {
        Self {
            policies,
            image_volumes: true,
        }
    }

    /// The verdict of the emulation: the object that is stored, or the reason of the refusal.
    pub(crate) fn evaluate(&self, mut request: Request) -> Result<Json, String> {
        for policy in &self.policies.mutating {
            if applies(policy, &request)? {
                mutate(policy, &mut request)?;
            }
        }
        if request.object["kind"] == "Pod" {
            if !self.image_volumes {
                drop_image_volumes(&mut request.object);
            }
            validate_pod(&request.object)?;
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
    // With this failure policy, an error refuses the request.
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
    let contains = |list: &[String], value: &str| list.iter().any(|item| item == value);
    let constraints = &policy.match_constraints;
    let mut rules = constraints.resource_rules.iter();
    let rule = rules.any(|rule| {
        let version = contains(&rule.api_versions, "v1") || contains(&rule.api_versions, "*");
        version
            && contains(&rule.operations, request.operation())
            && contains(&rule.api_groups, group)
            && contains(&rule.resources, resource)
    });
    let mut labels = constraints.object_selector.match_labels.iter();
    // Every Namespace has this label with its name.
    let namespace_label = |key: &String| match key.as_str() {
        "kubernetes.io/metadata.name" => &request.namespace["metadata"]["name"],
        other => &request.namespace["metadata"]["labels"][other],
    };
    let mut namespace = constraints.namespace_selector.match_labels.iter();
    if !namespace.all(|(key, value)| *namespace_label(key) == **value) {
        return Ok(false);
    }
    if !rule || !labels.all(|(key, value)| object["metadata"]["labels"][key] == **value) {
        return Ok(false);
    }
    let scope = request.scope();
    for NamedExpression { name, expression } in &policy.match_conditions {
        match scope.evaluate(expression) {
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

/// The variables of a request and a policy.
struct PolicyScope<'a> {
    scope: Scope,
    variable_errors: Vec<(&'a str, String)>,
}

impl<'a> PolicyScope<'a> {
    fn new(policy: &'a Policy, request: &Request) -> Self {
        let mut scope = request.scope();
        scope.set("namespaceObject", &request.namespace);
        let (mut variables, mut variable_errors) = (json!({}), Vec::new());
        scope.set("variables", &variables);
        for NamedExpression { name, expression } in &policy.variables {
            match scope.evaluate(expression) {
                Ok(value) => {
                    variables[name] = value;
                    scope.set("variables", &variables);
                }
                Err(error) => variable_errors.push((name.as_str(), error)),
            }
        }
        Self {
            scope,
            variable_errors,
        }
    }

    /// Evaluates an expression. An error of a variable counts only if the expression uses it.
    fn evaluate(&self, expression: &str) -> Result<Json, String> {
        self.scope.evaluate(expression).map_err(|error| {
            let cause = self.variable_errors.iter().find(|(name, _)| {
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
}

fn mutate(policy: &Policy, request: &mut Request) -> Result<(), String> {
    assert_eq!(policy.reinvocation_policy, "Never", "{}", policy.name);
    for mutation in &policy.mutations {
        assert_eq!(mutation.patch_type, "JSONPatch", "{}", policy.name);
        let patch = PolicyScope::new(policy, request).evaluate(&mutation.json_patch.expression)?;
        let patch: json_patch::Patch =
            serde_json::from_value(patch).map_err(|error| error.to_string())?;
        json_patch::patch(&mut request.object, &patch).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn validate(policy: &Policy, request: &Request) -> Result<(), String> {
    let scope = PolicyScope::new(policy, request);
    for validation in &policy.validations {
        match scope.evaluate(&validation.expression) {
            Ok(Json::Bool(true)) => {}
            Ok(Json::Bool(false)) => {
                return Err(
                    match (&validation.message, &validation.message_expression) {
                        (Some(message), None) => message.clone(),
                        (None, Some(expression)) => {
                            let message = scope.evaluate(expression)?;
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
