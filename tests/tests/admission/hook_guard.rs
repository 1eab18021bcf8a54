//! The guard refuses what the policies cannot use, where it is written, and pods that lack their hooks.

use serde_json::{Value as Json, json};

use crate::emulated_api_server::{ApiServer, Request};
use crate::pod_corpus::{annotated, pod, pods, stock_pod, virtual_machine};
use crate::policy_files::policies;

const IMAGE: (&str, &str) = ("image", "registry.example/hooks:1");

fn server(names: &[&str]) -> ApiServer {
    let mut paths: Vec<String> = names
        .iter()
        .map(|name| format!("deploy/admission/v1/{name}.yaml"))
        .collect();
    paths.push("deploy/admission/guard/refuse-unusable-hook-annotations.yaml".to_owned());
    ApiServer::new(policies(
        "v1",
        &paths.iter().map(String::as_str).collect::<Vec<_>>(),
    ))
}

fn guard() -> ApiServer {
    server(&[])
}

/// The same annotations on each kind of object on which they can be written.
fn written(annotations: &[(&str, &str)]) -> [Json; 4] {
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

/// A pool of this VM.
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
        for object in written(annotations) {
            guard().admit(Request::create(object)).unwrap();
        }
    }
}

#[test]
fn unusable_annotations_are_refused_by_name_where_they_are_written() {
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
        for object in written(annotations) {
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
        // A VM made before the guard is updated, and repaired.
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
fn updates_of_a_pool_are_judged_when_its_vm_changes() {
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

/// The hooks of each route in a pod with KubeVirt's own launcher, which does not run them.
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
fn other_pods_are_not_judged() {
    for (name, pod) in pods() {
        guard().admit(Request::create(pod.clone())).unwrap();
        if name.starts_with("hotplug-") {
            guard()
                .admit(Request::create(annotated(pod, &[("hooks", "..")])))
                .unwrap();
        }
    }
}

/// A cluster where the mutating policy is missing, or that has no image volumes.
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

/// `sharedComputePath` of a hook sidecar mounts a claim of the VM's owner into the launcher's container.
#[test]
fn a_claim_of_the_vm_hides_neither_programs_nor_the_operators_policy() {
    let hidden = [
        "/",
        "/.",
        "/etc",
        "/etc/",
        "//etc",
        "/etc/virt-launcher",
        "/etc/./virt-launcher/hooks/x",
        "/var/../etc",
        "/mnt/../usr/bin",
        "/etc/virt-launcher/hooks/x",
        "/etc/libvirt",
        "/usr",
        "/usr/bin",
        "/lib64",
        "/run",
        "/var/run/kubevirt-hooks",
        "/var/run/kubevirt-private",
        "/var/run/kubevirt-private/hook-artifacts",
        "/var/run/kubevirt-private/libvirt",
        "/var/run/kubevirt-private/libvirt/qemu",
        "/var/lib/libvirt",
        "/mntx",
    ];
    let shown = [
        "/mnt",
        "/mnt/shared/..x",
        "/var/run/shared",
        "/run/shared/",
        "/var/run/kubevirt-private/vmi-disks/root",
        "/var/run/kubevirt-private/libvirt/qemu/swtpm",
        "/var/lib/libvirt/swtpm",
    ];
    let shared = pod("sidecar-pvc-shared");
    let containers = shared["spec"]["containers"].as_array().unwrap();
    let at = containers
        .iter()
        .position(|container| container["name"] == "compute")
        .unwrap();
    let volumes = shared["spec"]["volumes"].as_array().unwrap();
    let claim = volumes
        .iter()
        .find(|volume| volume.get("persistentVolumeClaim").is_some())
        .unwrap();
    let mounts = containers[at]["volumeMounts"].as_array().unwrap();
    let mount = mounts
        .iter()
        .position(|mount| mount["name"] == claim["name"])
        .unwrap();
    for (path, refused) in hidden
        .map(|path| (path, true))
        .into_iter()
        .chain(shown.map(|path| (path, false)))
    {
        let mut pod = shared.clone();
        pod["spec"]["containers"][at]["volumeMounts"][mount]["mountPath"] = path.into();
        let answer = guard().admit(Request::create(pod));
        assert_eq!(answer.is_err(), refused, "{path}: {answer:?}");
    }
    // A claim that has the name of the policies' own volume.
    let name = claim["name"].to_string();
    let renamed = shared.to_string().replace(&name, "\"wasm-claim-hooks\"");
    let annotations = [("claim", "wasm-claim-hooks"), ("claim-hooks", "x")];
    let renamed = annotated(renamed.parse().unwrap(), &annotations);
    for (path, refused) in [
        ("/etc/virt-launcher/hooks/x", false),
        ("/etc/virt-launcher/hooks/y", true),
        ("/etc/virt-launcher/hooks/x/", true),
        ("/etc/virt-launcher/hooks/../../../usr/bin", true),
        ("/etc/virt-launcher/hooks/namespace-audit/", true),
        ("/etc/virt-launcher/hooks", true),
    ] {
        let mut pod = renamed.clone();
        pod["spec"]["containers"][at]["volumeMounts"][mount]["mountPath"] = path.into();
        let answer = guard().admit(Request::create(pod));
        let is_named = |error: &String| error.contains("sharedComputePath");
        assert_eq!(
            answer.as_ref().is_err_and(is_named),
            refused,
            "{path}: {answer:?}"
        );
        assert_eq!(answer.is_err(), refused, "{path}: {answer:?}");
    }
}
