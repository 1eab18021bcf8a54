//! The emulated API server gives the verdicts on unusable annotations that were recorded with a real one, with and
//! without the guard policy (tests/corpus/api-server-verdicts/README.md).

use serde_json::json;

use crate::admission_request::Request;
use crate::pod_additions::additions;
use crate::pod_corpus::{annotated, pod, virtual_machine};
use crate::recorded_verdicts::recorded_server;

/// The annotations `image` and `hooks`, and the recorded refusal of the pod without the guard, if it was refused.
const VERDICTS_WITHOUT_GUARD: &[(&str, &str, Option<&str>)] = &[
    ("registry.example/hooks:1", "", None),
    ("registry.example/hooks:1", "banner,", None),
    ("registry.example/hooks:1", "Ban ner", None),
    ("registry.example/hooks:1", "a/b", None),
    ("registry.example/hooks:1", "a:b", None),
    ("registry.example/hooks:1", "a,a", Some("must be unique")),
    (
        "registry.example/hooks:1",
        "../x",
        Some("must not contain '..'"),
    ),
    (
        "registry.example/hooks:1",
        "/usr",
        Some("must be a relative path"),
    ),
    ("", "banner", Some("image.reference: Required value")),
    (" x", "banner", None),
];

#[test]
fn unusable_annotations_are_answered_as_recorded() {
    for (image, hooks, refusal) in VERDICTS_WITHOUT_GUARD {
        let annotations = [("image", *image), ("hooks", *hooks)];
        let pod = annotated(pod("plain"), &annotations);
        let answer = recorded_server(&["hooks-image"]).admit(Request::create(pod.clone()));
        match (answer, refusal) {
            (Ok(_), None) => {}
            (Err(error), Some(refusal)) if error.contains(refusal) => {}
            (answer, _) => panic!("{annotations:?}: {answer:?}"),
        }
        // The guard refuses all of them on the VirtualMachine.
        let machine = virtual_machine(&annotations);
        recorded_server(&["annotations-guard"])
            .admit(Request::create(machine))
            .unwrap_err();
    }
}

#[test]
fn incomplete_annotations_change_nothing_and_the_guard_refuses_them() {
    for half in [("image", "registry.example/hooks:1"), ("hooks", "banner")] {
        let pod = annotated(pod("plain"), &[half]);
        let stored = recorded_server(&["hooks-image"])
            .admit(Request::create(pod.clone()))
            .unwrap();
        assert_eq!(stored, pod);
        recorded_server(&["annotations-guard"])
            .admit(Request::create(pod))
            .unwrap_err();
    }
}

#[test]
fn a_volume_with_the_policys_name_is_refused() {
    let mut pod = annotated(
        pod("plain"),
        &[("image", "registry.example/hooks:1"), ("hooks", "banner")],
    );
    let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
    volumes.push(json!({"name": "wasm-hooks", "emptyDir": {}}));
    let error = recorded_server(&["hooks-image"])
        .admit(Request::create(pod))
        .unwrap_err();
    assert!(error.contains("name: Duplicate value"), "{error}");
}

#[test]
fn without_image_volumes_only_the_guard_notices_the_raised_hook_count() {
    let pod = annotated(
        pod("no-image-volume"),
        &[("image", "registry.example/hooks:1"), ("hooks", "banner")],
    );
    for (policies, refused) in [
        (&["hooks-image"][..], false),
        (&["hooks-image", "annotations-guard"], true),
    ] {
        let mut server = recorded_server(policies);
        server.image_volumes = false;
        let answer = server.admit(Request::create(pod.clone()));
        assert_eq!(answer.is_err(), refused, "{answer:?}");
        if let Ok(stored) = answer {
            let additions = additions(&pod, &stored);
            assert_eq!(
                (
                    additions.volumes.len(),
                    additions.mounts.len(),
                    additions.counted
                ),
                (0, 0, 1)
            );
        }
    }
    let server = recorded_server(&["hooks-image", "annotations-guard"]);
    server.admit(Request::create(pod)).unwrap();
}
