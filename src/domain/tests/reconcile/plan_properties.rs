//! Properties of every plan, for generated VMIs.

use domain::domain_spec_to_xml::render;
use domain::reconcile::{LiveDomain, plan};
use kubevirt_api::vmi::Vmi;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Simulation, converted};

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

/// An interface's state, and whether the pod has the interface; `None` if the VMI does not have it.
type Nic = Option<(&'static str, bool)>;

fn nic() -> impl Strategy<Value = Nic> {
    let states = prop_oneof![Just("up"), Just("down"), Just("absent"), Just("")];
    prop::option::of((states, any::<bool>()))
}

fn build_vmi(volumes: &[Option<Volume>], nics: &[Nic], tracked: bool) -> Vmi {
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
        .prop_map(|(volumes, nics, tracked)| build_vmi(&volumes, &nics, tracked))
}

proptest! {
    /// A domain that was just converted from a VMI needs no change.
    #[test]
    fn plan_for_the_converted_domain_is_empty(vmi in vmi()) {
        let wanted = converted(&vmi);
        let live = LiveDomain::parse(render(&wanted)).unwrap();
        prop_assert_eq!(plan(&vmi, &wanted, &live), []);
    }

    /// After the changes are applied, a second plan is empty, for any two VMIs.
    #[test]
    fn plan_after_an_applied_plan_is_empty(before in vmi(), after in vmi()) {
        let mut domain = Simulation::start(&render(&converted(&before)));
        let wanted = converted(&after);
        for change in plan(&after, &wanted, &domain.live()) {
            domain.apply(&change);
        }
        let remaining = plan(&after, &wanted, &domain.live());
        let texts: Vec<_> = remaining.iter().map(ToString::to_string).collect();
        prop_assert!(texts.is_empty(), "{:?}", texts);
    }
}
