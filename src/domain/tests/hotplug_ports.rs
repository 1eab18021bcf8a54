//! Ports for hotplug: their number, and that nothing else in the domain changes.

#![allow(clippy::unwrap_used)]

use domain::hotplug_ports::{DefinitionPlan, HotplugPortsError, free_root_ports};
use domain::kubevirt_version::KubeVirtVersion;
use domain_xml::{Document, Element};
use kubevirt_api::vmi::Vmi;
use serde_json::{Value, json};

const SLOT_COUNT_ANNOTATION: &str = "kubevirt.io/pci-interface-slot-count";

/// A VMI with this number of interfaces.
fn vmi(interfaces: usize, annotations: &Value) -> Vmi {
    let interfaces: Vec<_> = (0..interfaces)
        .map(|number| json!({"name": format!("net{number}"), "masquerade": {}}))
        .collect();
    let vmi = json!({
        "metadata": {"name": "vm", "annotations": annotations},
        "spec": {"domain": {"devices": {"interfaces": interfaces}}},
    });
    Vmi::from_json(vmi.to_string().as_bytes()).unwrap()
}

/// A domain with a USB, a SCSI and a serial controller, and this number of virtio disks.
fn domain(memory: &str, disks: usize) -> String {
    let disk = "\n    <disk type='file'><target dev='vda' bus='virtio'/></disk>";
    format!(
        "<domain type='qemu'>\n  <memory {memory}</memory>\n  <os><type machine='pc-q35-9.2'>hvm</type></os>\n  \
         <devices>\n    <controller type='usb' index='0' model='none'/>\n    \
         <controller type='scsi' index='0'/>\n    <controller type='virtio-serial' index='0'/>\n    \
         <controller type='pci' index='0' model='pcie-root'/>{}\n    \
         <disk type='file'><target dev='sda' bus='sata'/></disk>\n    <memballoon model='virtio'/>\n  \
         </devices>\n</domain>",
        disk.repeat(disks)
    )
}

const SMALL_MEMORY: &str = "unit='MiB'>2048";
const LARGE_MEMORY: &str = "unit='b'>2147483649";

/// The number of placeholders in the first definition, and of spare ports in the last one.
fn ports(vmi: &Vmi, hooked: &str) -> (usize, usize) {
    let definition = DefinitionPlan::plan(vmi, hooked.to_owned()).unwrap();
    let first = definition.first();
    let last = definition.second(hooked).unwrap();
    let ports = |xml: &str| xml.matches("pcie-root-port").count();
    (
        first.matches("placeholder-").count(),
        ports(last.as_deref().unwrap_or(first)),
    )
}

#[test]
fn ports_depend_on_memory_devices_and_interfaces() {
    let none = json!({});
    let small = |disks| domain(SMALL_MEMORY, disks);
    // Five devices: three controllers, the balloon, a disk.
    assert_eq!(ports(&vmi(0, &none), &small(1)), (0, 3));
    assert_eq!(ports(&vmi(1, &none), &small(1)), (3, 0));
    assert_eq!(ports(&vmi(3, &none), &small(1)), (1, 2));
    assert_eq!(ports(&vmi(9, &none), &small(1)), (0, 3));
    assert_eq!(ports(&vmi(0, &none), &small(0)), (0, 4));
    assert_eq!(ports(&vmi(1, &none), &domain(LARGE_MEMORY, 1)), (3, 8));
    assert_eq!(ports(&vmi(1, &none), &domain(LARGE_MEMORY, 20)), (3, 3));
    assert_eq!(ports(&vmi(1, &none), &domain(">2097152", 1)), (3, 0));
    assert_eq!(ports(&vmi(1, &none), &domain("unit='G'>3", 1)), (3, 8));
}

#[test]
fn annotations_and_machine_types_change_the_ports() {
    let hooked = domain(SMALL_MEMORY, 1);
    let root = json!({"kubevirt.io/placePCIDevicesOnRootComplex": "true"});
    assert_eq!(ports(&vmi(1, &root), &hooked), (0, 0));
    let slot_count = |slots: &str| json!({ SLOT_COUNT_ANNOTATION: slots });
    assert_eq!(ports(&vmi(1, &slot_count("6")), &hooked), (5, 0));
    assert_eq!(ports(&vmi(0, &slot_count("2")), &hooked), (2, 1));
    assert_eq!(ports(&vmi(3, &slot_count("2")), &hooked), (0, 3));
    assert_eq!(ports(&vmi(3, &slot_count("-1")), &hooked), (0, 3));
    for invalid in ["", "many", "1000000000000"] {
        let error =
            DefinitionPlan::plan(&vmi(1, &slot_count(invalid)), hooked.clone()).unwrap_err();
        assert!(
            matches!(error, HotplugPortsError::Annotation { .. }),
            "{error}"
        );
    }
    let old = hooked.replace("pc-q35-9.2", "pc-i440fx-9.2");
    let definition = DefinitionPlan::plan(&vmi(1, &json!({})), old.clone()).unwrap();
    assert_eq!(definition.first(), old);
    assert!(!definition.has_second());
}

