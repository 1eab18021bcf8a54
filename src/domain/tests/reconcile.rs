//! Changes of a running domain: the sequence that the reference launcher was recorded with, and properties of every plan.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use domain::convert::convert;
use domain::host_facts::HostFacts;
use domain::libvirt_spec::DomainSpec;
use domain::reconcile::{DeviceChange, LiveDomain, device_xml, plan};
use domain::render_domain_xml::render;
use domain_xml::{Document, Element};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;
use proptest::prelude::*;
use serde_json::{Value, json};

fn corpus(file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/launcher-calls");
    read(&path.join(file))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn recorded(name: &str) -> Vmi {
    Vmi::from_json(corpus(&format!("{name}.vmi.json")).as_bytes()).unwrap()
}

fn wanted(vmi: &Vmi) -> DomainSpec {
    let host = HostFacts {
        allow_emulation: true,
        ..HostFacts::default()
    };
    convert(vmi, &Options::default(), &host).unwrap()
}

/// libvirt's side: a domain whose devices are attached, detached and updated.
struct Simulation(Document);

impl Simulation {
    fn of(xml: &str) -> Self {
        Simulation(Document::parse(xml).unwrap())
    }

    fn live(&self) -> LiveDomain {
        LiveDomain::parse(self.0.render()).unwrap()
    }

    fn apply(&mut self, change: &DeviceChange) {
        match change {
            DeviceChange::AttachDisk(disk) => self.attach(&device_xml("disk", &**disk)),
            DeviceChange::AttachInterface(interface) => {
                self.attach(&device_xml("interface", &**interface));
            }
            DeviceChange::DetachDisk(device) | DeviceChange::DetachInterface(device) => {
                assert_eq!(self.detach(&device.xml), 1, "{}", device.xml);
            }
            DeviceChange::ChangeMedium(change) => self.update(&change.xml),
            DeviceChange::SetLink(device) => self.update(&device.xml),
        }
    }

    fn devices(&mut self) -> &mut Element {
        self.0.root_mut().ensure_child("devices")
    }

    fn attach(&mut self, xml: &str) {
        let device = Document::parse(xml).unwrap().root().clone();
        self.devices().append(device);
    }

    fn detach(&mut self, xml: &str) -> usize {
        self.devices()
            .remove_children(|device| device.render() == xml)
    }

    fn update(&mut self, xml: &str) {
        let updated = Document::parse(xml).unwrap().root().clone();
        let id = identity(&updated);
        let removed = self
            .devices()
            .remove_children(|device| identity(device) == id);
        assert_eq!(removed, 1, "{xml}");
        self.devices().append(updated);
    }
}

/// How libvirt finds a device that is updated: a disk by its target, an interface by its alias.
fn identity(device: &Element) -> Option<String> {
    let (child, attribute) = match device.name() {
        "disk" => ("target", "dev"),
        "interface" => ("alias", "name"),
        _ => return None,
    };
    let value = device.child(child)?.attr(attribute)?;
    Some(format!("{} {value}", device.name()))
}

#[test]
fn recorded_sequence_gives_the_changes_of_the_reference() {
    let mut domain = Simulation::of(&render(&wanted(&recorded("hp0"))));
    let steps: [(&str, &[&str]); 8] = [
        ("hp0", &[]),
        ("hp1-attached", &[]),
        ("hp1-mounted", &["attaching volume hp1"]),
        ("hp1-ready", &[]),
        ("hp2-mounted", &["attaching volume hp2"]),
        ("hp2-mounted", &[]),
        ("hp0", &["detaching volume hp1", "detaching volume hp2"]),
        ("hp0", &[]),
    ];
    for (name, expected) in steps {
        let vmi = recorded(name);
        let changes = plan(&vmi, &wanted(&vmi), &domain.live());
        let texts: Vec<_> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{name}");
        changes.iter().for_each(|change| domain.apply(change));
    }
}

#[test]
fn attached_disks_are_those_of_the_reference() {
    let reference: Value = serde_json::from_str(&corpus("attached-disks.json")).unwrap();
    let vmi = recorded("hp2-mounted");
    let live = LiveDomain::parse(render(&wanted(&recorded("hp0")))).unwrap();
    let changes = plan(&vmi, &wanted(&vmi), &live);
    assert_eq!(changes.len(), 2);
    for change in changes {
        let DeviceChange::AttachDisk(disk) = &change else {
            panic!("{change}");
        };
        let mut expected = reference[change.name()].clone();
        // Chosen when the disk is attached, and added by libvirt.
        expected["Driver"]["Cache"] = json!("");
        expected["BackingStore"] = Value::Null;
        match expected["Target"]["Bus"].as_str() {
            Some("scsi") => expected["Address"]["Target"] = json!(""),
            _ => expected["Address"] = Value::Null,
        }
        assert_eq!(
            serde_json::to_value(disk).unwrap(),
            without_nulls(&expected)
        );
    }
}

/// A null and an absent field decode the same.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect(),
        other => other.clone(),
    }
}

#[derive(Debug, Clone)]
struct Volume {
    phase: &'static str,
    bus: &'static str,
    kind: &'static str,
    hotplugged: bool,
    present: bool,
    block: bool,
}

