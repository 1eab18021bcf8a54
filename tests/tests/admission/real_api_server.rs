//! A real API server beside the evaluation: with `KUBE_API`, every request of these tests goes to both, and the answers
//! must agree. `scripts/test-apiserver` starts one. With `KUBE_IMAGE_VOLUMES=false` the server has no image volumes, and
//! receives the requests of those tests that emulate such a server.
//!
//! Requests are dry runs, with strict validation of fields. The object that the real server stores is the evaluated one with
//! the server's defaults, so each member of the evaluated object must be in it.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::emulated_api_server::{ApiServer, Request};
use crate::policy_files::Policies;

const POLICIES: &str = "/apis/admissionregistration.k8s.io";
const STRICT: &str = "fieldValidation=Strict";
const LABEL: &str = "admission-test";
/// Policies are in force within a second; a loaded machine takes longer.
const IN_FORCE: Duration = Duration::from_secs(60);

static SERVER: LazyLock<Option<Mutex<RealServer>>> = LazyLock::new(|| {
    let url = std::env::var("KUBE_API").ok()?;
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(60)));
    Some(Mutex::new(RealServer {
        url,
        version: std::env::var("KUBE_POLICY_VERSION").unwrap_or_else(|_| "v1".to_owned()),
        image_volumes: std::env::var("KUBE_IMAGE_VOLUMES").as_deref() != Ok("false"),
        agent: config.build().new_agent(),
        in_force: None,
        sets: 0,
        names: 0,
        namespaces: BTreeMap::new(),
    }))
});

/// An API server behind `kubectl proxy`.
pub(crate) struct RealServer {
    url: String,
    /// The version of mutating policies that is tried.
    pub(crate) version: String,
    image_volumes: bool,
    agent: ureq::Agent,
    in_force: Option<Vec<Json>>,
    sets: u32,
    names: u32,
    /// The namespaces by their names in the tests, and annotations.
    namespaces: BTreeMap<String, String>,
}

/// The real server, for tests that need one.
pub(crate) fn real_server() -> MutexGuard<'static, RealServer> {
    locked().expect("KUBE_API names no API server; scripts/test-apiserver does")
}

fn locked() -> Option<MutexGuard<'static, RealServer>> {
    let server = SERVER.as_ref()?;
    Some(server.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Checks that the real server answers the same, if there is one that has image volumes, or has none, as the emulated one.
pub(crate) fn agrees(emulated: &ApiServer, request: &Request, evaluated: &Result<Json, String>) {
    let Some(mut server) = locked() else {
        return;
    };
    if server.image_volumes != emulated.image_volumes {
        return;
    }
    let policies = &emulated.policies;
    let (name, real) = server.ask(policies, request);
    let at = format!(
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
            contains(real, &evaluated, &name).unwrap_or_else(|error| panic!("{error}\n{at}"));
        }
        (Err(evaluated), Err(real)) => {
            // The words of a policy are the same; those of the server's own validation are longer.
            let validations = policies
                .validating
                .iter()
                .flat_map(|policy| &policy.validations);
            let mut messages = validations.filter_map(|one| one.message.as_ref());
            if messages.any(|message| message == evaluated) {
                assert!(real.contains(evaluated.as_str()), "{at}");
            }
        }
        _ => panic!("{at}"),
    }
}