/// arm64's virt machines have ports as q35 has; s390x's channel devices need none.
#[test]
fn machines_of_other_architectures_have_ports_if_they_have_pcie() {
    let of = |architecture: &str, machine: &str| {
        let kind = format!("arch='{architecture}' machine='{machine}'");
        domain(SMALL_MEMORY, 1).replace("machine='pc-q35-9.2'", &kind)
    };
    for (architecture, machine, expected) in [
        ("x86_64", "q35", (3, 0)),
        ("x86_64", "virt", (0, 0)),
        ("aarch64", "virt", (3, 0)),
        ("aarch64", "virt-rhel9.6.0", (3, 0)),
        ("aarch64", "sbsa-ref", (0, 0)),
        ("s390x", "s390-ccw-virtio", (0, 0)),
        ("s390x", "q35", (0, 0)),
    ] {
        let hooked = of(architecture, machine);
        for version in KubeVirtVersion::ALL {
            let vmi = vmi(1, &json!({}));
            let definition = DefinitionPlan::plan_for(version, &vmi, hooked.clone()).unwrap();
            let placeholders = definition.first().matches("placeholder-").count();
            let counted = (placeholders, definition.ports().spare_ports);
            assert_eq!(counted, expected, "{architecture} {machine} {version}");
            let is_defined_once = expected == (0, 0);
            assert_eq!(definition.has_second(), !is_defined_once, "{machine}");
        }
    }
}

#[test]
fn spare_ports_are_added_after_the_last_port_up_to_the_limit() {
    let domain_with_port = |index: &str| {
        let port =
            format!("<controller type='pci' index='{index}' model='pcie-root-port'/><memballoon");
        domain(SMALL_MEMORY, 1).replace("<memballoon", &port)
    };
    let added = |index: &str| {
        let hooked = domain_with_port(index);
        let definition = DefinitionPlan::plan(&vmi(0, &json!({})), hooked.clone()).unwrap();
        assert_eq!(
            definition.first(),
            hooked,
            "libvirt would fill ports that are in the first definition"
        );
        let second = definition.second(&hooked).unwrap().unwrap();
        second.matches("pcie-root-port").count() - 1
    };
    assert_eq!(added("7"), 3);
    assert_eq!(added("30"), 1);
    assert_eq!(added("31"), 0);
    assert_eq!(added("18446744073709551615"), 0);
}

