//! A real API server, to which every request of these tests is also sent if `KUBE_API` is set; its verdict must be the
//! same. `scripts/test-apiserver` starts one. With `KUBE_IMAGE_VOLUMES=false` the server has no image volumes, and only
//! receives the requests of tests that emulate such a server.
//!
//! Requests are dry runs with strict validation of fields. The object that the real server stores is the evaluated
//! object plus the server's defaults, so it must contain each member of the evaluated object.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use serde_json::{Value as Json, json};

use crate::admission_request::Request;
use crate::kube_client::{KubeClient, collection};
use crate::policy_enforcement_sentinels::{sentinels, wait_for_sentinels};
use crate::policy_files::Policies;

const POLICY_API: &str = "/apis/admissionregistration.k8s.io";

static SERVER: LazyLock<Option<Mutex<RealServer>>> = LazyLock::new(|| {
    let url = std::env::var("KUBE_API").ok()?;
    Some(Mutex::new(RealServer {
        client: KubeClient::new(url),
        version: std::env::var("KUBE_POLICY_VERSION").unwrap_or_else(|_| "v1".to_owned()),
        image_volumes: std::env::var("KUBE_IMAGE_VOLUMES").as_deref() != Ok("false"),
        enforced: None,
        policy_set_count: 0,
        name_count: 0,
        namespaces: BTreeMap::new(),
    }))
});

/// A real API server, and the policies that it enforces.
pub(crate) struct RealServer {
    pub(crate) client: KubeClient,
    /// The API version of mutating policies that is tested.
    pub(crate) version: String,
    pub(crate) image_volumes: bool,
    enforced: Option<Vec<Json>>,
    policy_set_count: u32,
    name_count: u32,
    /// The names of created namespaces, by name in the test and annotations.
    namespaces: BTreeMap<String, String>,
}

/// The real server, for tests that need one.
pub(crate) fn real_server() -> MutexGuard<'static, RealServer> {
    lock_server().expect("KUBE_API names no API server; scripts/test-apiserver does")
}

pub(crate) fn lock_server() -> Option<MutexGuard<'static, RealServer>> {
    let server = SERVER.as_ref()?;
    Some(server.lock().unwrap_or_else(PoisonError::into_inner))
}

impl RealServer {
    /// Sends the request. Returns the object's name on the server, and the stored object or the reason of the refusal.
    pub(crate) fn request_verdict(
        &mut self,
        policies: &Policies,
        request: &Request,
    ) -> (String, Result<Json, String>) {
        let namespace = self.namespace(&request.namespace["metadata"]);
        let name = self.new_name("object");
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
            let answer = self
                .client
                .send("POST", &format!("{collection}?dryRun=All"), &object);
            return (name, answer);
        };
        let (_, old) = collection_and_object(old);
        self.enforce(&[]);
        let stored = self.client.send("POST", &collection, &old).unwrap();
        let mut object = object;
        object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        self.enforce(&policies.objects);
        let answer = self
            .client
            .send("PUT", &format!("{collection}/{name}?dryRun=All"), &object);
        (name, answer)
    }

    /// A name that is not used yet. It has the API version, since all versions are tested on the same server.
    fn new_name(&mut self, kind: &str) -> String {
        self.name_count += 1;
        let volumes = if self.image_volumes {
            ""
        } else {
            "-no-volumes"
        };
        format!("{kind}-{}{volumes}-{}", self.version, self.name_count)
    }

    /// The name of a namespace with these annotations, created first if needed while no policy is enforced. The
    /// namespace `default` gets a new name; others keep their names.
    fn namespace(&mut self, metadata: &Json) -> String {
        let annotations = &metadata["annotations"];
        let key = format!("{} {annotations}", metadata["name"]);
        if let Some(name) = self.namespaces.get(&key) {
            return name.clone();
        }
        let name = match metadata["name"].as_str().unwrap() {
            "default" => self.new_name("namespace"),
            name => name.to_owned(),
        };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "annotations": annotations}});
        self.enforce(&[]);
        let path = collection(&namespace);
        // Namespaces with fixed names may exist, because the tests of the other API version have created them.
        if self
            .client
            .send("GET", &format!("{path}/{name}"), &Json::Null)
            .is_err()
        {
            self.client.send("POST", &path, &namespace).unwrap();
        }
        self.namespaces.insert(key, name.clone());
        name
    }

    /// Replaces the server's policies by these, and waits until they are enforced.
    pub(crate) fn enforce(&mut self, objects: &[Json]) {
        if self.enforced.as_deref() == Some(objects) {
            return;
        }
        for resource in [
            "mutatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingadmissionpolicies",
        ] {
            let version = self.version_of(resource);
            self.client
                .send(
                    "DELETE",
                    &format!("{POLICY_API}/{version}/{resource}"),
                    &Json::Null,
                )
                .unwrap();
        }
        self.policy_set_count += 1;
        let sentinel = format!("sentinel-{}-{}", self.version, self.policy_set_count);
        for object in objects.iter().chain(&sentinels(&sentinel)) {
            let mut object = object.clone();
            let version = self.version_of(object["kind"].as_str().unwrap());
            object["apiVersion"] = format!("admissionregistration.k8s.io/{version}").into();
            self.client
                .send("POST", &collection(&object), &object)
                .unwrap_or_else(|error| panic!("{}: {error}", object["metadata"]["name"]));
        }
        wait_for_sentinels(&self.client, &sentinel);
        self.enforced = Some(objects.to_vec());
    }

    fn version_of(&self, resource_or_kind: &str) -> String {
        match resource_or_kind.to_lowercase().starts_with("mutating") {
            true => self.version.clone(),
            false => "v1".to_owned(),
        }
    }
}
