//! Every launcher pod gets what `deploy/admission` promises, and every other pod nothing.

use std::fs;

use serde_json::{Value as Json, json};
use tests::binaries::workspace;

use crate::emulated_api_server::{ApiServer, Request};
use crate::pod_corpus::{
    Annotations, PodAdditions, added, annotated, compute, pod, pods, starts_a_vm, stock_pods,
};
use crate::policy_files::{documents, policies};

pub(crate) const IMAGE: (&str, &str) = ("image", "registry.example/hooks:1");

/// The policies with these file names, and the guard. Those of v1beta1 are the same.
pub(crate) fn shipped(names: &[&str]) -> ApiServer {
    let files = names.iter().map(|name| file(name, "v1"));
    let guard = "deploy/admission/guard/refuse-unusable-hook-annotations.yaml".to_owned();
    let paths: Vec<String> = files.chain([guard]).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    ApiServer::new(policies("v1", &paths))
}

/// The file of a policy for an API version.
fn file(name: &str, version: &str) -> String {
    let directory = match name {
        "launcher-canary" => "canary",
        _ => "admission",
    };
    format!("deploy/{directory}/{version}/{name}.yaml")
}

pub(crate) fn image_volume(name: &str, reference: &str) -> Json {
    json!({"name": name, "image": {"reference": reference, "pullPolicy": "IfNotPresent"}})
}

pub(crate) fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

/// The policies that VM owners use by annotations: names, annotations, and what they add.
pub(crate) fn by_annotation() -> Vec<(&'static str, Annotations, PodAdditions)> {
    let config_map = |name: &str| json!({"name": format!("wasm-config-map-{name}"), "configMap": {"name": name, "defaultMode": 292}});
    let claim = json!({"name": "wasm-claim-hooks", "persistentVolumeClaim": {"claimName": "hooks", "readOnly": true}});
    vec![
        (
            "counted-hooks-from-image",
            &[IMAGE, ("hooks", "banner, serial")],
            PodAdditions {
                volumes: vec![image_volume("wasm-hooks", IMAGE.1)],
                mounts: words(&[
                    "wasm-hooks /var/run/kubevirt-hooks/wasm-banner banner",
                    "wasm-hooks /var/run/kubevirt-hooks/wasm-serial serial",
                ]),
                counted: 2,
            },
        ),
        (
            "standing-hooks-from-image",
            &[IMAGE, ("standing", "banner,serial")],
            PodAdditions {
                volumes: vec![image_volume("wasm-standing-hooks", IMAGE.1)],
                mounts: words(&[
                    "wasm-standing-hooks /etc/virt-launcher/hooks/banner banner",
                    "wasm-standing-hooks /etc/virt-launcher/hooks/serial serial",
                ]),
                counted: 0,
            },
        ),
        (
            "standing-hooks-from-config-map",
            &[("config-maps", "banner,serial")],
            PodAdditions {
                volumes: vec![config_map("banner"), config_map("serial")],
                mounts: words(&[
                    "wasm-config-map-banner /etc/virt-launcher/hooks/banner -",
                    "wasm-config-map-serial /etc/virt-launcher/hooks/serial -",
                ]),
                counted: 0,
            },
        ),
        (
            "standing-hooks-from-pvc",
            &[("claim", "hooks"), ("claim-hooks", "banner")],
            PodAdditions {
                volumes: vec![claim],
                mounts: words(&["wasm-claim-hooks /etc/virt-launcher/hooks/banner banner"]),
                counted: 0,
            },
        ),
    ]
}

#[test]
fn launcher_pods_get_the_annotated_hooks_and_other_pods_nothing() {
    for (policy, annotations, promised) in by_annotation() {
        let server = shipped(&[policy]);
        for (name, pod) in pods() {
            let at = format!("{policy}: {name}");
            let plain = server.admit(Request::create(pod.clone())).unwrap();
            assert_eq!(plain, pod, "{at}");
            let pod = annotated(pod, annotations);
            let stored = server.admit(Request::create(pod.clone())).unwrap();
            if starts_a_vm(&name) {
                assert_eq!(added(&pod, &stored), promised, "{at}");
            } else {
                assert_eq!(stored, pod, "{at}");
            }
        }
    }
}

