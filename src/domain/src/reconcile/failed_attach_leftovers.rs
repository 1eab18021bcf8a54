//! Parts of a device that QEMU keeps if libvirt's daemon dies during the attach: the device, its block nodes, its
//! network backend. The restarted daemon does not know them, and every further attach of the device fails. Pure:
//! [`AttachLeftovers`] determines the parts that the launcher must remove from the answers of QEMU's monitor.

use std::collections::BTreeSet;

use domain_xml::Document;
use serde::Deserialize;

use super::live_domain::{LiveDomain, for_each_source};

/// The identifiers of a device's parts in QEMU, for a device with an alias that the launcher chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceParts {
    alias: String,
    is_interface: bool,
    /// The paths of a disk's images.
    files: Vec<String>,
}

impl DeviceParts {
    /// Reads the parts from a device's XML; `None` for a device without an alias, which libvirt chooses then.
    pub fn parse(xml: &str) -> Option<DeviceParts> {
        let document = Document::parse(xml).ok()?;
        let device = document.root();
        let alias = device.child("alias")?.attr("name")?.into_owned();
        let mut files = Vec::new();
        if device.is("disk") {
            for_each_source(device, &mut |source| {
                let paths = ["file", "dev"].map(|name| source.attr(name));
                files.extend(paths.into_iter().flatten().map(|path| path.into_owned()));
            });
        }
        Some(DeviceParts {
            alias,
            is_interface: device.is("interface"),
            files,
        })
    }

    /// The device's alias, which is its id in QEMU.
    pub fn alias(&self) -> &str {
        &self.alias
    }

    /// Whether the device has block nodes in QEMU.
    pub fn has_block_nodes(&self) -> bool {
        !self.files.is_empty()
    }
}

/// A member of QEMU's object tree, as `qom-list` describes it.
#[derive(Debug, Clone, Deserialize)]
pub struct QomMember {
    /// The id of a device, below `/machine/peripheral`.
    pub name: String,
}

/// A block node of QEMU, as `query-named-block-nodes` describes it.
#[derive(Debug, Clone, Deserialize)]
pub struct BlockNode {
    /// The name, such as `libvirt-NUMBER-storage` or `libvirt-NUMBER-format`.
    #[serde(default, rename = "node-name")]
    pub name: String,
    /// The path of the node's image.
    #[serde(default)]
    pub file: String,
}

/// Parts of a device that QEMU may have and libvirt does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachLeftovers {
    /// The id of the device, if QEMU has it.
    pub device: Option<String>,
    /// The id of an interface's network backend. It is not known whether QEMU has it.
    pub netdev: Option<String>,
    /// Names of block nodes, in no particular order.
    pub nodes: Vec<String>,
}

impl AttachLeftovers {
    /// The parts of `device` that libvirt does not know; `None` if libvirt knows the device. `live` must have been read
    /// after QEMU answered.
    pub fn of(
        device: &DeviceParts,
        peripherals: &[QomMember],
        nodes: &[BlockNode],
        live: &LiveDomain,
    ) -> Option<AttachLeftovers> {
        if live.has_alias(&device.alias) {
            return None;
        }
        let has_device = peripherals.iter().any(|member| member.name == device.alias);
        let known_numbers = live.source_indexes();
        let numbers: BTreeSet<&str> = nodes
            .iter()
            .filter(|node| device.files.contains(&node.file))
            .filter_map(|node| node_number(&node.name))
            .filter(|number| !known_numbers.contains(*number))
            .collect();
        let nodes = nodes
            .iter()
            .filter(|node| node_number(&node.name).is_some_and(|number| numbers.contains(number)));
        Some(AttachLeftovers {
            device: has_device.then(|| device.alias.clone()),
            // libvirt's id of an interface's network backend.
            netdev: device.is_interface.then(|| format!("host{}", device.alias)),
            nodes: nodes.map(|node| node.name.clone()).collect(),
        })
    }
}

/// The number in libvirt's name of a block node, which is also the index of the source in the domain's XML.
fn node_number(node: &str) -> Option<&str> {
    let (number, _) = node.strip_prefix("libvirt-")?.split_once('-')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: &str = "<disk type='file' device='disk'><source file='/cbt/one.qcow2'><dataStore type='file'>\
        <format type='raw'/><source file='/hp/one.img'/></dataStore></source><target dev='sda' bus='scsi'/>\
        <alias name='ua-one'/></disk>";

    fn live(devices: &str) -> LiveDomain {
        LiveDomain::parse(format!(
            "<domain id='1'><devices>{devices}</devices></domain>"
        ))
        .unwrap()
    }

    fn peripherals(ids: &[&str]) -> Vec<QomMember> {
        let member = |id: &&str| QomMember {
            name: (*id).to_owned(),
        };
        ids.iter().map(member).collect()
    }

    fn nodes(nodes: &[(&str, &str)]) -> Vec<BlockNode> {
        let node = |(name, file): &(&str, &str)| BlockNode {
            name: (*name).to_owned(),
            file: (*file).to_owned(),
        };
        nodes.iter().map(node).collect()
    }

    #[test]
    fn device_that_libvirt_knows_has_no_leftovers() {
        let device = DeviceParts::parse(DISK).unwrap();
        let live = live(DISK);
        assert_eq!(
            AttachLeftovers::of(&device, &peripherals(&["ua-one"]), &[], &live),
            None
        );
    }

    #[test]
    fn block_nodes_of_the_images_are_leftovers_unless_libvirt_knows_them() {
        let device = DeviceParts::parse(DISK).unwrap();
        assert!(device.has_block_nodes());
        let other = "<disk type='file'><source file='/hp/one.img' index='1'/><alias name='ua-same-image'/></disk>";
        let nodes = nodes(&[
            ("libvirt-1-storage", "/hp/one.img"),
            ("libvirt-7-storage", "/hp/one.img"),
            ("libvirt-7-format", "json:{\"driver\":\"raw\"}"),
            ("libvirt-8-format", "/cbt/one.qcow2"),
            ("libvirt-9-format", "/cbt/two.qcow2"),
            ("mine", "/hp/one.img"),
            ("libvirt-x-format", "/hp/one.img"),
        ]);
        let parts = AttachLeftovers::of(&device, &peripherals(&["ua-one"]), &nodes, &live(other));
        let parts = parts.unwrap();
        assert_eq!(parts.device.as_deref(), Some("ua-one"));
        assert_eq!(parts.netdev, None);
        assert_eq!(
            parts.nodes,
            ["libvirt-7-storage", "libvirt-7-format", "libvirt-8-format"]
        );
    }

    #[test]
    fn network_backend_is_a_leftover_even_if_qemu_has_no_device() {
        let xml = "<interface type='ethernet'><alias name='ua-blue'/></interface>";
        let device = DeviceParts::parse(xml).unwrap();
        let parts =
            AttachLeftovers::of(&device, &peripherals(&["ua-red"]), &[], &live("")).unwrap();
        assert_eq!(
            (parts.device, parts.netdev),
            (None, Some("hostua-blue".into()))
        );
        assert_eq!(DeviceParts::parse("<memory model='virtio-mem'/>"), None);
        assert_eq!(DeviceParts::parse("<disk"), None);
    }
}
