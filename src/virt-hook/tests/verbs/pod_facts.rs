//! Facts about the pod on the author's machine: `run`, `test`, `check` and `inspect`.

use std::fs;

use super::example_modules::example;
use super::{text, virt_hook, write};

pub(super) const VMI: &str = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\n\
    metadata: {name: vm, namespace: infra}\nspec:\n  domain:\n    memory: {guest: 64Mi}\n    devices:\n      \
    disks: [{name: init, disk: {bus: virtio}}]\n  networks: [{name: lab, multus: {networkName: lab}}]\n  volumes:\n  \
    - name: init\n    cloudInitNoCloud:\n      userData: '#cloud-config'\n      networkData: 'version: 2'\n";
pub(super) const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    k8s.v1.cni.cncf.io/network-status: |\n      \
    [{\"name\": \"infra/lab\", \"ips\": [\"192.0.2.10\"], \"mac\": \"02:00:00:00:00:01\"}]\n";
const POLICY_WITH_POD_FACTS: &str = "allow:\n  pod: [network-status/*]\n";

#[test]
fn cases_have_a_pod_whose_facts_the_policy_allows() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = example("static-addresses-hook");
    let file = |name: &str, content: &str| write(temp_dir.path(), name, content);
    for case in ["addressed", "denied", "no-pod", "other-network"] {
        file(&format!("{case}/vmi.yaml"), VMI);
        file(&format!("{case}/policy.yaml"), POLICY_WITH_POD_FACTS);
        file(&format!("{case}/pod.yaml"), POD);
    }
    let network_data = "version: 2\nethernets:\n  lab:\n    match:\n      macaddress: \"02:00:00:00:00:01\"\n    \
        dhcp4: false\n    addresses:\n      - \"192.0.2.10/24\"\n";
    file("addressed/expected.network-data", network_data);
    file("denied/policy.yaml", "allow:\n  pod: []\n");
    fs::remove_file(temp_dir.path().join("no-pod/pod.yaml")).unwrap();
    file(
        "other-network/pod.yaml",
        "networkStatus: [{name: infra/other}]\n",
    );
    let test = ["test", "--hook", text(&module), text(temp_dir.path())];
    let update = [&test[..], &["--update", "--accept-errors"]].concat();
    let updated = virt_hook(&update).success_stdout();
    assert!(
        updated.contains("1 passed, 0 failed, 3 updated"),
        "{updated}"
    );
    for (name, part) in [
        (
            "denied",
            "denied: network-status/infra/lab is not granted to this hook: allow.pod of ",
        ),
        (
            "no-pod",
            "network-status/infra/lab: there are no facts about a pod here",
        ),
        ("other-network", "network-status/infra/lab is not there"),
    ] {
        let error = fs::read_to_string(temp_dir.path().join(name).join("expected.error")).unwrap();
        assert!(error.contains(part), "{error}");
    }
    let case = |name: &str| temp_dir.path().join("addressed").join(name);
    let run = |pod: &str| {
        let (vmi, policy) = (case("vmi.yaml"), case("policy.yaml"));
        let arguments = [
            "run",
            text(&module),
            "--vmi",
            text(&vmi),
            "--policy",
            text(&policy),
            "--pod",
            pod,
        ];
        virt_hook(&arguments)
    };
    let run_output = run(text(&case("pod.yaml"))).success_stdout();
    assert!(run_output.contains("192.0.2.10/24"), "{run_output}");
    let no_pod = run(text(&case("vmi.yaml")));
    assert_eq!(no_pod.code, 2, "{}", no_pod.err);
    assert!(
        no_pod.err.contains("neither a Pod nor a map"),
        "{}",
        no_pod.err
    );
}

#[test]
fn inspect_and_check_use_the_pod_facts_that_a_hook_reads() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = example("static-addresses-hook");
    let inspected = virt_hook(&["inspect", text(&module)]).success_stdout();
    assert!(
        inspected.contains("network-status/*") && inspected.contains("virt-hook:hooks/pod@0.1.1"),
        "{inspected}"
    );
    let json = virt_hook(&["inspect", text(&module), "--json"]).json();
    let policy = &json["result"]["policy"];
    assert_eq!(policy["pod"][0], "network-status/*", "{policy}");
    write(temp_dir.path(), "vmi.yaml", VMI);
    write(temp_dir.path(), "pod.yaml", POD);
    let path = |name: &str| temp_dir.path().join(name);
    let (vmi, pod) = (path("vmi.yaml"), path("pod.yaml"));
    let arguments = [
        "check",
        text(&module),
        "--vmi",
        text(&vmi),
        "--pod",
        text(&pod),
        "--without-libvirt",
    ];
    let checked = virt_hook(&arguments).success_stdout();
    assert!(
        checked.contains("no crash") && !checked.contains("it fails on a VMI"),
        "{checked}"
    );
    let without = virt_hook(&arguments[..4]).success_stdout();
    assert!(without.contains("no facts about a pod here"), "{without}");
}