#[test]
fn all_policies_work_on_one_pod() {
    let names: Vec<_> = by_annotation().iter().map(|(name, ..)| *name).collect();
    let server = shipped(
        &[
            &names[..],
            &[
                "standing-hooks-by-namespace",
                "standing-hooks-by-label",
                "pod-info",
                "launcher-canary",
            ],
        ]
        .concat(),
    );
    let annotations = [
        IMAGE,
        ("hooks", "a"),
        ("standing", "b"),
        ("config-maps", "c"),
        ("claim", "d"),
        ("claim-hooks", "e"),
    ];
    let mut request = Request::create(annotated(pod("sidecar-one"), &annotations));
    request.namespace = annotated(request.namespace, &[IMAGE, ("standing", "f")]);
    request.object["metadata"]["labels"]["tier"] = "gpu".into();
    request.object["metadata"]["labels"]["wasm-hooks.example.com/canary"] = "true".into();
    let stored = server.admit(request.clone()).unwrap();
    assert_eq!(
        compute(&stored)["image"],
        "registry.example/virt-launcher:v1.9.0-wasm"
    );
    let mounts = compute(&stored)["volumeMounts"].as_array().unwrap();
    let paths: Vec<_> = mounts
        .iter()
        .filter_map(|mount| mount["mountPath"].as_str())
        .collect();
    for path in ["b", "c", "e", "namespace-f", "gpu-vfio", "gpu-numa"] {
        let path = format!("/etc/virt-launcher/hooks/{path}");
        assert!(paths.contains(&path.as_str()), "{path}: {paths:?}");
    }
    assert!(paths.contains(&"/var/run/kubevirt-hooks/wasm-a"));
}

/// Each route's volumes have names of their own, whatever the hooks are called.
#[test]
fn hooks_can_have_the_names_of_other_routes_volumes() {
    let names: Vec<_> = by_annotation().iter().map(|(name, ..)| *name).collect();
    let server = shipped(
        &[
            &names[..],
            &[
                "standing-hooks-by-namespace",
                "standing-hooks-by-label",
                "pod-info",
            ],
        ]
        .concat(),
    );
    let config_maps = [
        "hooks",
        "standing-hooks",
        "claim-hooks",
        "gpu-hooks",
        "pod-info",
        "config-map-hooks",
        &"x".repeat(42),
    ];
    let annotations = [
        IMAGE,
        ("hooks", "a"),
        ("standing", "b"),
        ("config-maps", &config_maps.join(",")),
        ("claim", "d"),
        ("claim-hooks", "e"),
    ];
    let plain = annotated(pod("sidecar-one"), &annotations);
    let mut request = Request::create(plain.clone());
    request.namespace = annotated(request.namespace, &[IMAGE, ("standing", "f")]);
    request.object["metadata"]["labels"]["tier"] = "gpu".into();
    let stored = server.admit(request).unwrap();
    let volumes = |pod: &Json| pod["spec"]["volumes"].as_array().unwrap().len();
    assert_eq!(volumes(&stored) - volumes(&plain), config_maps.len() + 6);
}

#[test]
fn a_namespace_chooses_for_all_of_its_vms() {
    let server = shipped(&["standing-hooks-by-namespace"]);
    for (name, pod) in pods() {
        let mut request = Request::create(pod.clone());
        assert_eq!(server.admit(request.clone()).unwrap(), pod, "{name}");
        request.namespace = annotated(request.namespace, &[IMAGE, ("standing", "audit")]);
        let stored = server.admit(request).unwrap();
        if starts_a_vm(&name) {
            let promised = PodAdditions {
                volumes: vec![image_volume("wasm-namespace-hooks", IMAGE.1)],
                mounts: words(&[
                    "wasm-namespace-hooks /etc/virt-launcher/hooks/namespace-audit audit",
                ]),
                counted: 0,
            };
            assert_eq!(added(&pod, &stored), promised, "{name}");
        } else {
            assert_eq!(stored, pod, "{name}");
        }
    }
}

#[test]
fn a_label_chooses_hooks() {
    let server = shipped(&["standing-hooks-by-label"]);
    for (name, mut pod) in pods() {
        assert_eq!(
            server.admit(Request::create(pod.clone())).unwrap(),
            pod,
            "{name}"
        );
        pod["metadata"]["labels"]["tier"] = "gpu".into();
        let stored = server.admit(Request::create(pod.clone())).unwrap();
        assert_eq!(stored != pod, starts_a_vm(&name), "{name}");
        if stored != pod {
            assert_eq!(added(&pod, &stored).mounts.len(), 2, "{name}");
        }
    }
}

#[test]
fn launchers_and_hook_sidecars_see_the_facts_of_their_pod() {
    let server = shipped(&["pod-info"]);
    for (name, pod) in pods() {
        let mut stored = server.admit(Request::create(pod.clone())).unwrap();
        if !starts_a_vm(&name) {
            assert_eq!(stored, pod, "{name}");
            continue;
        }
        let expected = json!({"name": "wasm-pod-info", "readOnly": true, "mountPath": "/etc/virt-hook/pod-info"});
        let containers = stored["spec"]["containers"].as_array_mut().unwrap();
        for container in containers {
            if container["name"]
                .as_str()
                .unwrap()
                .starts_with("hook-sidecar-")
            {
                let mounts = container["volumeMounts"].as_array_mut().unwrap();
                assert_eq!(mounts.pop(), Some(expected.clone()), "{name}");
            }
        }
        let file = |path, field: &str| json!({"path": path, "fieldRef": {"fieldPath": field}});
        let items = [
            file("annotations", "metadata.annotations"),
            file("labels", "metadata.labels"),
        ];
        let promised = PodAdditions {
            volumes: vec![
                json!({"name": "wasm-pod-info", "downwardAPI": {"defaultMode": 292, "items": items}}),
            ],
            mounts: words(&["wasm-pod-info /etc/virt-launcher/pod-info -"]),
            counted: 0,
        };
        assert_eq!(added(&pod, &stored), promised, "{name}");
    }
}

