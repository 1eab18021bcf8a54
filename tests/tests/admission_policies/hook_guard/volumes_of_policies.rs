//! The guard asks for the volumes of the policies by kind and mount: KubeVirt names a pod's volumes after those of the VM,
//! which its owner chooses.

use serde_json::{Value as Json, json};

use super::{IMAGE, guard, server};
use crate::admission_request::Request;
use crate::emulated_api_server::ApiServer;
use crate::pod_corpus::{annotated, pod};
use crate::policy_files::policies;

/// A policy, the kind of its volumes, and the annotations and labels for which it adds them.
struct Row {
    policy: &'static str,
    kind: &'static str,
    annotations: &'static [(&'static str, &'static str)],
    namespace: &'static [(&'static str, &'static str)],
    labels: &'static [(&'static str, &'static str)],
}

const NONE: &[(&str, &str)] = &[];

const ROWS: &[Row] = &[
    Row {
        policy: "counted-hooks-from-image",
        kind: "image",
        annotations: &[IMAGE, ("hooks", "a,b")],
        namespace: NONE,
        labels: NONE,
    },
    Row {
        policy: "standing-hooks-from-image",
        kind: "image",
        annotations: &[IMAGE, ("standing", "a,b")],
        namespace: NONE,
        labels: NONE,
    },
    Row {
        policy: "standing-hooks-from-config-map",
        kind: "configMap",
        annotations: &[("config-maps", "a,b")],
        namespace: NONE,
        labels: NONE,
    },
    Row {
        policy: "standing-hooks-from-pvc",
        kind: "persistentVolumeClaim",
        annotations: &[("claim", "c"), ("claim-hooks", "a,b")],
        namespace: NONE,
        labels: NONE,
    },
    Row {
        policy: "standing-hooks-by-namespace",
        kind: "image",
        annotations: NONE,
        namespace: &[IMAGE, ("standing", "audit,base")],
        labels: NONE,
    },
    Row {
        policy: "standing-hooks-by-label",
        kind: "image",
        annotations: NONE,
        namespace: NONE,
        labels: &[("tier", "gpu")],
    },
    Row {
        policy: "pod-info",
        kind: "downwardAPI",
        annotations: NONE,
        namespace: NONE,
        labels: NONE,
    },
];

impl Row {
    fn request(&self) -> Request {
        let mut request = Request::create(annotated(pod("sidecar-one"), self.annotations));
        request.namespace = annotated(request.namespace, self.namespace);
        for (key, value) in self.labels {
            request.object["metadata"]["labels"][*key] = (*value).into();
        }
        request
    }

    /// A server whose mutating policy is missing: the guard, and the file's own validation.
    fn judge(&self) -> ApiServer {
        let file = format!("deploy/admission/v1/{}.yaml", self.policy);
        let mut policies = policies("v1", &[&file]);
        policies.mutating.clear();
        policies.objects.retain(|object| {
            let kind = object["kind"].as_str().unwrap();
            !kind.starts_with("Mutating")
        });
        let guard = guard().policies;
        policies.validating.extend(guard.validating);
        policies.objects.extend(guard.objects);
        ApiServer::new(policies)
    }
}

