//! The guard refuses launcher pods that lack their hooks, or whose launcher runs no hooks.

use serde_json::Value as Json;

use super::{IMAGE, guard, server};
use crate::admission_request::Request;
use crate::pod_corpus::{annotated, pod, pods, stock_pod};

/// Pods with KubeVirt's own launcher, which runs no WASM hooks.
#[test]
fn hooks_without_the_launcher_that_runs_them_are_refused() {
    let cases: [(&str, &[(&str, &str)]); 6] = [
        ("counted-hooks-from-image", &[IMAGE, ("hooks", "a")]),
        ("standing-hooks-from-image", &[IMAGE, ("standing", "a")]),
        ("standing-hooks-from-config-map", &[("config-maps", "a")]),
        (
            "standing-hooks-from-pvc",
            &[("claim", "c"), ("claim-hooks", "a")],
        ),
        ("standing-hooks-by-namespace", &[]),
        ("standing-hooks-by-label", &[]),
    ];
    for (policy, annotations) in cases {
        let server = server(&[policy]);
        for (pod, refused) in [
            (stock_pod("sidecar-one"), true),
            (pod("sidecar-one"), false),
        ] {
            let mut request = Request::create(annotated(pod, annotations));
            request.object["metadata"]["labels"]["tier"] = "gpu".into();
            request.namespace = annotated(request.namespace, &[IMAGE, ("standing", "audit")]);
            if !policy.ends_with("by-namespace") {
                request.namespace = Request::create(Json::Null).namespace;
            }
            let answer = server.admit(request);
            assert_eq!(answer.is_err(), refused, "{policy}: {answer:?}");
            if let Err(error) = answer {
                assert!(error.contains("lack the label"), "{policy}: {error}");
            }
        }
    }
}

#[test]
fn pods_without_hook_annotations_and_hotplug_pods_are_admitted() {
    for (name, pod) in pods() {
        guard().admit(Request::create(pod.clone())).unwrap();
        if name.contains("hotplug-") {
            guard()
                .admit(Request::create(annotated(pod, &[("hooks", "..")])))
                .unwrap();
        }
    }
}

/// The cluster lacks the mutating policy, or has no image volumes.
#[test]
fn a_launcher_pod_without_its_hooks_is_refused() {
    let cases: [(&str, &[(&str, &str)]); 4] = [
        ("counted-hooks-from-image", &[IMAGE, ("hooks", "a")]),
        ("standing-hooks-from-image", &[IMAGE, ("standing", "a")]),
        ("standing-hooks-from-config-map", &[("config-maps", "a")]),
        (
            "standing-hooks-from-pvc",
            &[("claim", "c"), ("claim-hooks", "a")],
        ),
    ];
    for (policy, annotations) in cases {
        let request = Request::create(annotated(pod("no-image-volume"), annotations));
        let error = guard().admit(request.clone()).unwrap_err();
        assert!(error.contains("lacks a volume"), "{policy}: {error}");
        let mut server = server(&[policy]);
        server.admit(request.clone()).unwrap();
        server.image_volumes = false;
        let answer = server.admit(request);
        assert_eq!(answer.is_err(), policy.ends_with("-image"), "{policy}");
        if let Err(error) = answer {
            assert!(error.contains("lacks a volume"), "{policy}: {error}");
        }
    }
}

#[test]
fn a_launcher_pod_without_its_namespaces_hooks_is_refused() {
    let mut request = Request::create(pod("no-image-volume"));
    request.namespace = annotated(request.namespace, &[IMAGE, ("standing", "audit")]);
    let error = guard().admit(request.clone()).unwrap_err();
    assert!(error.contains("hooks of its namespace"), "{error}");
    let mut server = server(&["standing-hooks-by-namespace"]);
    server.admit(request.clone()).unwrap();
    server.image_volumes = false;
    let error = server.admit(request).unwrap_err();
    assert!(error.contains("hooks of its namespace"), "{error}");
}

#[test]
fn a_launcher_pod_without_its_labels_hooks_is_refused() {
    let mut request = Request::create(pod("no-image-volume"));
    request.object["metadata"]["labels"]["tier"] = "gpu".into();
    let mut server = server(&["standing-hooks-by-label"]);
    server.admit(request.clone()).unwrap();
    server.image_volumes = false;
    let error = server.admit(request.clone()).unwrap_err();
    assert!(error.contains("hooks of its label"), "{error}");
    request.object["metadata"]["labels"]["tier"] = "web".into();
    server.admit(request).unwrap();
}