#[test]
fn the_canary_changes_the_image_of_compute_only() {
    let server = shipped(&["launcher-canary"]);
    for (name, mut pod) in stock_pods() {
        assert_eq!(
            server.admit(Request::create(pod.clone())).unwrap(),
            pod,
            "{name}"
        );
        pod["metadata"]["labels"]["wasm-hooks.example.com/canary"] = "true".into();
        let mut stored = server.admit(Request::create(pod.clone())).unwrap();
        if starts_a_vm(&name) {
            let containers = stored["spec"]["containers"].as_array_mut().unwrap();
            let compute = containers
                .iter_mut()
                .find(|container| container["name"] == "compute")
                .unwrap();
            assert_ne!(
                compute["image"],
                crate::pod_corpus::compute(&pod)["image"],
                "{name}"
            );
            compute["image"] = crate::pod_corpus::compute(&pod)["image"].clone();
        }
        assert_eq!(stored, pod, "{name}");
    }
}

#[test]
fn both_api_versions_have_the_same_policies() {
    for (name, _) in JUDGED {
        let mut new = documents(&file(name, "v1"));
        for document in &mut new {
            assert_eq!(
                document["apiVersion"], "admissionregistration.k8s.io/v1",
                "{name}"
            );
            // Those that validate are v1 everywhere.
            if document["kind"].as_str().unwrap().starts_with("Mutating") {
                document["apiVersion"] = "admissionregistration.k8s.io/v1beta1".into();
            }
        }
        assert_eq!(new, documents(&file(name, "v1beta1")), "{name}");
    }
}

/// All policies, and the corpus' file with which the record of a real API server's answers begins, if it is the same.
const JUDGED: &[(&str, Option<&str>)] = &[
    ("counted-hooks-from-image", Some("hooks-image")),
    ("standing-hooks-from-image", Some("standing-hooks")),
    ("launcher-canary", Some("launcher-image")),
    ("standing-hooks-from-config-map", None),
    ("standing-hooks-from-pvc", None),
    ("standing-hooks-by-namespace", None),
    ("standing-hooks-by-label", None),
    ("pod-info", None),
];

/// `docs/admission.md` has a row for each policy.
#[test]
fn recorded_policies_are_the_ones_that_were_recorded() {
    let readme = fs::read_to_string(workspace().join("docs/admission.md")).unwrap();
    for (name, recorded) in JUDGED {
        let mut rows = readme.lines();
        assert!(
            rows.any(|line| line.starts_with(&format!("| [{name}.yaml]"))),
            "{name}"
        );
        if let Some(recorded) = recorded {
            assert_eq!(
                documents(&file(name, "v1")),
                documents(&format!("tests/corpus/api-server-verdicts/{recorded}.yaml")),
                "{name}"
            );
        }
    }
    for version in ["v1", "v1beta1"] {
        let files = |directory: &str| {
            let directory = format!("deploy/{directory}/{version}");
            fs::read_dir(workspace().join(directory)).unwrap().count()
        };
        let kustomizations = 2;
        let found = files("admission") + files("canary");
        assert_eq!(found, JUDGED.len() + kustomizations, "{version}");
    }
}

/// virt-operator applies the patch to virt-controller's Deployment, here with KubeVirt v1.9's arguments.
#[test]
fn the_whole_clusters_patch_changes_the_launchers_image_only() {
    let [patch] = &documents("deploy/overlays/whole-cluster/kubevirt-patch.yaml")[..] else {
        panic!("one document");
    };
    let [patch] = &patch["spec"]["customizeComponents"]["patches"]
        .as_array()
        .unwrap()[..]
    else {
        panic!("one patch");
    };
    let operations: json_patch::Patch =
        serde_json::from_str(patch["patch"].as_str().unwrap()).unwrap();
    let deployment = |arguments: [&str; 4]| json!({"spec": {"template": {"spec": {"containers": [{"name": "virt-controller", "args": arguments}]}}}});
    let mut patched = deployment(["--launcher-image", "theirs", "--exporter-image", "e"]);
    json_patch::patch(&mut patched, &operations).unwrap();
    let ours = "registry.example/virt-launcher:v1.9.0-wasm";
    assert_eq!(
        patched,
        deployment(["--launcher-image", ours, "--exporter-image", "e"])
    );
    let mut other = deployment(["--exporter-image", "e", "--launcher-image", "theirs"]);
    json_patch::patch(&mut other, &operations).unwrap_err();
}
