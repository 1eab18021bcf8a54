//! VMIs that boot the small guest, as virt-handler sends them: admission's defaults applied.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use proto::cmd::v1::{ClusterConfig, DiskInfo, SmBios, VirtualMachineOptions};
use serde_json::{Value, json};

use crate::pod::User;

/// A VMI in the making.
#[derive(Clone, Debug)]
pub struct Vmi {
    value: Value,
    container_disks: Vec<String>,
    taps: Vec<String>,
    plugins: Value,
}

/// An identifier that no other VMI of this machine's tests has.
fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!(
        "6b766d00-0000-4000-8000-{:06x}{:06x}",
        process::id() & 0xff_ffff,
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

impl Vmi {
    /// A VMI of namespace `default` that boots the small guest by kernel boot, with a serial console and nothing else.
    pub fn new(name: &str, user: User) -> Vmi {
        let uid = unique();
        let value = json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {
                "name": name, "namespace": "default", "uid": uid,
                "annotations": { "kubevirt.io/pci-topology-version": "v3" },
            },
            "spec": {
                "architecture": "amd64",
                "domain": {
                    "cpu": { "cores": 1, "sockets": 1, "threads": 1, "maxSockets": 4, "model": "host-model" },
                    "devices": { "autoattachPodInterface": false },
                    "features": { "acpi": { "enabled": true } },
                    "firmware": {
                        "uuid": uid,
                        "kernelBoot": {
                            "kernelArgs": "console=ttyS0 quiet panic=1",
                            "container": {
                                "image": "registry.example/guest:1",
                                "kernelPath": "/boot/vmlinuz", "initrdPath": "/boot/initrd",
                            },
                        },
                    },
                    "machine": { "type": "q35" },
                    "memory": { "guest": "192Mi" },
                    "resources": { "requests": { "memory": "192Mi" } },
                },
                "evictionStrategy": "None",
                "terminationGracePeriodSeconds": 5,
                "volumes": [],
            },
            "status": {
                "currentCPUTopology": { "cores": 1, "sockets": 1, "threads": 1 },
                "guestOSInfo": {},
                "memory": { "guestAtBoot": "192Mi", "guestCurrent": "192Mi", "guestRequested": "192Mi" },
                "runtimeUser": user.id(),
            },
        });
        Vmi {
            value,
            container_disks: Vec::new(),
            taps: Vec::new(),
            plugins: Value::Null,
        }
    }

    /// Sets an annotation.
    pub fn annotate(mut self, key: &str, text: &str) -> Vmi {
        self.value["metadata"]["annotations"][key] = json!(text);
        self
    }

    /// Adds a NoCloud volume.
    pub fn cloud_init(self, user_data: &str) -> Vmi {
        self.volume(
            "cloudinit",
            json!({ "cloudInitNoCloud": { "userData": user_data } }),
        )
    }

    /// Adds a ConfigDrive volume.
    pub fn config_drive(self, user_data: &str) -> Vmi {
        self.volume(
            "configdrive",
            json!({ "cloudInitConfigDrive": { "userData": user_data } }),
        )
    }

    /// Adds an empty disk of `capacity` (`64Mi`).
    pub fn empty_disk(self, name: &str, capacity: &str) -> Vmi {
        self.volume(name, json!({ "emptyDisk": { "capacity": capacity } }))
    }

    /// Adds a container disk; its image must be in the pod (`Guest::install_container_disk`) under the volume's index.
    pub fn container_disk(mut self, name: &str) -> Vmi {
        self.container_disks.push(name.to_owned());
        self.volume(name, json!({ "containerDisk": { "image": "registry.example/disk:1", "imagePullPolicy": "IfNotPresent" } }))
    }

    /// Adds a virtio disk named `name` and the volume behind it.
    pub fn volume(mut self, name: &str, mut source: Value) -> Vmi {
        source["name"] = json!(name);
        push(&mut self.value["spec"]["volumes"], source);
        push(
            &mut self.value["spec"]["domain"]["devices"]["disks"],
            json!({ "name": name, "disk": { "bus": "virtio" } }),
        );
        self
    }

    /// Adds an interface of this name that a network binding plugin attaches by a tap device.
    pub fn tap(mut self, name: &str, mac: &str) -> Vmi {
        self.taps.push(name.to_owned());
        let (kind, source) = match self.taps.len() {
            1 => ("pod", json!({})),
            _ => ("multus", json!({ "networkName": name })),
        };
        push(
            &mut self.value["spec"]["networks"],
            json!({ "name": name, kind: source }),
        );
        push(
            &mut self.value["spec"]["domain"]["devices"]["interfaces"],
            json!({ "name": name, "macAddress": mac, "binding": { "name": "plugged" } }),
        );
        self
    }

    /// Sets the grace period, in seconds.
    pub fn grace_period(mut self, seconds: u32) -> Vmi {
        self.value["spec"]["terminationGracePeriodSeconds"] = json!(seconds);
        self
    }

    /// Sets the list of KubeVirt's Plugins that goes along with it.
    pub fn plugins(mut self, plugins: Value) -> Vmi {
        self.plugins = plugins;
        self
    }

    /// Any other change.
    pub fn edit(mut self, change: impl FnOnce(&mut Value)) -> Vmi {
        change(&mut self.value);
        self
    }

    /// The VMI as virt-handler sends it.
    pub fn json(&self) -> Vec<u8> {
        self.value.to_string().into_bytes()
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        self.value["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// libvirt's name of its domain.
    pub fn domain(&self) -> String {
        format!("default_{}", self.name())
    }

    /// The options that virt-handler would send with it.
    pub fn options(&self) -> VirtualMachineOptions {
        VirtualMachineOptions {
            virtual_machine_sm_bios: Some(SmBios {
                manufacturer: "KubeVirt".into(),
                product: "None".into(),
                family: "KubeVirt".into(),
                ..SmBios::default()
            }),
            mem_balloon_stats_period: 10,
            disks_info: self
                .container_disks
                .iter()
                .map(|name| (name.clone(), container_disk_info()))
                .collect(),
            interface_domain_attachment: self
                .taps
                .iter()
                .map(|name| (name.clone(), "tap".to_owned()))
                .collect(),
            cluster_config: Some(ClusterConfig {
                bochs_display_for_efi_guests: true,
                ..ClusterConfig::default()
            }),
            plugins_json: match &self.plugins {
                Value::Null => Vec::new(),
                plugins => plugins.to_string().into_bytes(),
            },
            ..VirtualMachineOptions::default()
        }
    }
}

fn container_disk_info() -> DiskInfo {
    DiskInfo {
        format: "qcow2".into(),
        virtual_size: 16 << 20,
        actual_size: 384 << 10,
        ..DiskInfo::default()
    }
}

/// Appends to an array that may not be there yet.
fn push(array: &mut Value, item: Value) {
    match array {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}
