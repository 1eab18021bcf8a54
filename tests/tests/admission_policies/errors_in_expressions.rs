//! What an error in an expression does: it refuses the request. `scripts/test-apiserver` asks a real API server the same.

use serde_json::{Value as Json, json};

use crate::admission_request::Request;
use crate::emulated_api_server::ApiServer;
use crate::pod_corpus::pod;
use crate::policy_files::Policies;

/// No pod has this member.
const ERROR: &str = "object.spec.missing == ''";
/// A patch that is always possible.
const LABEL: &str = "[JSONPatch{op: \"add\", path: \"/metadata/labels/errors\", value: \"none\"}]";

fn condition(name: &str, expression: &str) -> Json {
    json!({"name": name, "expression": expression})
}

/// A server with one policy of each kind with these conditions, variable and expression; they change and refuse nothing else.
fn server(kind: &str, conditions: &[Json], variable: &str, expression: &str) -> ApiServer {
    let mut spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
        ]},
        "matchConditions": conditions,
        "variables": [{"name": "variable", "expression": variable}],
    });
    let mut binding = json!({"policyName": "errors"});
    if kind == "Mutating" {
        spec["reinvocationPolicy"] = "Never".into();
        spec["mutations"] =
            json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]);
    } else {
        spec["validations"] = json!([{"expression": expression, "message": "refused"}]);
        binding["validationActions"] = json!(["Deny"]);
    }
    let object = |suffix: &str, spec: Json| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}AdmissionPolicy{suffix}"),
            "metadata": {"name": "errors"}, "spec": spec})
    };
    let mut policies = Policies::default();
    policies.add(
        "v1",
        "errors",
        vec![object("", spec), object("Binding", binding)],
    );
    ApiServer::new(policies)
}

#[test]
fn an_error_in_a_condition_refuses_the_request_unless_another_condition_is_false() {
    let (holds, fails, error) = (
        condition("holds", "true"),
        condition("fails", "false"),
        condition("error", ERROR),
    );
    let rows = [
        (vec![holds.clone()], false),
        (vec![fails.clone()], false),
        (vec![error.clone()], true),
        (vec![holds.clone(), error.clone()], true),
        (vec![error.clone(), holds], true),
        (vec![fails.clone(), error.clone()], false),
        (vec![error, fails], false),
    ];
    for (kind, harmless) in [("Mutating", LABEL), ("Validating", "true")] {
        for (conditions, is_refused) in &rows {
            let answer =
                server(kind, conditions, "''", harmless).admit(Request::create(pod("plain")));
            assert_eq!(answer.is_err(), *is_refused, "{kind}: {conditions:?}");
        }
    }
}

#[test]
fn an_error_in_a_mutation_or_validation_refuses_the_request() {
    let patch = |path: &str| {
        format!(
            "[JSONPatch{{op: \"add\", path: \"{path}\", value: Object.spec.volumes{{name: \"x\"}}}}]"
        )
    };
    let either_way = |condition: &str| format!("{condition} ? {LABEL} : {LABEL}");
    let always = [condition("holds", "true")];
    let rows = [
        // A variable counts where it is used.
        ("Mutating", ERROR, LABEL.to_owned(), false),
        ("Mutating", ERROR, either_way("variables.variable"), true),
        ("Mutating", "''", either_way(ERROR), true),
        ("Mutating", "''", either_way("int(object.kind) == 0"), true),
        (
            "Mutating",
            "''",
            either_way("{'': 0}[object.kind] == 0"),
            true,
        ),
        (
            "Mutating",
            "''",
            either_way("object.spec.containers[99].name == ''"),
            true,
        ),
        (
            "Mutating",
            "''",
            patch("/spec/containers/99/volumeMounts/-"),
            true,
        ),
        ("Mutating", "''", patch("/spec/missing/-"), true),
        ("Validating", ERROR, "true".to_owned(), false),
        ("Validating", ERROR, "variables.variable".to_owned(), true),
        ("Validating", "''", ERROR.to_owned(), true),
        // What decides without the part with the error counts.
        ("Validating", "''", format!("{ERROR} || true"), false),
        ("Validating", "''", format!("{ERROR} || false"), true),
        ("Validating", "''", format!("{ERROR} && true"), true),
        ("Validating", "''", format!("{ERROR} && false"), true),
        (
            "Validating",
            "''",
            "object.spec.containers.all(c, size(c.name) / 0 == 0)".to_owned(),
            true,
        ),
    ];
    for (kind, variable, expression, is_refused) in rows {
        let server = server(kind, &always, variable, &expression);
        let answer = server.admit(Request::create(pod("plain")));
        assert_eq!(
            answer.is_err(),
            is_refused,
            "{kind}: {variable}: {expression}: {answer:?}"
        );
    }
}