fn volume() -> impl Strategy<Value = Volume> {
    let phases = prop_oneof![
        Just("MountedToPod"),
        Just("Ready"),
        Just("AttachedToNode"),
        Just("Detaching")
    ];
    let shapes = prop_oneof![
        4 => Just(("disk", "virtio")),
        4 => Just(("disk", "scsi")),
        1 => Just(("disk", "sata")),
        2 => Just(("cdrom", "sata")),
        1 => Just(("cdrom", "scsi")),
    ];
    (
        phases,
        shapes,
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.8),
        any::<bool>(),
    )
        .prop_map(|(phase, (kind, bus), hotplugged, present, block)| Volume {
            phase,
            bus,
            kind,
            hotplugged,
            present: present || kind != "cdrom",
            block,
        })
}

/// An interface's state and whether the pod has it; `None` is not in the VMI.
type Nic = Option<(&'static str, bool)>;

fn nic() -> impl Strategy<Value = Nic> {
    let states = prop_oneof![Just("up"), Just("down"), Just("absent"), Just("")];
    prop::option::of((states, any::<bool>()))
}

fn generated(volumes: &[Option<Volume>], nics: &[Nic], tracked: bool) -> Vmi {
    let mut vmi = json!({
        "metadata": {"name": "vm1", "namespace": "default", "uid": "1"},
        "spec": {"architecture": "amd64", "networks": [], "volumes": [
            {"name": "root", "persistentVolumeClaim": {"claimName": "root"}}
        ], "domain": {"devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}], "interfaces": []}}},
        "status": {"phase": "Running", "volumeStatus": [{"name": "root", "target": "vda"}], "interfaces": []},
    });
    if tracked {
        vmi["status"]["changedBlockTracking"] = json!({"state": "Enabled"});
    }
    let push = |list: &mut Value, item: Value| list.as_array_mut().unwrap().push(item);
    for (index, volume) in volumes.iter().enumerate() {
        let Some(volume) = volume else { continue };
        let name = format!("vol{index}");
        push(
            &mut vmi["spec"]["domain"]["devices"]["disks"],
            json!({"name": name, volume.kind: {"bus": volume.bus}}),
        );
        if !volume.present {
            continue;
        }
        push(
            &mut vmi["spec"]["volumes"],
            json!({"name": name, "persistentVolumeClaim": {"claimName": name}}),
        );
        let mut status = json!({"name": name, "phase": volume.phase, "target": target(index, volume.bus),
            "persistentVolumeClaimInfo": {"volumeMode": if volume.block { "Block" } else { "Filesystem" }}});
        if volume.hotplugged {
            status["hotplugVolume"] = json!({"attachPodName": "pod"});
        }
        push(&mut vmi["status"]["volumeStatus"], status);
    }
    for (index, nic) in nics.iter().enumerate() {
        let Some((state, in_pod)) = nic else { continue };
        let name = format!("nic{index}");
        push(
            &mut vmi["spec"]["networks"],
            json!({"name": name, "multus": {"networkName": name}}),
        );
        push(
            &mut vmi["spec"]["domain"]["devices"]["interfaces"],
            json!({"name": name, "bridge": {}, "state": state}),
        );
        if *in_pod {
            push(
                &mut vmi["status"]["interfaces"],
                json!({"name": name, "infoSource": "multus-status"}),
            );
        }
    }
    Vmi::from_json(vmi.to_string().as_bytes()).unwrap()
}

fn target(index: usize, bus: &str) -> String {
    let letter = char::from(b'b' + u8::try_from(index).unwrap());
    let prefix = if bus == "virtio" { "vd" } else { "sd" };
    format!("{prefix}{letter}")
}

fn vmi() -> impl Strategy<Value = Vmi> {
    let volumes = prop::collection::vec(prop::option::of(volume()), 4);
    let nics = prop::collection::vec(nic(), 3);
    (volumes, nics, prop::bool::weighted(0.2))
        .prop_map(|(volumes, nics, tracked)| generated(&volumes, &nics, tracked))
}

proptest! {
    /// A domain that was just defined from a VMI needs no change, but for interfaces that are attached later.
    #[test]
    fn plan_of_equal_disks_is_empty(vmi in vmi()) {
        let wanted = wanted(&vmi);
        let live = LiveDomain::parse(render(&wanted)).unwrap();
        prop_assert_eq!(plan(&vmi, &wanted, &live), []);
    }

    /// Whatever the VM was started from: the changes lead to what the VMI asks for, and nothing is left to do.
    #[test]
    fn applied_plan_leaves_nothing_to_do(before in vmi(), after in vmi()) {
        let mut domain = Simulation::of(&render(&wanted(&before)));
        let wanted = wanted(&after);
        for change in plan(&after, &wanted, &domain.live()) {
            domain.apply(&change);
        }
        let left = plan(&after, &wanted, &domain.live());
        let texts: Vec<_> = left.iter().map(ToString::to_string).collect();
        prop_assert!(texts.is_empty(), "{:?}", texts);
    }
}
