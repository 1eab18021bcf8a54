//! Compares the verdict of the emulated API server with a real server's.

use serde_json::Value as Json;

use crate::admission_request::Request;
use crate::emulated_api_server::ApiServer;
use crate::real_api_server::lock_server;

impl ApiServer {
    /// The object that is stored, or the reason of the refusal. A real API server must agree, if there is one.
    pub(crate) fn admit(&self, request: Request) -> Result<Json, String> {
        let answer = self.evaluate(request.clone());
        assert_same_verdict(self, &request, &answer);
        answer
    }
}

/// Checks that the real server has the same verdict, if there is one and it has image volumes exactly if the emulated
/// one has.
fn assert_same_verdict(emulated: &ApiServer, request: &Request, evaluated: &Result<Json, String>) {
    let Some(mut server) = lock_server() else {
        return;
    };
    if server.image_volumes != emulated.image_volumes {
        return;
    }
    let policies = &emulated.policies;
    let (name, real) = server.request_verdict(policies, request);
    let case = format!(
        "{} {}: {real:?}\nevaluated: {evaluated:?}",
        request.object["kind"], request.object["metadata"]["name"]
    );
    match (evaluated, &real) {
        (Ok(evaluated), Ok(real)) => {
            let mut evaluated = evaluated.clone();
            evaluated["metadata"]["name"] = real["metadata"]["name"].clone();
            evaluated["metadata"]["namespace"] = real["metadata"]["namespace"].clone();
            evaluated["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("creationTimestamp");
            contains(real, &evaluated, &name).unwrap_or_else(|error| panic!("{error}\n{case}"));
        }
        (Err(evaluated), Err(real)) => {
            // The message of a policy is the same; messages of the server's own validation are longer.
            let validations = policies
                .validating
                .iter()
                .flat_map(|policy| &policy.validations);
            let messages: Vec<&String> = validations
                .filter_map(|validation| validation.message.as_ref())
                .collect();
            let mut refusals = evaluated.lines();
            if refusals
                .clone()
                .all(|refusal| messages.iter().any(|message| *message == refusal))
            {
                assert!(refusals.any(|refusal| real.contains(refusal)), "{case}");
            }
        }
        _ => panic!("{case}"),
    }
}

/// Fails unless `actual` contains each member of `expected`; lists have the same length. Empty values may be missing.
pub(crate) fn contains(actual: &Json, expected: &Json, case: &str) -> Result<(), String> {
    match (actual, expected) {
        (_, Json::Object(members)) if actual.is_object() => members
            .iter()
            .filter(|(_, member)| !is_empty(member))
            .try_for_each(|(key, member)| contains(&actual[key], member, &format!("{case}.{key}"))),
        // The server may apply policies in another order.
        (Json::Array(items), Json::Array(expected_items))
            if items.len() == expected_items.len()
                && (case.ends_with(".volumes") || case.ends_with(".volumeMounts")) =>
        {
            let is_contained = |expected: &Json| {
                items
                    .iter()
                    .any(|item| contains(item, expected, case).is_ok())
            };
            match expected_items
                .iter()
                .find(|expected| !is_contained(expected))
            {
                None => Ok(()),
                Some(expected) => Err(format!("{case}: the server has no {expected}")),
            }
        }
        (Json::Array(items), Json::Array(expected_items))
            if items.len() == expected_items.len() =>
        {
            items.iter().zip(expected_items).enumerate().try_for_each(
                |(index, (item, expected))| contains(item, expected, &format!("{case}[{index}]")),
            )
        }
        (actual, expected) if actual == expected => Ok(()),
        (actual, expected) => Err(format!(
            "{case}: the server has {actual}, evaluated {expected}"
        )),
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Object(members) => members.values().all(is_empty),
        Json::Array(items) => items.is_empty(),
        Json::String(text) => text.is_empty(),
        Json::Bool(truth) => !truth,
        Json::Number(number) => number.as_i64() == Some(0),
    }
}
