//! Changes that a VMI asks for in a running domain: volumes and interfaces to attach, detach or switch.
//!
//! The rules are KubeVirt's (contract of SyncVirtualMachine on a running domain): disks match by their target,
//! interfaces by their alias. A sync ignores other differences, such as processors or memory.

use std::fmt;

use kubevirt_api::vmi::{self, Vmi};

use crate::spec::{Disk, DomainSpec, Interface};

const HOTPLUG_DISKS: &str = "/var/run/kubevirt/hotplug-disks/";
/// The source in the status of an interface that Multus has attached to the pod.
const MULTUS_STATUS: &str = "multus-status";

/// A change that the VMI asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveChange {
    /// Attach a disk; its alias is the volume's name.
    AttachDisk(String),
    /// Detach a disk.
    DetachDisk(String),
    /// Change or eject the medium of a CD-ROM drive.
    ChangeMedium(String),
    /// Attach an interface.
    AttachInterface(String),
    /// Detach an interface.
    DetachInterface(String),
    /// Set an interface's link up or down.
    SetLink(String),
}

impl fmt::Display for LiveChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LiveChange::AttachDisk(volume) => write!(f, "attach volume {volume}"),
            LiveChange::DetachDisk(volume) => write!(f, "detach volume {volume}"),
            LiveChange::ChangeMedium(volume) => {
                write!(f, "change the medium of CD-ROM drive {volume}")
            }
            LiveChange::AttachInterface(name) => write!(f, "attach interface {name}"),
            LiveChange::DetachInterface(name) => write!(f, "detach interface {name}"),
            LiveChange::SetLink(name) => write!(f, "set the link state of interface {name}"),
        }
    }
}

/// Whether the VMI has volumes or interfaces that can be changed in a running domain. If not, the domain need not be
/// read.
pub fn may_change(vmi: &Vmi) -> bool {
    let devices = &vmi.spec.domain.devices;
    let mut volumes = vmi.status.volume_status.iter();
    let mut interfaces = vmi.status.interfaces.iter();
    volumes.any(|status| status.hotplug_volume.is_some())
        || interfaces.any(|status| status.info_source.contains(MULTUS_STATUS))
        || devices.interfaces.iter().any(|one| !one.state.is_empty())
        || (devices.disks.iter())
            .any(|disk| disk.cdrom.is_some() && vmi.volume(&disk.name).is_none())
}

/// The changes from the `live` domain to the one that the VMI asks for. `wanted` is the domain that the VMI is
/// converted to.
pub fn live_changes(vmi: &Vmi, wanted: &DomainSpec, live: &DomainSpec) -> Vec<LiveChange> {
    let mut changes = disk_changes(&wanted.devices.disks, &live.devices.disks);
    // virt-handler leaves interfaces alone until the VMI runs.
    if vmi.value()["status"]["phase"] == "Running" {
        changes.extend(interface_changes(vmi, &live.devices.interfaces));
    }
    changes
}

fn disk_changes(wanted: &[Disk], live: &[Disk]) -> Vec<LiveChange> {
    let at = |disks: &[Disk], target: &str| {
        let mut disks = disks.iter();
        disks.find(|disk| disk.target.device == target).cloned()
    };
    let mut changes = Vec::new();
    for disk in live.iter().filter(|disk| is_hotpluggable(disk)) {
        if at(wanted, &disk.target.device).is_none() {
            changes.push(LiveChange::DetachDisk(disk_name(disk)));
        }
    }
    for disk in wanted {
        match at(live, &disk.target.device) {
            None if is_hotpluggable(disk) => changes.push(LiveChange::AttachDisk(disk_name(disk))),
            Some(now) if is_other_medium(&now, disk) => {
                changes.push(LiveChange::ChangeMedium(disk_name(disk)));
            }
            _ => {}
        }
    }
    changes
}

fn is_hotpluggable(disk: &Disk) -> bool {
    backend(disk).starts_with(HOTPLUG_DISKS)
        && matches!(disk.target.bus.as_str(), "virtio" | "scsi" | "")
}

fn is_other_medium(now: &Disk, wanted: &Disk) -> bool {
    let (before, after) = (backend(now), backend(wanted));
    let is_changeable = before.is_empty() || before.starts_with(HOTPLUG_DISKS);
    now.device == "cdrom" && is_changeable && before != after
}

/// The path of the disk's data: of the data store if changed blocks are tracked.
fn backend(disk: &Disk) -> &str {
    let data = disk.source.data_store.as_ref();
    let source = data
        .and_then(|store| store.source.as_ref())
        .unwrap_or(&disk.source);
    match source.file.is_empty() {
        true => &source.dev,
        false => &source.file,
    }
}

fn disk_name(disk: &Disk) -> String {
    let alias = disk.alias.as_ref().map(|alias| alias.name.clone());
    alias.unwrap_or_else(|| disk.target.device.clone())
}

fn interface_changes(vmi: &Vmi, live: &[Interface]) -> Vec<LiveChange> {
    let wanted = &vmi.spec.domain.devices.interfaces;
    wanted
        .iter()
        .filter_map(|one| interface_change(vmi, one, live))
        .collect()
}

