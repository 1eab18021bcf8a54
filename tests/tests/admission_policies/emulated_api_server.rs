//! Emulates the admission of an API server: the policies, and the validation of those parts of a pod that they change.

use std::collections::HashMap;

use serde_json::Value as Json;

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

    /// The verdict of the emulation: the object that is stored, or the reasons of the refusal, one per line.
    pub(crate) fn evaluate(&self, mut request: Request) -> Result<Json, String> {
        for policy in &self.policies.mutating {
            if let Some(scope) = scope_of_match(policy, &request)? {
                mutate(policy, scope, &mut request)?;
            }
        }
        if request.object["kind"] == "Pod" {
            if !self.image_volumes {
                drop_image_volumes(&mut request.object);
            }
            validate_pod(&request.object)?;
        }
        // The server evaluates all policies and answers with one of the refusals; which one is not defined.
        let validations =
            self.policies
                .validating
                .iter()
                .map(|policy| match scope_of_match(policy, &request)? {
                    Some(scope) => validate(policy, scope, &request),
                    None => Ok(()),
                });
        let refusals: Vec<String> = validations.filter_map(Result::err).collect();
        match refusals.is_empty() {
            true => Ok(request.object),
            false => Err(refusals.join("\n")),
        }
    }
}

/// The scope of the policy's expressions, if it applies to the request.
fn scope_of_match(policy: &Policy, request: &Request) -> Result<Option<Scope>, String> {
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
        return Ok(None);
    }
    if !rule || !labels.all(|(key, value)| object["metadata"]["labels"][key] == **value) {
        return Ok(None);
    }
    // A false condition counts before an error, wherever it stands.
    let scope = request.scope();
    let mut error = None;
    for NamedExpression { name, expression } in &policy.match_conditions {
        match scope.evaluate(expression) {
            Ok(Json::Bool(true)) => {}
            Ok(Json::Bool(false)) => return Ok(None),
            other => {
                error = Some(format!(
                    "{}: match condition {name}: {other:?}",
                    policy.name
                ));
            }
        }
    }
    error.map_or(Ok(Some(scope)), Err)
}

/// The variables of a request and a policy.
struct PolicyScope<'a> {
    scope: Scope,
    variable_errors: Vec<(&'a str, String)>,
}

impl<'a> PolicyScope<'a> {
    fn new(policy: &'a Policy, mut scope: Scope, request: &Request) -> Self {
        scope.set("namespaceObject", &request.namespace);
        let (mut variables, mut variable_errors) = (HashMap::new(), Vec::new());
        scope.set_members("variables", &variables);
        for NamedExpression { name, expression } in &policy.variables {
            match scope.value(expression) {
                Ok(value) => {
                    variables.insert(name.clone(), value);
                    scope.set_members("variables", &variables);
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

fn mutate(policy: &Policy, scope: Scope, request: &mut Request) -> Result<(), String> {
    assert_eq!(policy.reinvocation_policy, "Never", "{}", policy.name);
    let [mutation] = &policy.mutations[..] else {
        panic!("{}: one mutation", policy.name);
    };
    assert_eq!(mutation.patch_type, "JSONPatch", "{}", policy.name);
    let scope = PolicyScope::new(policy, scope, request);
    let patch = scope.evaluate(&mutation.json_patch.expression)?;
    let patch: json_patch::Patch =
        serde_json::from_value(patch).map_err(|error| error.to_string())?;
    json_patch::patch(&mut request.object, &patch).map_err(|error| error.to_string())
}

fn validate(policy: &Policy, scope: Scope, request: &Request) -> Result<(), String> {
    let scope = PolicyScope::new(policy, scope, request);
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
