//! Properties of every plan, for generated VMIs.

use domain::domain_spec_to_xml::render;
use domain::libvirt_spec::Disk;
use domain::reconcile::{DeviceChange, LiveDomain, Plan, plan};
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
    dedicated_io_thread: bool,
}

/// The settings of a VMI that decide on IO threads and controllers.
#[derive(Debug, Clone)]
struct Settings {
    tracked: bool,
    io_threads_policy: Option<&'static str>,
    disable_hotplug: bool,
}

fn settings() -> impl Strategy<Value = Settings> {
    let policies = prop_oneof![Just("shared"), Just("auto"), Just("supplementalPool")];
    (
        prop::bool::weighted(0.2),
        prop::option::of(policies),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(tracked, io_threads_policy, disable_hotplug)| Settings {
            tracked,
            io_threads_policy,
            disable_hotplug,
        })
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
        prop::bool::weighted(0.3),
    )
        .prop_map(
            |(phase, (kind, bus), hotplugged, present, block, dedicated_io_thread)| Volume {
                phase,
                bus,
                kind,
                hotplugged,
                present: present || kind != "cdrom",
                block,
                dedicated_io_thread,
            },
        )
}

/// An interface's state, and whether the pod has the interface; `None` if the VMI does not have it.
type Nic = Option<(&'static str, bool)>;

fn nic() -> impl Strategy<Value = Nic> {
    let states = prop_oneof![Just("up"), Just("down"), Just("absent"), Just("")];
    prop::option::of((states, any::<bool>()))
}

fn build_vmi(volumes: &[Option<Volume>], nics: &[Nic], settings: &Settings) -> Vmi {
    let mut vmi = json!({
        "metadata": {"name": "vm1", "namespace": "default", "uid": "1"},
        "spec": {"architecture": "amd64", "networks": [], "volumes": [
            {"name": "root", "persistentVolumeClaim": {"claimName": "root"}}
        ], "domain": {"devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}], "interfaces": []}}},
        "status": {"phase": "Running", "volumeStatus": [{"name": "root", "target": "vda"}], "interfaces": []},
    });
    let domain = &mut vmi["spec"]["domain"];
    domain["resources"] = json!({"requests": {"cpu": "2"}});
    domain["ioThreads"] = json!({"supplementalPoolThreadCount": 3});
    domain["devices"]["disableHotplug"] = json!(settings.disable_hotplug);
    if let Some(policy) = settings.io_threads_policy {
        domain["ioThreadsPolicy"] = json!(policy);
    }
    if settings.tracked {
        vmi["status"]["changedBlockTracking"] = json!({"state": "Enabled"});
    }
    let push = |list: &mut Value, item: Value| list.as_array_mut().unwrap().push(item);
    for (index, volume) in volumes.iter().enumerate() {
        let Some(volume) = volume else { continue };
        let name = format!("vol{index}");
        push(
            &mut vmi["spec"]["domain"]["devices"]["disks"],
            json!({"name": name, volume.kind: {"bus": volume.bus},
                "dedicatedIOThread": volume.dedicated_io_thread}),
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
    (volumes, nics, settings())
        .prop_map(|(volumes, nics, settings)| build_vmi(&volumes, &nics, &settings))
}

proptest! {
    /// A domain that was just converted from a VMI needs no change.
    #[test]
    fn plan_for_the_converted_domain_is_empty(vmi in vmi()) {
        let wanted = converted(&vmi);
        let live = LiveDomain::parse(render(&wanted)).unwrap();
        prop_assert_eq!(plan(&vmi, &wanted, &live), Plan { changes: vec![], held: vec![] });
    }

    /// After the changes are applied, a second plan is empty, for any two VMIs.
    #[test]
    fn plan_after_an_applied_plan_is_empty(before in vmi(), after in vmi()) {
        let mut domain = Simulation::start(&render(&converted(&before)));
        let wanted = converted(&after);
        for change in plan(&after, &wanted, &domain.live()).changes {
            domain.apply(&change);
        }
        let remaining = plan(&after, &wanted, &domain.live()).changes;
        let texts: Vec<_> = remaining.iter().map(ToString::to_string).collect();
        prop_assert!(texts.is_empty(), "{:?}", texts);
    }

    /// libvirt refuses a disk with an IO thread that the running domain lacks, and makes up a controller that the guest
    /// may not know.
    #[test]
    fn attached_disks_refer_only_to_what_the_running_domain_has(before in vmi(), after in vmi()) {
        let mut domain = Simulation::start(&render(&converted(&before)));
        let wanted = converted(&after);
        for change in plan(&after, &wanted, &domain.live()).changes {
            // Panics if the domain has one of the new threads already.
            domain.apply(&change);
            let DeviceChange::AttachDisk(attachment) = &change else { continue };
            let disk = &attachment.disk;
            let threads = io_threads(disk);
            prop_assert!(threads.iter().all(|id| domain.io_threads().contains(id)), "{:?}", attachment);
            prop_assert!(attachment.new_io_threads.iter().all(|id| threads.contains(id)));
            prop_assert!(disk.target.bus != "scsi" || domain.has_scsi_controller(), "{:?}", disk);
        }
    }

    /// The thread of a disk with a dedicated one serves no other disk, whichever of both is attached first.
    #[test]
    fn dedicated_io_threads_are_not_shared(before in vmi(), after in vmi()) {
        let is_dedicated = |name: &str| {
            let disks = &after.spec.domain.devices.disks;
            let disk = disks.iter().find(|disk| disk.name == name);
            disk.is_some_and(|disk| disk.dedicated_io_thread == Some(true))
        };
        let is_pool = |vmi: &Vmi| vmi.spec.domain.io_threads_policy.as_deref() == Some("supplementalPool");
        // All disks of a pool share its threads.
        prop_assume!(!is_pool(&before) && !is_pool(&after));
        let live = LiveDomain::parse(render(&converted(&before))).unwrap();
        let plan = plan(&after, &converted(&after), &live);
        let attached = plan.changes.iter().filter_map(|change| match change {
            DeviceChange::AttachDisk(attachment) => Some(&attachment.disk),
            _ => None,
        });
        let attached: Vec<_> = attached.collect();
        let live_disks = converted(&before).devices.disks;
        for disk in &attached {
            let name = disk.alias.as_ref().map_or("", |alias| alias.name.as_str());
            let Some(id) = io_threads(disk).first().copied() else { continue };
            if !is_dedicated(name) {
                continue;
            }
            let others = live_disks.iter().chain(attached.iter().copied());
            let mut others = others.filter(|other| other.alias != disk.alias || other.target != disk.target);
            prop_assert!(!others.any(|other| io_threads(other).contains(&id)), "{:?}", disk);
        }
    }
}

/// The IO threads that a disk refers to.
fn io_threads(disk: &Disk) -> Vec<u32> {
    let Some(driver) = &disk.driver else {
        return Vec::new();
    };
    let one = driver.io_thread.map(|id| u32::try_from(id).unwrap());
    let pool = driver.io_threads.iter().flat_map(|pool| &pool.io_thread);
    one.into_iter()
        .chain(pool.map(|thread| thread.id))
        .collect()
}
