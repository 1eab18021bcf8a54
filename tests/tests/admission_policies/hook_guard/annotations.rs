//! The guard refuses annotations on VMs and namespaces that the policies cannot use.

use serde_json::{Value as Json, json};

use super::{IMAGE, guard};
use crate::admission_request::Request;
use crate::pod_corpus::{annotated, virtual_machine};

/// One object of each kind that can have the annotations, with these annotations.
fn annotated_objects(annotations: &[(&str, &str)]) -> [Json; 4] {
    let instance = json!({"kind": "VirtualMachineInstance", "metadata": {"name": "web"}});
    let mut replica_set = virtual_machine(annotations);
    replica_set["kind"] = "VirtualMachineInstanceReplicaSet".into();
    [
        virtual_machine(annotations),
        annotated(instance, annotations),
        replica_set,
        pool(virtual_machine(annotations)),
    ]
}

/// A VirtualMachinePool with this VM as template.
fn pool(mut vm: Json) -> Json {
    vm.as_object_mut().unwrap().remove("kind");
    vm["metadata"].as_object_mut().unwrap().remove("name");
    json!({"kind": "VirtualMachinePool", "metadata": {"name": "web"}, "spec": {"virtualMachineTemplate": vm}})
}

#[test]
fn usable_annotations_are_admitted() {
    let usable: &[&[(&str, &str)]] = &[
        &[],
        &[IMAGE, ("hooks", "banner")],
        &[IMAGE, ("hooks", "image-banner")],
        &[IMAGE, ("hooks", "banner, serial-2"), ("standing", "banner")],
        &[
            (
                "image",
                "registry.example/team_a/wasm--hooks@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            ),
            ("hooks", "banner"),
        ],
        &[("config-maps", "a,b")],
        &[
            ("claim", "hooks.v1"),
            ("claim-hooks", "a"),
            ("config-maps", "b"),
        ],
    ];
    for annotations in usable {
        for object in annotated_objects(annotations) {
            guard().admit(Request::create(object)).unwrap();
        }
    }
}

#[test]
fn unusable_annotations_are_refused_on_every_kind_of_object() {
    let unusable: &[(&[(&str, &str)], &str)] = &[
        (
            &[("image", "elsewhere.example/hooks:1"), ("hooks", "a")],
            "elsewhere.example/hooks:1 is not from",
        ),
        (
            &[("image", " registry.example/x"), ("hooks", "a")],
            "is not from",
        ),
        (
            &[("image", "registry.example/hooks:1 "), ("hooks", "a")],
            "\"registry.example/hooks:1 \" is no reference of an image",
        ),
        (
            &[("image", "registry.example/"), ("hooks", "a")],
            "\"registry.example/\" is no reference of an image",
        ),
        (&[IMAGE], "/image needs"),
        (&[("hooks", "a")], "need wasm-hooks.example.com/image"),
        (&[("standing", "a")], "need wasm-hooks.example.com/image"),
        (&[IMAGE, ("hooks", "")], "lists of names"),
        (&[IMAGE, ("hooks", "a,")], "lists of names"),
        (&[IMAGE, ("hooks", "../x")], "lists of names"),
        (&[IMAGE, ("standing", "Ban ner")], "lists of names"),
        (&[("config-maps", "a.b")], "lists of names"),
        (&[IMAGE, ("hooks", "a,b, a")], "name a hook twice"),
        (
            &[IMAGE, ("standing", "a"), ("config-maps", "b,a")],
            "name a hook twice",
        ),
        (&[("config-maps", "a,namespace-b")], "begin with namespace-"),
        (
            &[IMAGE, ("standing", "image-b")],
            "begin with namespace- or image-",
        ),
        (
            &[("config-maps", "a,image-b")],
            "begin with namespace- or image-",
        ),
        (
            &[("claim", "hooks"), ("claim-hooks", "image-b")],
            "begin with namespace- or image-",
        ),
        (&[("claim", "hooks")], "/claim needs"),
        (&[("claim-hooks", "a")], "/claim-hooks needs"),
        (
            &[("claim", "a/b"), ("claim-hooks", "a")],
            "/claim-hooks needs",
        ),
    ];
    for (annotations, reason) in unusable {
        for object in annotated_objects(annotations) {
            let error = guard().admit(Request::create(object)).unwrap_err();
            assert!(error.contains(reason), "{annotations:?}: {error}");
        }
    }
}

#[test]
fn updates_that_do_not_change_annotations_are_admitted() {
    let old = virtual_machine(&[IMAGE]);
    let mut scaled = old.clone();
    scaled["spec"]["template"]["metadata"]["labels"]["app"] = "other".into();
    let update = |object: Json| Request {
        old: Some(old.clone()),
        ..Request::create(object)
    };
    guard().admit(update(scaled)).unwrap();
    guard()
        .admit(update(virtual_machine(&[IMAGE, ("hooks", "a")])))
        .unwrap();
    guard()
        .admit(update(virtual_machine(&[("hooks", "a")])))
        .unwrap_err();
}

/// KubeVirt copies the annotations of the template to the pod, and not those of the VirtualMachine.
#[test]
fn annotations_of_the_vm_itself_are_refused() {
    let plain = virtual_machine(&[]);
    let update = |old: &Json, object: &Json| {
        guard().admit(Request {
            old: Some(old.clone()),
            ..Request::create(object.clone())
        })
    };
    for key in [
        "image",
        "hooks",
        "standing",
        "config-maps",
        "claim",
        "claim-hooks",
    ] {
        let misplaced = annotated(plain.clone(), &[(key, "a")]);
        let created = guard().admit(Request::create(misplaced.clone()));
        for answer in [created, update(&plain, &misplaced)] {
            let error = answer.unwrap_err();
            assert!(
                error.contains("spec.template.metadata.annotations"),
                "{error}"
            );
        }
        // A VM that was created before the guard can be updated and repaired.
        let mut scaled = misplaced.clone();
        scaled["spec"]["template"]["metadata"]["labels"]["app"] = "other".into();
        update(&misplaced, &scaled).unwrap();
        update(&misplaced, &plain).unwrap();
    }
    guard()
        .admit(Request::create(annotated(plain, &[("owner", "a")])))
        .unwrap();
}

#[test]
fn annotations_of_a_pools_vm_and_of_a_replica_set_itself_are_refused() {
    let misplaced = annotated(virtual_machine(&[]), &[("standing", "a")]);
    let mut replica_set = misplaced.clone();
    replica_set["kind"] = "VirtualMachineInstanceReplicaSet".into();
    for object in [replica_set, pool(misplaced)] {
        let error = guard().admit(Request::create(object)).unwrap_err();
        assert!(
            error.contains("spec.template.metadata.annotations"),
            "{error}"
        );
    }
}

#[test]
fn updates_of_a_pool_are_checked_only_if_its_vm_changes() {
    let old = pool(virtual_machine(&[IMAGE]));
    let update = |object: Json| {
        guard().admit(Request {
            old: Some(old.clone()),
            ..Request::create(object)
        })
    };
    let mut scaled = old.clone();
    scaled["spec"]["replicas"] = 3.into();
    update(scaled).unwrap();
    update(pool(virtual_machine(&[IMAGE, ("hooks", "a")]))).unwrap();
    update(pool(virtual_machine(&[("hooks", "a")]))).unwrap_err();
}

#[test]
fn unusable_annotations_of_a_namespace_are_refused() {
    let namespace = |annotations: &[(&str, &str)]| {
        annotated(
            json!({"kind": "Namespace", "metadata": {"name": "shop"}}),
            annotations,
        )
    };
    guard().admit(Request::create(namespace(&[]))).unwrap();
    guard()
        .admit(Request::create(namespace(&[
            IMAGE,
            ("standing", "audit,base"),
        ])))
        .unwrap();
    for annotations in [
        &[IMAGE][..],
        &[("standing", "audit")],
        &[IMAGE, ("standing", "audit,audit")],
        &[IMAGE, ("standing", "a/b")],
        &[("image", "elsewhere.example/x"), ("standing", "audit")],
        &[
            ("image", "registry.example/hooks:1 "),
            ("standing", "audit"),
        ],
        &[("image", "registry.example/"), ("standing", "audit")],
    ] {
        let changed = namespace(annotations);
        guard().admit(Request::create(changed.clone())).unwrap_err();
        let update = |old: Json| Request {
            old: Some(old),
            ..Request::create(changed.clone())
        };
        guard().admit(update(namespace(&[]))).unwrap_err();
        guard().admit(update(changed.clone())).unwrap();
    }
}
