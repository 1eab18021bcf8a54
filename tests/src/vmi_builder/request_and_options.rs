//! The request with a VMI, and the options that virt-handler sends with it.

use std::collections::HashMap;

use proto::cmd::v1::{ClusterConfig, DiskInfo, SmBios, VirtualMachineOptions, VmiRequest};
use serde_json::Value;

use super::Vmi;

impl Vmi {
    /// The request of the commands that take a VMI.
    pub fn request(&self) -> VmiRequest {
        VmiRequest {
            vmi: Some(proto::cmd::v1::Vmi {
                vmi_json: self.json(),
            }),
            options: Some(self.options()),
        }
    }

    /// The options that virt-handler sends with the VMI.
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
            cluster_config: Some(ClusterConfig {
                bochs_display_for_efi_guests: true,
                ..ClusterConfig::default()
            }),
            interface_domain_attachment: self.interface_attachments(),
            plugins_json: match &self.plugins {
                Value::Null => Vec::new(),
                plugins => plugins.to_string().into_bytes(),
            },
            ..VirtualMachineOptions::default()
        }
    }

    /// The domain attachment of each interface that has a tap device in the pod, including those of binding plugins.
    fn interface_attachments(&self) -> HashMap<String, String> {
        let interfaces = self.value["spec"]["domain"]["devices"]["interfaces"].as_array();
        let has_tap = |interface: &&Value| {
            let bindings = ["bridge", "masquerade", "binding"];
            bindings.iter().any(|name| interface.get(name).is_some())
        };
        let taps = interfaces.into_iter().flatten().filter(has_tap);
        taps.filter_map(|interface| {
            Some((interface["name"].as_str()?.to_owned(), "tap".to_owned()))
        })
        .collect()
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
