//! The guard admits claims that a hook sidecar mounts into the launcher's container only below the sidecar's own paths, not
//! over the launcher's programs or the operator's policy.

use serde_json::json;

use super::guard;
use crate::admission_request::Request;
use crate::pod_corpus::{annotated, pod};

/// `sharedComputePath` of a hook sidecar mounts a claim of the VM's owner into the launcher's container.
#[test]
fn shared_claims_mounted_over_programs_or_the_operators_policy_are_refused() {
    let refused_paths = [
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
    let admitted_paths = [
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
    let compute = containers
        .iter()
        .position(|container| container["name"] == "compute")
        .unwrap();
    let volumes = shared["spec"]["volumes"].as_array().unwrap();
    let claim = volumes
        .iter()
        .find(|volume| volume.get("persistentVolumeClaim").is_some())
        .unwrap();
    let mounts = containers[compute]["volumeMounts"].as_array().unwrap();
    let mount = mounts
        .iter()
        .position(|mount| mount["name"] == claim["name"])
        .unwrap();
    for (path, refused) in refused_paths
        .map(|path| (path, true))
        .into_iter()
        .chain(admitted_paths.map(|path| (path, false)))
    {
        let mut pod = shared.clone();
        pod["spec"]["containers"][compute]["volumeMounts"][mount]["mountPath"] = path.into();
        let answer = guard().admit(Request::create(pod));
        assert_eq!(answer.is_err(), refused, "{path}: {answer:?}");
    }
    // The claim's volume has the name of the volume that the mutating policy adds: beside the policy's mount, only the
    // sidecar's own paths are admitted.
    let name = claim["name"].to_string();
    let renamed = shared.to_string().replace(&name, "\"wasm-claim-hooks\"");
    let annotations = [("claim", "wasm-claim-hooks"), ("claim-hooks", "x")];
    let mut renamed = annotated(renamed.parse().unwrap(), &annotations);
    renamed["spec"]["containers"][compute]["volumeMounts"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "wasm-claim-hooks", "mountPath": "/etc/virt-launcher/hooks/x", "subPath": "x"}));
    for (path, refused) in [
        ("/mnt/x", false),
        ("/etc/virt-launcher/hooks/y", true),
        ("/etc/virt-launcher/hooks/x/", true),
        ("/etc/virt-launcher/hooks/../../../usr/bin", true),
        ("/etc/virt-launcher/hooks/namespace-audit/", true),
        ("/etc/virt-launcher/hooks", true),
    ] {
        let mut pod = renamed.clone();
        pod["spec"]["containers"][compute]["volumeMounts"][mount]["mountPath"] = path.into();
        let answer = guard().admit(Request::create(pod));
        let names_shared_path = |error: &String| error.contains("sharedComputePath");
        assert_eq!(
            answer.as_ref().is_err_and(names_shared_path),
            refused,
            "{path}: {answer:?}"
        );
        assert_eq!(answer.is_err(), refused, "{path}: {answer:?}");
    }
}