/// A volume's source of each kind that the policies use, and others.
fn sources() -> Vec<(&'static str, Json)> {
    vec![
        ("image", json!({"reference": "registry.example/hooks:1"})),
        ("configMap", json!({"name": "a"})),
        ("persistentVolumeClaim", json!({"claimName": "c"})),
        (
            "downwardAPI",
            json!({"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}),
        ),
        ("secret", json!({"secretName": "a"})),
        ("emptyDir", json!({})),
    ]
}

fn is_of_policy(name: &Json) -> bool {
    name.as_str().unwrap().starts_with("wasm-")
}

/// The mounts of the policies' volumes in `compute`.
fn mounts(pod: &mut Json) -> Vec<&mut Json> {
    let containers = pod["spec"]["containers"].as_array_mut().unwrap().iter_mut();
    let compute = containers.filter(|container| container["name"] == "compute");
    let mounts = compute.flat_map(|compute| compute["volumeMounts"].as_array_mut().unwrap());
    mounts
        .filter(|mount| is_of_policy(&mount["name"]))
        .collect()
}

/// What an owner or a failure can make of the pod with its hooks.
fn spoiled(stored: &Json, kind: &str) -> Vec<(String, Json)> {
    let mut spoiled = Vec::new();
    for (other, source) in sources() {
        if other != kind {
            let mut pod = stored.clone();
            for volume in pod["spec"]["volumes"].as_array_mut().unwrap() {
                if is_of_policy(&volume["name"]) {
                    *volume = json!({"name": volume["name"], other: source});
                }
            }
            spoiled.push((format!("of the kind {other}"), pod));
        }
    }
    let mut pod = stored.clone();
    for container in pod["spec"]["containers"].as_array_mut().unwrap() {
        let mounts = container["volumeMounts"].as_array_mut().unwrap();
        mounts.retain(|mount| !is_of_policy(&mount["name"]));
    }
    spoiled.push(("not mounted".to_owned(), pod.clone()));
    for (kind, source) in sources() {
        let mut pod = pod.clone();
        for volume in pod["spec"]["volumes"].as_array_mut().unwrap() {
            if is_of_policy(&volume["name"]) {
                *volume = json!({"name": volume["name"], kind: source});
            }
        }
        spoiled.push((format!("a volume {kind} of the VM"), pod));
    }
    let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
    volumes.retain(|volume| !is_of_policy(&volume["name"]));
    spoiled.push(("no volume".to_owned(), pod));

    let mut pod = stored.clone();
    let moved: Vec<Json> = mounts(&mut pod)
        .into_iter()
        .map(|mount| mount.clone())
        .collect();
    for container in pod["spec"]["containers"].as_array_mut().unwrap() {
        let is_compute = container["name"] == "compute";
        let mounts = container["volumeMounts"].as_array_mut().unwrap();
        mounts.retain(|mount| !is_of_policy(&mount["name"]));
        if !is_compute {
            mounts.extend(moved.iter().cloned());
        }
    }
    spoiled.push(("mounted in another container".to_owned(), pod));
    let count = mounts(&mut stored.clone()).len();
    for at in 0..count {
        let mut pod = stored.clone();
        mounts(&mut pod)[at]["mountPath"] = format!("/mnt/{at}").into();
        spoiled.push((format!("mount {at} at another path"), pod));
        let mut pod = stored.clone();
        mounts(&mut pod)[at]["name"] = "private".into();
        spoiled.push((format!("mount {at} of another volume"), pod));
        let mut pod = stored.clone();
        mounts(&mut pod)[at]["subPath"] = "elsewhere".into();
        spoiled.push((format!("mount {at} of another directory"), pod));
    }
    spoiled
}

#[test]
fn volumes_of_another_kind_or_place_do_not_stand_in_for_a_policys() {
    for row in ROWS {
        let stored = server(&[row.policy]).admit(row.request()).unwrap();
        let judge = row.judge();
        let admit = |pod: &Json| {
            judge.admit(Request {
                object: pod.clone(),
                ..row.request()
            })
        };
        admit(&stored).unwrap();
        for (what, pod) in spoiled(&stored, row.kind) {
            let answer = admit(&pod);
            assert!(answer.is_err(), "{}: {what}", row.policy);
        }
    }
}

/// The server drops the policy's volume, and the volume of the VM stays.
#[test]
fn a_volume_of_the_vm_does_not_stand_in_where_image_volumes_are_dropped() {
    for row in ROWS.iter().filter(|row| row.kind == "image") {
        let stored = server(&[row.policy]).admit(row.request()).unwrap();
        let volumes = stored["spec"]["volumes"].as_array().unwrap();
        let name = &volumes.last().unwrap()["name"];
        let mut server = server(&[row.policy]);
        server.image_volumes = false;
        for (kind, source) in sources() {
            let mut request = row.request();
            let volumes = request.object["spec"]["volumes"].as_array_mut().unwrap();
            volumes.push(json!({"name": name, kind: source}));
            let error = server.admit(request).unwrap_err();
            assert!(error.contains("lack"), "{}: {kind}: {error}", row.policy);
        }
    }
}

/// A launcher that does not wait for its hooks starts the VM without those that come late.
#[test]
fn counted_hooks_that_the_launcher_does_not_count_are_refused() {
    let row = &ROWS[0];
    let stored = server(&[row.policy]).admit(row.request()).unwrap();
    for (count, is_refused) in [("3", false), ("4", false), ("2", true), ("0", true)] {
        let words = |from: &str, to: &str| {
            let from = format!("\"--hook-sidecars\",\"{from}\"");
            let text = stored.to_string();
            assert!(text.contains(&from));
            text.replace(&from, &format!("\"--hook-sidecars\",\"{to}\""))
        };
        let request = Request {
            object: words("3", count).parse().unwrap(),
            ..row.request()
        };
        let answer = row.judge().admit(request);
        assert_eq!(answer.is_err(), is_refused, "{count}: {answer:?}");
        if let Err(error) = answer {
            assert!(error.contains("does not count the hooks"), "{error}");
        }
    }
}
