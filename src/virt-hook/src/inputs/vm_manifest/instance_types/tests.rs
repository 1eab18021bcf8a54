//! Instance types and preferences become a part of VMIs as in a cluster, or are refused as there.

use serde_json::json;

use super::super::{Cluster, Manifests, read};
use super::*;

fn vm(spec: &str, template: &str) -> String {
    format!(
        "kind: VirtualMachine\nmetadata: {{name: web, namespace: ns}}\nspec:\n{spec}  template:\n    spec: {template}\n"
    )
}

fn manifests(text: &str, given: Option<&str>) -> Result<Manifests, ManifestError> {
    let cluster = Cluster {
        architecture: "amd64".to_owned(),
        instance_types: given
            .map(|text| InstanceTypes::read(text.as_bytes()).unwrap())
            .unwrap_or_default(),
        binds_claims: true,
    };
    read(text.as_bytes(), &cluster)
}

fn vmi(text: &str, given: Option<&str>) -> Value {
    let manifests = manifests(text, given).unwrap();
    serde_json::from_str(manifests.all[0].vmi.raw_json()).unwrap()
}

const DEVICES: &str = "{domain: {devices: {disks: [{name: a}], interfaces: [{name: default, masquerade: {}}]}}, \
    networks: [{name: default, pod: {}}], volumes: [{name: a, containerDisk: {image: i}}]}";

#[test]
fn all_instance_types_and_preferences_of_kubevirt_are_known() {
    let count = |what| OF_KUBEVIRT.keys().filter(|key| key.what == what).count();
    assert_eq!(
        (count(What::InstanceType), count(What::Preference)),
        (65, 54)
    );
    assert!(OF_KUBEVIRT.values().all(|spec| !spec.is_empty()));
}

#[test]
fn a_vm_has_the_size_of_its_instance_type_and_the_devices_of_its_preference() {
    let text = vm(
        "  instancetype: {name: o1.xlarge}\n  preference: {name: windows.11.virtio}\n",
        DEVICES,
    );
    let vmi = vmi(&text, None);
    let domain = &vmi["spec"]["domain"];
    let cpu =
        json!({"sockets": 4, "cores": 1, "threads": 1, "maxSockets": 16, "model": "host-model"});
    assert_eq!(domain["cpu"], cpu);
    assert_eq!(
        domain["memory"],
        json!({"guest": "16Gi", "maxGuest": "64Gi"})
    );
    assert_eq!(domain["resources"], json!({"requests": {"memory": "8Gi"}}));
    let devices = &domain["devices"];
    assert_eq!(
        devices["disks"][0],
        json!({"name": "a", "disk": {"bus": "virtio"}})
    );
    assert_eq!(devices["interfaces"][0]["model"], "virtio");
    assert_eq!(
        devices["inputs"],
        json!([{"name": "default-0", "bus": "virtio", "type": "tablet"}])
    );
    assert_eq!(devices["tpm"], json!({"persistent": true}));
    assert_eq!(
        domain["firmware"]["bootloader"],
        json!({"efi": {"secureBoot": true, "persistent": true}})
    );
    assert_eq!(
        domain["features"]["hyperv"]["spinlocks"],
        json!({"spinlocks": 8191, "enabled": true})
    );
    assert_eq!(domain["features"]["smm"], json!({"enabled": true}));
    assert_eq!(
        domain["clock"]["timer"]["pit"],
        json!({"tickPolicy": "delay", "present": true})
    );
    assert_eq!(vmi["spec"]["terminationGracePeriodSeconds"], 3600);
    let annotations = &vmi["metadata"]["annotations"];
    assert_eq!(
        annotations["kubevirt.io/cluster-instancetype-name"],
        "o1.xlarge"
    );
    assert_eq!(
        annotations["kubevirt.io/cluster-preference-name"],
        "windows.11.virtio"
    );
    assert_eq!(annotations["vm.kubevirt.io/os"], "windows");
}

#[test]
fn a_field_that_the_instance_type_decides_is_a_conflict() {
    for (instance_type, template, field) in [
        (
            "u1.small",
            "{domain: {cpu: {cores: 2}}}",
            "spec.template.spec.domain.cpu.cores",
        ),
        (
            "u1.small",
            "{domain: {memory: {guest: 1Gi}}}",
            "spec.template.spec.domain.memory.guest",
        ),
        (
            "u1.small",
            "{domain: {resources: {requests: {memory: 1Gi}}}}",
            "spec.template.spec.domain.resources.requests.memory",
        ),
        (
            "u1.small",
            "{domain: {resources: {limits: {cpu: 1}}}}",
            "spec.template.spec.domain.resources.limits.cpu",
        ),
        (
            "cx1.medium",
            "{domain: {ioThreadsPolicy: shared}}",
            "spec.template.spec.domain.ioThreadsPolicy",
        ),
        (
            "cx1.medium",
            "{domain: {cpu: {dedicatedCpuPlacement: true}}}",
            "spec.template.spec.domain.cpu.dedicatedCpuPlacement",
        ),
        (
            "m1.large",
            "{domain: {memory: {hugepages: {pageSize: 2Mi}}}}",
            "spec.template.spec.domain.memory.hugepages",
        ),
    ] {
        let text = vm(
            &format!("  instancetype: {{name: {instance_type}}}\n"),
            template,
        );
        let error = manifests(&text, None).unwrap_err();
        let expected = format!(
            "the VirtualMachine is refused: it conflicts with its instance type in {field}: leave these fields to the instance type"
        );
        assert_eq!(error.to_string(), expected);
        assert!(error.is_refusal());
    }
    let model = vm(
        "  instancetype: {name: u1.small}\n",
        "{domain: {cpu: {model: Skylake}}}",
    );
    assert_eq!(
        vmi(&model, None)["spec"]["domain"]["cpu"]["model"],
        "Skylake"
    );
}