fn interface_change(vmi: &Vmi, wanted: &vmi::Interface, live: &[Interface]) -> Option<LiveChange> {
    let name = || wanted.name.clone();
    let mut live = live.iter();
    let now = live.find(|one| {
        one.alias
            .as_ref()
            .is_some_and(|alias| alias.name == wanted.name)
    });
    match (now, wanted.state.as_str()) {
        (Some(_), "absent") => Some(LiveChange::DetachInterface(name())),
        (Some(now), state) if is_link_down(now) != (state == "down") => {
            Some(LiveChange::SetLink(name()))
        }
        (None, state) if state != "absent" && wanted.sriov.is_none() && is_in_pod(vmi, wanted) => {
            Some(LiveChange::AttachInterface(name()))
        }
        _ => None,
    }
}

fn is_link_down(interface: &Interface) -> bool {
    let link = interface.link_state.as_ref();
    link.is_some_and(|link| link.state == "down")
}

fn is_in_pod(vmi: &Vmi, interface: &vmi::Interface) -> bool {
    let mut statuses = vmi.status.interfaces.iter();
    statuses
        .any(|status| status.name == interface.name && status.info_source.contains(MULTUS_STATUS))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn vmi(status: Value, interfaces: Value) -> Vmi {
        let vmi = json!({
            "metadata": {"name": "vm1", "namespace": "default", "uid": "1"},
            "spec": {"domain": {"devices": {"interfaces": interfaces}}},
            "status": status,
        });
        Vmi::from_json(vmi.to_string().as_bytes()).unwrap()
    }

    fn live(devices: &str) -> DomainSpec {
        crate::parse::parse(&format!("<domain><devices>{devices}</devices></domain>")).unwrap()
    }

    const ROOT: &str = "<disk type='file' device='disk'><source file='/root.img'/>\
        <target dev='vda' bus='virtio'/></disk>";
    const DATA: &str = "<disk type='file' device='disk'>\
        <source file='/var/run/kubevirt/hotplug-disks/data.img'/>\
        <target dev='sda' bus='scsi'/><alias name='ua-data'/></disk>";

    #[test]
    fn only_hotplugged_disks_are_attached_and_detached() {
        let vmi = vmi(json!({"phase": "Running"}), json!([]));
        let (root, both) = (live(ROOT), live(&format!("{ROOT}{DATA}")));
        let changes = |wanted, live| live_changes(&vmi, wanted, live);
        assert_eq!(
            changes(&both, &root),
            [LiveChange::AttachDisk("data".into())]
        );
        assert_eq!(
            changes(&root, &both),
            [LiveChange::DetachDisk("data".into())]
        );
        assert_eq!(changes(&both, &both), []);
        assert_eq!(
            changes(&live(""), &root),
            [],
            "a permanent disk is not detached"
        );
    }

    #[test]
    fn only_hotplugged_media_are_changed() {
        let vmi = vmi(json!({"phase": "Running"}), json!([]));
        let drive = |source: &str| {
            live(&format!(
                "<disk type='file' device='cdrom'>{source}<target dev='sda' bus='sata'/>\
                 <alias name='ua-cd'/></disk>"
            ))
        };
        let hotplugged = drive("<source file='/var/run/kubevirt/hotplug-disks/cd.img'/>");
        let (empty, permanent) = (drive(""), drive("<source file='/cd.iso'/>"));
        let change = [LiveChange::ChangeMedium("cd".into())];
        assert_eq!(live_changes(&vmi, &hotplugged, &empty), change);
        assert_eq!(live_changes(&vmi, &empty, &hotplugged), change);
        assert_eq!(live_changes(&vmi, &empty, &permanent), []);
        assert_eq!(live_changes(&vmi, &empty, &empty), []);
    }

    #[test]
    fn interfaces_are_attached_once_the_pod_has_them_and_the_vmi_runs() {
        let in_pod = json!([{"name": "blue", "infoSource": "domain, multus-status"}]);
        let blue = json!([{"name": "blue", "bridge": {}}]);
        let changes = |phase: &str, interfaces: Value, of: &str| {
            let vmi = vmi(
                json!({"phase": phase, "interfaces": in_pod.clone()}),
                interfaces,
            );
            live_changes(&vmi, &live(of), &live(of))
        };
        let attach = [LiveChange::AttachInterface("blue".into())];
        assert_eq!(changes("Running", blue.clone(), ""), attach);
        assert_eq!(changes("Scheduled", blue.clone(), ""), []);
        let there = "<interface type='ethernet'><alias name='ua-blue'/></interface>";
        assert_eq!(changes("Running", blue, there), []);
        let absent = json!([{"name": "blue", "bridge": {}, "state": "absent"}]);
        let detach = [LiveChange::DetachInterface("blue".into())];
        assert_eq!(changes("Running", absent.clone(), there), detach);
        assert_eq!(changes("Running", absent, ""), []);
        let down = json!([{"name": "blue", "bridge": {}, "state": "down"}]);
        let set = [LiveChange::SetLink("blue".into())];
        assert_eq!(changes("Running", down, there), set);
    }

    #[test]
    fn vmi_without_hotplugged_devices_cannot_change() {
        let plain = json!([{"name": "default", "masquerade": {}}]);
        assert!(!may_change(&vmi(json!({}), plain.clone())));
        let hotplugged = json!({"volumeStatus": [{"name": "data", "hotplugVolume": {}}]});
        assert!(may_change(&vmi(hotplugged, plain)));
    }
}