impl RealServer {
    /// The object's name at the server, and the stored object or the reason of the refusal.
    fn ask(&mut self, policies: &Policies, request: &Request) -> (String, Result<Json, String>) {
        let namespace = self.namespace(&request.namespace["metadata"]);
        let name = self.fresh("object");
        let collection_and_object = |object: &Json| {
            let mut object = object.clone();
            let version = match object["kind"].as_str().unwrap() {
                "Pod" | "Namespace" => "v1",
                "VirtualMachinePool" => "pool.kubevirt.io/v1beta1",
                _ => "kubevirt.io/v1",
            };
            object["apiVersion"] = version.into();
            object["metadata"]["name"] = name.as_str().into();
            if object["kind"] != "Namespace" {
                object["metadata"]["namespace"] = namespace.as_str().into();
            }
            (collection(&object), object)
        };
        let (collection, object) = collection_and_object(&request.object);
        let Some(old) = &request.old else {
            self.enforce(&policies.objects);
            let answer = self.send("POST", &format!("{collection}?dryRun=All"), &object);
            return (name, answer);
        };
        let (_, old) = collection_and_object(old);
        self.enforce(&[]);
        let stored = self.send("POST", &collection, &old).unwrap();
        let mut object = object;
        object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        self.enforce(&policies.objects);
        let answer = self.send("PUT", &format!("{collection}/{name}?dryRun=All"), &object);
        (name, answer)
    }

    /// A new name. The API versions of the policies are tested one after the other on the same server.
    fn fresh(&mut self, kind: &str) -> String {
        self.names += 1;
        let volumes = if self.image_volumes {
            ""
        } else {
            "-no-volumes"
        };
        format!("{kind}-{}{volumes}-{}", self.version, self.names)
    }

    /// A namespace with the annotations; the policies do not judge how it came to be. One that a test names keeps its name.
    fn namespace(&mut self, metadata: &Json) -> String {
        let annotations = &metadata["annotations"];
        let key = format!("{} {annotations}", metadata["name"]);
        if let Some(name) = self.namespaces.get(&key) {
            return name.clone();
        }
        let name = match metadata["name"].as_str().unwrap() {
            "default" => self.fresh("namespace"),
            own => own.to_owned(),
        };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "annotations": annotations}});
        self.enforce(&[]);
        let path = collection(&namespace);
        // The tests of the other API version have made those with names of their own.
        if self
            .send("GET", &format!("{path}/{name}"), &Json::Null)
            .is_err()
        {
            self.send("POST", &path, &namespace).unwrap();
        }
        self.namespaces.insert(key, name.clone());
        name
    }

    /// Makes these, and no others, the server's policies, and waits until they are in force.
    pub(crate) fn enforce(&mut self, objects: &[Json]) {
        if self.in_force.as_deref() == Some(objects) {
            return;
        }
        for resource in [
            "mutatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingadmissionpolicies",
        ] {
            let version = self.version_of(resource);
            self.send(
                "DELETE",
                &format!("{POLICIES}/{version}/{resource}"),
                &Json::Null,
            )
            .unwrap();
        }
        self.sets += 1;
        let sentinel = format!("sentinel-{}-{}", self.version, self.sets);
        for object in objects.iter().chain(&sentinels(&sentinel)) {
            let mut object = object.clone();
            let version = self.version_of(object["kind"].as_str().unwrap());
            object["apiVersion"] = format!("admissionregistration.k8s.io/{version}").into();
            self.send("POST", &collection(&object), &object)
                .unwrap_or_else(|error| panic!("{}: {error}", object["metadata"]["name"]));
        }
        self.wait_for(&sentinel);
        self.in_force = Some(objects.to_vec());
    }

    fn version_of(&self, resource_or_kind: &str) -> String {
        match resource_or_kind.to_lowercase().starts_with("mutating") {
            true => self.version.clone(),
            false => "v1".to_owned(),
        }
    }

    /// Waits until both sentinels act: the server sees policies in the order in which they were made.
    fn wait_for(&self, sentinel: &str) {
        let probe = |refused: bool| {
            let labels = json!({LABEL: sentinel, "refused": refused.to_string()});
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "probe", "namespace": "default", "labels": labels}})
        };
        let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
        let started = Instant::now();
        loop {
            let changed = self.send("POST", path, &probe(false));
            let refused = self.send("POST", path, &probe(true));
            let changed = changed.is_ok_and(|stored| stored["data"]["sentinel"] == sentinel);
            if changed && refused.is_err_and(|error| error.contains(sentinel)) {
                return;
            }
            assert!(started.elapsed() < IN_FORCE, "{sentinel} is not in force");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn send(&self, method: &str, path: &str, object: &Json) -> Result<Json, String> {
        let uri = match (method, path.contains('?')) {
            ("GET" | "DELETE", _) => format!("{}{path}", self.url),
            (_, true) => format!("{}{path}&{STRICT}", self.url),
            (_, false) => format!("{}{path}?{STRICT}", self.url),
        };
        let content = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = match object {
            Json::Null => Vec::new(),
            object => object.to_string().into_bytes(),
        };
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", content)
            .body(body)
            .unwrap();
        let mut answer = self.agent.run(request).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        let read: Json = serde_json::from_str(&text).unwrap_or_else(|_| json!({"message": text}));
        match answer.status().is_success() {
            true => Ok(read),
            false => Err(read["message"].as_str().unwrap_or(&text).to_owned()),
        }
    }
}

