//! Builds VMIs that boot the small guest, as virt-handler sends them: with the defaults of KubeVirt's admission.

mod request_and_options;

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::launcher_user::LauncherUser;

/// A VMI that can be changed, with the options that virt-handler sends with it.
#[derive(Clone, Debug)]
pub struct Vmi {
    value: Value,
    container_disks: Vec<String>,
    plugins: Value,
}

/// A UID that no other VMI of the tests on this machine has.
fn unique_uid() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!(
        "6b766d00-0000-4000-8000-{:06x}{:06x}",
        process::id() & 0xff_ffff,
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

impl Vmi {
    /// A VMI of namespace `default` that boots the small guest by kernel boot, with a serial console and nothing else.
    pub fn new(name: &str, user: LauncherUser) -> Vmi {
        let uid = unique_uid();
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
                            // On a busy machine an emulated timer is late, so that the kernel's check would consider it
                            // broken.
                            "kernelArgs": "console=ttyS0 quiet panic=1 no_timer_check",
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

    /// Adds an empty disk with a capacity like `64Mi`.
    pub fn empty_disk(self, name: &str, capacity: &str) -> Vmi {
        self.volume(name, json!({ "emptyDisk": { "capacity": capacity } }))
    }

    /// Adds a container disk. The test puts its image into the pod with `Guest::install_container_disk` and the
    /// volume's index.
    pub fn container_disk(mut self, name: &str) -> Vmi {
        self.container_disks.push(name.to_owned());
        self.volume(name, json!({ "containerDisk": { "image": "registry.example/disk:1", "imagePullPolicy": "IfNotPresent" } }))
    }

    /// Adds a virtio disk named `name` with this volume.
    pub fn volume(mut self, name: &str, mut source: Value) -> Vmi {
        source["name"] = json!(name);
        push(&mut self.value["spec"]["volumes"], source);
        push(
            &mut self.value["spec"]["domain"]["devices"]["disks"],
            json!({ "name": name, "disk": { "bus": "virtio" } }),
        );
        self
    }

    /// Adds an interface. The first one is in the pod's network, others are in networks of Multus.
    pub fn interface(mut self, interface: Value) -> Vmi {
        let networks = &mut self.value["spec"]["networks"];
        let (kind, source) = match networks.is_array() {
            false => ("pod", json!({})),
            true => ("multus", json!({ "networkName": interface["name"] })),
        };
        push(networks, json!({ "name": interface["name"], kind: source }));
        push(
            &mut self.value["spec"]["domain"]["devices"]["interfaces"],
            interface,
        );
        self
    }

    /// Adds a word to the kernel's command line.
    pub fn kernel_argument(mut self, word: &str) -> Vmi {
        let arguments = &mut self.value["spec"]["domain"]["firmware"]["kernelBoot"]["kernelArgs"];
        *arguments = json!(format!("{} {word}", arguments.as_str().unwrap_or_default()));
        self
    }

    /// Sets the grace period, in seconds.
    pub fn grace_period(mut self, seconds: u32) -> Vmi {
        self.value["spec"]["terminationGracePeriodSeconds"] = json!(seconds);
        self
    }

    /// Sets the list of KubeVirt's Plugins that is sent with the VMI.
    pub fn plugins(mut self, plugins: Value) -> Vmi {
        self.plugins = plugins;
        self
    }

    /// Changes the VMI's JSON.
    pub fn edit(mut self, change: impl FnOnce(&mut Value)) -> Vmi {
        change(&mut self.value);
        self
    }

    /// The VMI as virt-handler sends it.
    pub fn json(&self) -> Vec<u8> {
        self.value.to_string().into_bytes()
    }

    /// The VMI's UID.
    pub fn uid(&self) -> &str {
        self.value["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// The VMI's name.
    pub fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The VMI's namespace.
    pub fn namespace(&self) -> &str {
        self.value["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.value["metadata"]["annotations"][key].as_str()
    }

    /// The VMI's grace period in seconds.
    pub fn grace_period_seconds(&self) -> Option<i64> {
        self.value["spec"]["terminationGracePeriodSeconds"].as_i64()
    }

    /// libvirt's name of its domain.
    pub fn domain(&self) -> String {
        format!("{}_{}", self.namespace(), self.name())
    }
}

/// Appends to an array, which is created if it is missing.
fn push(array: &mut Value, item: Value) {
    match array {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}
