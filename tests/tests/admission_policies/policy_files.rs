//! Parses files with admission policies. An unknown field is an error.

use std::fs;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use tests::binaries::workspace;

/// A set of policies, each of which has a binding.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    pub(crate) mutating: Vec<Policy>,
    pub(crate) validating: Vec<Policy>,
    /// The policies and bindings as objects.
    pub(crate) objects: Vec<Json>,
}

/// A MutatingAdmissionPolicy (with mutations) or a ValidatingAdmissionPolicy (with validations).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Policy {
    #[serde(skip)]
    pub(crate) name: String,
    pub(crate) failure_policy: String,
    #[serde(default)]
    pub(crate) reinvocation_policy: String,
    pub(crate) match_constraints: MatchConstraints,
    pub(crate) match_conditions: Vec<NamedExpression>,
    #[serde(default)]
    pub(crate) variables: Vec<NamedExpression>,
    #[serde(default)]
    pub(crate) mutations: Vec<Mutation>,
    #[serde(default)]
    pub(crate) validations: Vec<Validation>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct MatchConstraints {
    #[serde(default)]
    pub(crate) object_selector: Selector,
    #[serde(default)]
    pub(crate) namespace_selector: Selector,
    pub(crate) resource_rules: Vec<ResourceRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Selector {
    #[serde(default)]
    pub(crate) match_labels: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ResourceRule {
    pub(crate) api_groups: Vec<String>,
    pub(crate) api_versions: Vec<String>,
    pub(crate) operations: Vec<String>,
    pub(crate) resources: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedExpression {
    pub(crate) name: String,
    pub(crate) expression: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Mutation {
    pub(crate) patch_type: String,
    pub(crate) json_patch: JsonPatch,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonPatch {
    pub(crate) expression: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Validation {
    pub(crate) expression: String,
    pub(crate) message: Option<String>,
    pub(crate) message_expression: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Binding {
    policy_name: String,
    #[serde(default)]
    validation_actions: Vec<String>,
}

/// The objects of a YAML file of the workspace.
pub(crate) fn documents(path: &str) -> Vec<Json> {
    let text = fs::read_to_string(workspace().join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The policies of files in the workspace. Mutating policies must have this API version.
pub(crate) fn policies(version: &str, paths: &[&str]) -> Policies {
    let mut policies = Policies::default();
    for path in paths {
        policies.add(version, path, documents(path));
    }
    policies
}

impl Policies {
    /// Adds the policies among the objects, each of which must be followed by its binding. `source` is for messages.
    pub(crate) fn add(&mut self, version: &str, source: &str, objects: Vec<Json>) {
        let (mut policy_names, mut bound_names) = (Vec::new(), Vec::new());
        self.objects.extend(objects.iter().cloned());
        for document in objects {
            let kind = document["kind"].as_str().unwrap();
            let version = if kind.starts_with("Validating") {
                "v1"
            } else {
                version
            };
            assert_eq!(
                document["apiVersion"],
                format!("admissionregistration.k8s.io/{version}"),
                "{source}"
            );
            if kind.ends_with("Binding") {
                let binding: Binding = spec(source, &document);
                let deny = if kind.starts_with("Validating") {
                    vec!["Deny"]
                } else {
                    vec![]
                };
                assert_eq!(binding.validation_actions, deny, "{source}");
                bound_names.push(binding.policy_name);
                continue;
            }
            let mut policy: Policy = spec(source, &document);
            policy.name = document["metadata"]["name"].as_str().unwrap().to_owned();
            policy_names.push(policy.name.clone());
            match kind {
                "MutatingAdmissionPolicy" => self.mutating.push(policy),
                "ValidatingAdmissionPolicy" => self.validating.push(policy),
                _ => panic!("{source}: {kind}"),
            }
        }
        assert_eq!(
            policy_names, bound_names,
            "{source}: every policy needs a binding"
        );
    }
}

fn spec<T: DeserializeOwned>(source: &str, document: &Json) -> T {
    let spec = document["spec"].clone();
    serde_json::from_value(spec).unwrap_or_else(|error| panic!("{source}: {error}"))
}