/// The path of the objects of this kind, in this namespace.
pub(crate) fn collection(object: &Json) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = match version.contains('/') {
        true => format!("/apis/{version}"),
        false => format!("/api/{version}"),
    };
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let resource = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    };
    let is_of_cluster = version.starts_with("admissionregistration.k8s.io/")
        || matches!(kind.as_str(), "namespace" | "plugin");
    let namespace = object["metadata"]["namespace"].as_str();
    match is_of_cluster {
        true => format!("{root}/{resource}"),
        false => format!(
            "{root}/namespaces/{}/{resource}",
            namespace.unwrap_or("default")
        ),
    }
}

/// A mutating policy and a validating one that act on ConfigMaps with the sentinel's label only.
fn sentinels(name: &str) -> [Json; 4] {
    let constraints = json!({
        "objectSelector": {"matchLabels": {LABEL: name}},
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    });
    let patch =
        format!("[JSONPatch{{op: \"add\", path: \"/data\", value: {{\"sentinel\": \"{name}\"}}}}]");
    let metadata = json!({"name": name});
    [
        json!({"kind": "MutatingAdmissionPolicy", "metadata": metadata, "spec": {
            "failurePolicy": "Fail", "reinvocationPolicy": "Never", "matchConstraints": constraints,
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]}}),
        json!({"kind": "MutatingAdmissionPolicyBinding", "metadata": metadata, "spec": {"policyName": name}}),
        json!({"kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": {
            "failurePolicy": "Fail", "matchConstraints": constraints,
            "validations": [{"expression": "object.metadata.labels['refused'] != 'true'", "message": name}]}}),
        json!({"kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata,
            "spec": {"policyName": name, "validationActions": ["Deny"]}}),
    ]
}

/// Whether each member of `part` is in `whole`; lists have the same length. Empty values may be left out.
pub(crate) fn contains(whole: &Json, part: &Json, at: &str) -> Result<(), String> {
    match (whole, part) {
        (_, Json::Object(members)) if whole.is_object() => members
            .iter()
            .filter(|(_, member)| !is_empty(member))
            .try_for_each(|(key, member)| contains(&whole[key], member, &format!("{at}.{key}"))),
        // The order of policies is the server's own.
        (Json::Array(items), Json::Array(parts))
            if items.len() == parts.len()
                && (at.ends_with(".volumes") || at.ends_with(".volumeMounts")) =>
        {
            let is_there = |part: &Json| items.iter().any(|item| contains(item, part, at).is_ok());
            match parts.iter().find(|part| !is_there(part)) {
                None => Ok(()),
                Some(part) => Err(format!("{at}: the server has no {part}")),
            }
        }
        (Json::Array(items), Json::Array(parts)) if items.len() == parts.len() => items
            .iter()
            .zip(parts)
            .enumerate()
            .try_for_each(|(index, (item, part))| contains(item, part, &format!("{at}[{index}]"))),
        (whole, part) if whole == part => Ok(()),
        (whole, part) => Err(format!("{at}: the server has {whole}, evaluated {part}")),
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