/// The second definition removes only addresses that libvirt assigned, and of those only the ones that KubeVirt
/// removes.
#[test]
fn requested_addresses_survive_the_second_definition() {
    let hooked = "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><devices>\
        <interface type='ethernet'><mac address='02:00:00:00:00:01'/><address type='pci' domain='0x0000' bus='0x05' slot='0x00' function='0x0'/></interface>\
        </devices><qemu:commandline><qemu:arg value='-S'/></qemu:commandline></domain>";
    let definition = DefinitionPlan::plan(&vmi(1, &json!({})), hooked.to_owned()).unwrap();
    assert!(definition.first().contains("qemu:arg value='-S'"));
    let defined = "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\n  <devices>\n    \
        <disk><address type='pci' bus='0x02' slot='0x00'/></disk>\n    \
        <interface type='ethernet'><mac address='02:00:00:00:00:01'/><address type='pci' bus='5' slot='0'/></interface>\n    \
        <interface type='ethernet'><target dev='placeholder-0' managed='no'/><address type='pci' bus='0x06' slot='0x00'/></interface>\n    \
        <vsock><address type='pci' bus='0x07' slot='0x00'/></vsock>\n    \
        <console><address type='virtio-serial' bus='0'/></console>\n  \
        </devices>\n  <qemu:commandline><qemu:arg value='-S'/></qemu:commandline>\n</domain>\n";
    let second = definition.second(defined).unwrap().unwrap();
    let expected = defined
        .replace("    <interface type='ethernet'><target dev='placeholder-0' managed='no'/><address type='pci' bus='0x06' slot='0x00'/></interface>\n", "")
        .replace("<vsock><address type='pci' bus='0x07' slot='0x00'/></vsock>", "<vsock/>");
    let second: String = second
        .lines()
        .filter(|line| !line.contains("pcie-root-port"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(second.replace("<vsock></vsock>", "<vsock/>"), expected);
}

/// KubeVirt's launcher has one definition without placeholders, in which no device moves.
#[test]
fn domain_without_placeholders_keeps_all_addresses() {
    let hooked = domain(SMALL_MEMORY, 1);
    let definition = DefinitionPlan::plan(&vmi(0, &json!({})), hooked.clone()).unwrap();
    let defined = "<domain>\n  <devices>\n    \
        <controller type='pci' index='1' model='pcie-root-port'/>\n    \
        <vsock><address type='pci' bus='0x01' slot='0x00'/></vsock>\n  \
        </devices>\n</domain>\n";
    let second = definition.second(defined).unwrap().unwrap();
    let without_new_ports = second
        .lines()
        .filter(|line| !line.contains("pcie-root-port") || line.contains("index='1'"))
        .map(|line| format!("{line}\n"));
    assert_eq!(without_new_ports.collect::<String>(), defined);
    assert_eq!(free_root_ports(&second).unwrap(), 3);
}

#[test]
fn invalid_domains_do_not_panic_and_invalid_memory_is_an_error() {
    for hooked in [
        "",
        "<domain",
        "<domain><memory>x</memory></domain>",
        "<domain/>",
    ] {
        let _ = DefinitionPlan::plan(&vmi(1, &json!({})), hooked.to_owned())
            .and_then(|definition| definition.second("<domain/>").map(drop));
    }
    let error = DefinitionPlan::plan(&vmi(1, &json!({})), domain("unit='ells'>3", 1)).unwrap_err();
    assert!(error.to_string().contains("ells"), "{error}");
}

/// The devices of a domain.
fn devices(domain: &Document) -> impl Iterator<Item = &Element> {
    domain.root().child("devices").unwrap().children()
}

/// The indexes of the root ports without hotplug in the last definition.
fn ports_without_hotplug(version: KubeVirtVersion, vmi: &Vmi, defined: &str) -> Vec<u32> {
    let plan = DefinitionPlan::plan_for(version, vmi, defined.to_owned()).unwrap();
    let last = plan.second(defined).unwrap();
    let last = Document::parse(last.as_deref().unwrap_or(defined)).unwrap();
    let has_no_hotplug = |device: &&Element| {
        let target = device.child("target");
        target.is_some_and(|target| target.attr("hotplug").as_deref() == Some("off"))
    };
    devices(&last)
        .filter(has_no_hotplug)
        .map(|port| port.attr("index").unwrap().parse().unwrap())
        .collect()
}

/// libvirt's XML of the corpus, and the ports that the code of KubeVirt's main branch means.
#[test]
fn the_ports_of_fixed_devices_have_no_hotplug_from_v1_10_on() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus");
    let read = |name: &str| std::fs::read_to_string(corpus.join(name)).unwrap();
    let expected: std::collections::BTreeMap<String, Vec<u32>> =
        serde_json::from_str(&read("ports-without-hotplug-main.json")).unwrap();
    assert_eq!(expected.len(), 58);
    let vmi = vmi(1, &json!({}));
    for (case, ports) in expected {
        let defined = read(&format!("domain-xml-to-json/{case}.dumpxml.xml"));
        for (version, ports) in [
            (KubeVirtVersion::V1_8, &vec![]),
            (KubeVirtVersion::V1_9, &vec![]),
            (KubeVirtVersion::V1_10, &ports),
        ] {
            assert_eq!(
                &ports_without_hotplug(version, &vmi, &defined),
                ports,
                "{case} in {version}"
            );
        }
    }
}

#[test]
fn ports_of_devices_that_the_launcher_detaches_keep_hotplug() {
    let vmi = Vmi::from_json(
        json!({
            "metadata": {"name": "vm"},
            "spec": {"domain": {}, "volumes": [
                {"name": "root", "persistentVolumeClaim": {"claimName": "root"}},
                {"name": "plugged", "persistentVolumeClaim": {"claimName": "p", "hotpluggable": true}},
                {"name": "data", "dataVolume": {"name": "d", "hotpluggable": true}},
            ]},
        })
        .to_string()
        .as_bytes(),
    )
    .unwrap();
    let port = |index: u32| {
        format!(
            "<controller type='pci' index='{index}' model='pcie-root-port'><target port='0x1{index}'/></controller>"
        )
    };
    let devices = [
        "<disk><target bus='virtio'/><alias name='ua-root'/>",
        "<disk><target bus='virtio'/><alias name='ua-plugged'/>",
        "<disk><target bus='virtio'/><alias name='ua-data'/>",
        "<hostdev type='pci'><alias name='ua-sriov-red'/>",
        "<hostdev type='pci'><alias name='ua-gpu-one'/>",
        "<interface type='ethernet'>",
        "<memory model='virtio-mem'>",
        "<vsock model='virtio'>",
    ];
    let devices: String = devices
        .iter()
        .zip(1..)
        .map(|(device, bus)| {
            let name = device[1..].split(['>', ' ']).next().unwrap();
            format!("{device}<address type='pci' bus='0x0{bus}' slot='0x00'/></{name}>")
        })
        .collect();
    let ports: String = (1..=9).map(port).collect();
    let defined = format!(
        "<domain><os><type machine='pc-q35-10.0'>hvm</type></os><devices>{ports}{devices}</devices></domain>"
    );
    assert_eq!(
        ports_without_hotplug(KubeVirtVersion::V1_10, &vmi, &defined),
        [1, 5, 7]
    );
}

#[test]
fn a_machine_without_pcie_is_defined_once_in_every_version() {
    let hooked = domain(SMALL_MEMORY, 1).replace("pc-q35-9.2", "pc-i440fx-9.2");
    for version in KubeVirtVersion::ALL {
        let plan = DefinitionPlan::plan_for(version, &vmi(1, &json!({})), hooked.clone()).unwrap();
        assert!(!plan.has_second(), "{version}");
    }
}