#[test]
fn requirements_of_a_preference_are_checked() {
    for (spec, template, reason) in [
        (
            "  instancetype: {name: u1.nano}\n  preference: {name: fedora}\n",
            "{domain: {}}",
            "its preference requires 2Gi of memory, and the VM has 512Mi",
        ),
        (
            "  preference: {name: fedora.arm64}\n",
            "{architecture: amd64, domain: {cpu: {sockets: 1}, memory: {guest: 4Gi}}}",
            "its preference requires the architecture arm64, and the VM has amd64",
        ),
        (
            "  preference: {name: windows.11}\n",
            "{domain: {cpu: {cores: 2, sockets: 1}, memory: {guest: 4Gi}}}",
            "its preference requires 2 vCPUs, and the VM has 1",
        ),
        (
            "  instancetype: {name: u1.xlarge}\n  preference: {name: rhel.9.dpdk}\n",
            "{domain: {}}",
            "its preference requires 8 vCPUs, and the VM has 4",
        ),
    ] {
        let error = manifests(&vm(spec, template), None).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the VirtualMachine is refused: {reason}")
        );
    }
}

#[test]
fn processors_are_spread_as_the_preference_wants() {
    let topology = |vcpus: u64, preference: Value| {
        topology(vcpus, preference.as_object())
            .map(|topology| [topology.sockets, topology.cores, topology.threads])
            .map_err(|error| error.to_string())
    };
    let spread = |across: &str, ratio: u64| json!({"cpu": {"preferredCPUTopology": "spread", "spreadOptions": {"across": across, "ratio": ratio}}});
    for (vcpus, preference, expected) in [
        (8, json!({}), [8, 1, 1]),
        (
            8,
            json!({"cpu": {"preferredCPUTopology": "cores"}}),
            [1, 8, 1],
        ),
        (
            8,
            json!({"cpu": {"preferredCPUTopology": "preferThreads"}}),
            [1, 1, 8],
        ),
        (
            8,
            json!({"cpu": {"preferredCPUTopology": "any"}}),
            [8, 1, 1],
        ),
        (
            8,
            json!({"cpu": {"preferredCPUTopology": "spread"}}),
            [4, 2, 1],
        ),
        (
            8,
            json!({"cpu": {"preferredCPUTopology": "preferSpread"}, "preferSpreadSocketToCoreRatio": 4}),
            [2, 4, 1],
        ),
        (8, spread("SocketsCoresThreads", 4), [1, 4, 2]),
        (8, spread("CoresThreads", 2), [1, 4, 2]),
    ] {
        assert_eq!(
            topology(vcpus, preference.clone()),
            Ok(expected),
            "{preference}"
        );
    }
    let error = topology(6, spread("SocketsCoresThreads", 4)).unwrap_err();
    assert!(
        error.contains("6 vCPUs") && error.contains("no multiple of 8"),
        "{error}"
    );
}

/// Those of the file come first, then those of `--instancetypes`, then KubeVirt's.
#[test]
fn own_instance_types_come_from_the_same_file_or_another() {
    let own = |memory: &str| {
        format!(
            "kind: VirtualMachineInstancetype\nmetadata: {{name: own, namespace: ns}}\nspec: {{cpu: {{guest: 2}}, memory: {{guest: {memory}}}}}\n"
        )
    };
    let text = vm(
        "  instancetype: {name: own, kind: VirtualMachineInstancetype}\n",
        "{domain: {}}",
    );
    let memory = |text: &str, given: Option<&str>| {
        let vmi = vmi(text, given);
        assert_eq!(
            vmi["metadata"]["annotations"]["kubevirt.io/instancetype-name"],
            "own"
        );
        vmi["spec"]["domain"]["memory"]["guest"].clone()
    };
    assert_eq!(memory(&text, Some(&own("1.5Gi"))), "1536Mi");
    let beside = format!("{}---\n{text}", own("2Gi"));
    assert_eq!(memory(&beside, Some(&own("1Gi"))), "2Gi");
    let note = manifests(&beside, None).unwrap().left_out.unwrap().text;
    assert_eq!(
        note,
        "VirtualMachineInstancetype own (document 1) is used for the VM"
    );
    assert!(InstanceTypes::read(b"kind: Secret\n").is_err());
}

