//! Changes of a running domain: the sequence in a recording of KubeVirt's launcher, and properties of every plan.

#![allow(clippy::unwrap_used)]

mod plan_properties;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use domain::convert::convert;
use domain::domain_spec_to_xml::render;
use domain::host_facts::HostFacts;
use domain::libvirt_spec::DomainSpec;
use domain::reconcile::{DeviceChange, DiskAttachment, LiveDomain, device_xml, plan};
use domain_xml::{Document, Element};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;
use serde_json::{Value, json};

fn corpus(file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/launcher-calls");
    read(&path.join(file))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn recorded_vmi(name: &str) -> Vmi {
    Vmi::from_json(corpus(&format!("{name}.vmi.json")).as_bytes()).unwrap()
}

fn converted(vmi: &Vmi) -> DomainSpec {
    let host = HostFacts {
        allow_emulation: true,
        ..HostFacts::default()
    };
    convert(vmi, &Options::default(), &host).unwrap()
}

/// Simulates libvirt: a domain whose devices are attached, detached and updated.
struct Simulation(Document);

impl Simulation {
    fn start(xml: &str) -> Self {
        Simulation(Document::parse(xml).unwrap())
    }

    fn live(&self) -> LiveDomain {
        LiveDomain::parse(self.0.render()).unwrap()
    }

    fn apply(&mut self, change: &DeviceChange) {
        match change {
            DeviceChange::AttachDisk(attachment) => self.attach_disk(attachment),
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

    /// Adds the disk's IO threads, and attaches the disk.
    fn attach_disk(&mut self, attachment: &DiskAttachment) {
        let mut ids = self.io_threads();
        for id in &attachment.new_io_threads {
            assert!(ids.insert(*id), "libvirt refuses to add thread {id} twice");
        }
        let root = self.0.root_mut();
        root.remove_child("iothreadids");
        root.ensure_child("iothreads")
            .set_text(ids.len().to_string());
        let threads = root.ensure_child("iothreadids");
        for id in ids {
            threads.append(Element::new("iothread").with_attr("id", id.to_string()));
        }
        self.attach(&device_xml("disk", &attachment.disk));
    }

    /// The ids of the IO threads: those listed, or all from 1.
    fn io_threads(&self) -> BTreeSet<u32> {
        let root = self.0.root();
        match root.child("iothreadids") {
            Some(listed) => listed
                .children()
                .map(|thread| thread.attr("id").unwrap().parse().unwrap())
                .collect(),
            None => {
                let count = root.child("iothreads").map(Element::text);
                (1..=count.map_or(0, |count| count.parse().unwrap())).collect()
            }
        }
    }

    fn has_scsi_controller(&self) -> bool {
        let devices = self.0.root().child("devices").unwrap();
        devices
            .children_named("controller")
            .any(|controller| controller.attr("type").as_deref() == Some("scsi"))
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

/// The key by which libvirt finds a device to update: a disk's target, or an interface's alias.
fn identity(device: &Element) -> Option<String> {
    let (child, attribute) = match device.tag_name() {
        "disk" => ("target", "dev"),
        "interface" => ("alias", "name"),
        _ => return None,
    };
    let value = device.child(child)?.attr(attribute)?;
    Some(format!("{} {value}", device.tag_name()))
}

#[test]
fn recorded_sequence_gives_the_changes_of_kubevirts_launcher() {
    let mut domain = Simulation::start(&render(&converted(&recorded_vmi("hp0"))));
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
        let vmi = recorded_vmi(name);
        let changes = plan(&vmi, &converted(&vmi), &domain.live()).changes;
        let texts: Vec<_> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{name}");
        changes.iter().for_each(|change| domain.apply(change));
    }
}

/// On the root complex the conversion numbers the slots by the devices of the VMI. Adding one would give it the slot of
/// a device that runs.
#[test]
fn attached_devices_have_only_the_addresses_that_the_vmi_asks_for() {
    let vmi = |disks: Value, interfaces: Value| {
        let claim =
            |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        let vmi = json!({
            "metadata": {"name": "vm1", "namespace": "default", "uid": "1",
                "annotations": {"kubevirt.io/placePCIDevicesOnRootComplex": "true"}},
            "spec": {"architecture": "amd64", "volumes": [claim("root"), claim("data")],
                "networks": [{"name": "blue", "multus": {"networkName": "blue"}}],
                "domain": {"devices": {"disks": disks, "interfaces": interfaces}}},
            "status": {"phase": "Running", "interfaces": [{"name": "blue", "infoSource": "multus-status"}],
                "volumeStatus": [{"name": "root", "target": "vda"},
                    {"name": "data", "target": "vdb", "phase": "Ready", "hotplugVolume": {"attachPodName": "hp"}}]},
        });
        Vmi::from_json(vmi.to_string().as_bytes()).unwrap()
    };
    let root = || json!({"name": "root", "disk": {"bus": "virtio"}});
    let live = render(&converted(&vmi(json!([root()]), json!([]))));
    let live = LiveDomain::parse(live).unwrap();
    let addresses = |requested: &str| {
        let data = json!({"name": "data", "disk": {"bus": "virtio", "pciAddress": requested}});
        let blue = json!({"name": "blue", "bridge": {}, "pciAddress": requested});
        let vmi = vmi(json!([root(), data]), json!([blue]));
        let changes = plan(&vmi, &converted(&vmi), &live).changes.into_iter();
        let addresses = changes.map(|change| match change {
            DeviceChange::AttachDisk(attachment) => attachment.disk.address,
            DeviceChange::AttachInterface(interface) => interface.address,
            other => panic!("{other}"),
        });
        let buses = addresses.map(|address| address.map(|address| address.bus));
        buses.collect::<Vec<_>>()
    };
    assert_eq!(addresses(""), [None, None]);
    let requested = Some("0x81".to_owned());
    assert_eq!(addresses("0000:81:00.0"), [requested.clone(), requested]);
}

#[test]
fn attached_disks_equal_those_of_kubevirts_launcher() {
    let reference: Value = serde_json::from_str(&corpus("attached-disks.json")).unwrap();
    let vmi = recorded_vmi("hp2-mounted");
    let live = LiveDomain::parse(render(&converted(&recorded_vmi("hp0")))).unwrap();
    let changes = plan(&vmi, &converted(&vmi), &live).changes;
    assert_eq!(changes.len(), 2);
    for change in changes {
        let DeviceChange::AttachDisk(attachment) = &change else {
            panic!("{change}");
        };
        let mut expected = reference[change.name()].clone();
        // The cache mode is chosen when the disk is attached, and libvirt adds the backing store.
        expected["Driver"]["Cache"] = json!("");
        expected["BackingStore"] = Value::Null;
        match expected["Target"]["Bus"].as_str() {
            Some("scsi") => expected["Address"]["Target"] = json!(""),
            _ => expected["Address"] = Value::Null,
        }
        assert_eq!(
            serde_json::to_value(&attachment.disk).unwrap(),
            without_nulls(&expected)
        );
    }
}

/// The value without nulls, which Go decodes like absent fields.
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
