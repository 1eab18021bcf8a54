//! Admission policies as their files have them; an unknown field is an error.

use std::fs;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use tests::binaries::workspace;

/// The policies of a file, each with a binding.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    pub(crate) mutating: Vec<Policy>,
    pub(crate) validating: Vec<Policy>,
    /// The policies and bindings as they are written.
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

/// The policies of files of the workspace. Mutating ones must have the version of the API, and each a binding in its file.
pub(crate) fn policies(version: &str, paths: &[&str]) -> Policies {
    let mut all = Policies::default();
    for path in paths {
        all.add(version, path, documents(path));
    }
    all
}

impl Policies {
    /// Adds the policies among the objects, each of which must have a binding there. `at` is for messages.
    pub(crate) fn add(&mut self, version: &str, at: &str, objects: Vec<Json>) {
        let (mut unbound, mut bound) = (Vec::new(), Vec::new());
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
                "{at}"
            );
            if kind.ends_with("Binding") {
                let binding: Binding = spec(at, &document);
                let deny = if kind.starts_with("Validating") {
                    vec!["Deny"]
                } else {
                    vec![]
                };
                assert_eq!(binding.validation_actions, deny, "{at}");
                bound.push(binding.policy_name);
                continue;
            }
            let mut policy: Policy = spec(at, &document);
            policy.name = document["metadata"]["name"].as_str().unwrap().to_owned();
            unbound.push(policy.name.clone());
            match kind {
                "MutatingAdmissionPolicy" => self.mutating.push(policy),
                "ValidatingAdmissionPolicy" => self.validating.push(policy),
                _ => panic!("{at}: {kind}"),
            }
        }
        assert_eq!(unbound, bound, "{at}: every policy needs a binding");
    }
}

fn spec<T: DeserializeOwned>(at: &str, document: &Json) -> T {
    let spec = document["spec"].clone();
    serde_json::from_value(spec).unwrap_or_else(|error| panic!("{at}: {error}"))
}
