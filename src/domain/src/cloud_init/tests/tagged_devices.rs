//! The metadata of tagged devices.

use super::*;
use crate::cloud_init::tagged_devices::metadata;

struct FakeTopology;

impl HostTopology for FakeTopology {
    fn numa_node(&self, pci_address: &str) -> Option<u32> {
        (pci_address == "0000:81:00.0").then_some(1)
    }

    fn node_cpus(&self, _node: u32) -> Vec<u32> {
        vec![4, 5, 6]
    }
}

const DOMAIN: &str = r#"<domain type='kvm'><name>ns_vm</name>
<cputune><vcpupin vcpu='0' cpuset='5'/><vcpupin vcpu='1' cpuset='6'/></cputune>
<devices>
 <interface type='ethernet'><mac address='02:00:00:00:00:01'/><alias name='ua-blue'/>
  <address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></interface>
 <interface type='ethernet'><alias name='ua-plain'/></interface>
 <hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x81' slot='0x00' function='0x0'/></source>
  <alias name='ua-sriov-red'/><address type='pci' domain='0x0000' bus='0x06' slot='0x00' function='0x0'/></hostdev>
 <hostdev mode='subsystem' type='pci'><alias name='ua-gpu-g'/><address type='pci' domain='0x0000' bus='0x07' slot='0x00' function='0x0'/></hostdev>
 <hostdev mode='subsystem' type='usb'><alias name='ua-hostdevice-h'/></hostdev>
</devices></domain>"#;

fn domain() -> DomainSpec {
    crate::domain_spec_from_xml::parse(DOMAIN).unwrap()
}

#[test]
fn tagged_devices_are_listed_with_their_addresses() {
    let devices = json!({
        "interfaces": [{"name": "blue", "tag": "b"}, {"name": "plain"}, {"name": "red", "tag": "r"}],
        "gpus": [{"name": "g", "tag": "graphics"}], "hostDevices": [{"name": "h", "tag": "no pci"}],
    });
    let cpu = json!({"dedicatedCpuPlacement": true});
    let more = json!({"domain": {"devices": devices, "cpu": cpu}});
    let vmi = vmi(json!({"cloudInitConfigDrive": {"userData": "u"}}), &more);
    let listed = metadata(&vmi, &domain(), &FakeTopology).unwrap();
    let expected = json!([
        {"type": "nic", "bus": "pci", "address": "0000:01:00.0", "mac": "02:00:00:00:00:01", "tags": ["b"]},
        {"type": "nic", "bus": "pci", "address": "0000:06:00.0", "alignedCPUs": [0, 1], "tags": ["r"]},
        {"type": "hostdev", "bus": "pci", "address": "0000:07:00.0", "tags": ["graphics"]},
    ]);
    assert_eq!(serde_json::to_value(listed).unwrap(), expected);
}

#[test]
fn no_tags_give_no_device_metadata() {
    assert_eq!(
        metadata(
            &no_cloud(json!({"userData": "u"})),
            &domain(),
            &UnknownTopology
        ),
        None
    );
}