/// virt-controller makes no VMI of such a VM.
#[test]
fn a_vm_whose_instance_type_or_preference_is_not_known_is_refused() {
    for (reference, reason) in [
        (
            "instancetype: {name: own}",
            "(FailedFindInstancetype): its instance type own is not one that KubeVirt 1.9 installs; give its file with \
             --instancetypes",
        ),
        (
            "preference: {name: own, kind: VirtualMachinePreference}",
            "(FailedFindPreference): its preference own is not one",
        ),
        (
            "instancetype: {name: u1.small, kind: Other}",
            "has the kind other, which there is not",
        ),
        ("preference: {}", "its preference has no name"),
    ] {
        let text = vm(&format!("  {reference}\n"), "{domain: {}}");
        let error = manifests(&text, None).unwrap_err();
        assert!(error.is_refusal(), "{error}");
        assert!(error.to_string().contains(reason), "{reference}: {error}");
    }
    // A preference that requires processors does not refuse a VM whose instance type is inferred.
    let size_unknown = "  instancetype: {inferFromVolume: root}\n  preference: {name: fedora}\n";
    assert!(manifests(&vm(size_unknown, "{domain: {}}"), None).is_ok());
    let inferred = vm("  preference: {inferFromVolume: root}\n", "{domain: {}}");
    let manifests = manifests(&inferred, None).unwrap();
    let first = &manifests.all[0].notes[0].text;
    assert!(
        first.contains("from the claim of the volume root"),
        "{first}"
    );
}

#[test]
fn preferences_fill_only_what_a_vm_leaves_open() {
    let preference = "kind: VirtualMachineClusterPreference\nmetadata: {name: p}\nspec:\n  \
        cpu: {preferredCPUFeatures: [{name: vmx}, {name: x2apic, policy: disable}]}\n  \
        machine: {preferredMachineType: pc-q35-9}\n  preferredSubdomain: sub\n  \
        firmware: {preferredUseEfi: true, preferredUseSecureBoot: false}\n  \
        clock: {preferredClockOffset: {timezone: Europe/Berlin}}\n  annotations: {a: preferred, b: preferred}\n  \
        devices: {preferredCdromBus: scsi, preferredDiskBus: virtio, preferredDiskDedicatedIoThread: true, preferredDiskCache: none, \
        preferredInterfaceMasquerade: {}, preferredPanicDeviceModel: isa, preferredAutoattachGraphicsDevice: false, \
        preferredVideoType: vga}\n";
    let text = vm(
        "  preference: {name: p}\n",
        "{domain: {cpu: {features: [{name: vmx, policy: require}]}, clock: {utc: {}}, devices: {disks: [{name: a}, {name: b, cdrom: {}}, \
         {name: c, disk: {bus: sata}, cache: writeback}], interfaces: [{name: net}, {name: other, bridge: {}}]}}, \
         networks: [{name: net, pod: {}}, {name: other, multus: {networkName: x}}]}",
    );
    let text = text.replace(
        "  template:\n",
        "  template:\n    metadata: {annotations: {a: own}}\n",
    );
    let vmi = vmi(&text, Some(preference));
    let domain = &vmi["spec"]["domain"];
    assert_eq!(
        domain["cpu"]["features"],
        json!([{"name": "vmx", "policy": "require"}, {"name": "x2apic", "policy": "disable"}])
    );
    assert_eq!(domain["machine"]["type"], "pc-q35-9");
    assert_eq!(domain["clock"], json!({"utc": {}}));
    assert_eq!(
        domain["firmware"]["bootloader"],
        json!({"efi": {"secureBoot": false}})
    );
    let devices = &domain["devices"];
    assert_eq!(
        devices["disks"],
        json!([
            {"name": "a", "disk": {"bus": "virtio"}, "dedicatedIOThread": true, "cache": "none"},
            {"name": "b", "cdrom": {"bus": "scsi", "readonly": true, "tray": "closed"}},
            {"name": "c", "disk": {"bus": "sata"}, "cache": "writeback"},
        ])
    );
    assert_eq!(
        devices["interfaces"],
        json!([{"name": "net", "masquerade": {}}, {"name": "other", "bridge": {}}])
    );
    assert_eq!(devices["panicDevices"], json!([{"model": "isa"}]));
    assert_eq!(devices["autoattachGraphicsDevice"], false);
    assert_eq!(devices["video"], json!({"type": "vga"}));
    assert_eq!(vmi["spec"]["subdomain"], "sub");
    let annotations = &vmi["metadata"]["annotations"];
    assert_eq!(
        (&annotations["a"], &annotations["b"]),
        (&json!("own"), &json!("preferred"))
    );
}
