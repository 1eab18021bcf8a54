//! SR-IOV interfaces to attach to a running domain, as host devices.

use kubevirt_api::vmi::Vmi;

use super::device_change::LiveDevice;
use super::live_domain::{LiveDomain, alias_of, device_xml, is_named};
use super::pci_addresses;
use crate::libvirt_spec::{Alias, DomainSpec, HostDevice, SRIOV_ALIAS};

/// A host device to attach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDeviceAttachment {
    /// The name of the VMI's interface.
    pub interface: String,
    /// The device's XML.
    pub xml: String,
}

/// The SR-IOV interfaces of the `wanted` domain that the running domain does not have. Interfaces of resource claims
/// are left out, because they are not hotplugged.
pub fn sriov_attachments(
    vmi: &Vmi,
    wanted: &DomainSpec,
    live: &LiveDomain,
) -> Vec<HostDeviceAttachment> {
    let devices = live.host_devices();
    let missing = wanted.devices.host_devices.iter().filter_map(|device| {
        let alias = device.alias.as_ref()?;
        let interface = alias.name.strip_prefix(SRIOV_ALIAS)?;
        let is_live = devices
            .iter()
            .any(|live| is_named(live.spec.alias.as_ref(), &alias.name));
        (!is_live && !is_claimed(vmi, interface)).then(|| attachment(vmi, interface, device))
    });
    missing.collect()
}

/// The SR-IOV interfaces of a domain. Only their aliases are parsed.
pub fn sriov_interfaces(domain: &LiveDomain) -> Vec<LiveDevice> {
    let devices = domain.elements("hostdev").filter_map(|element| {
        let alias = alias_of(element);
        let name = Alias::name_in(&alias).strip_prefix(SRIOV_ALIAS)?.to_owned();
        Some(LiveDevice {
            name,
            xml: element.render(),
            alias,
            overlay: None,
        })
    });
    devices.collect()
}

fn attachment(vmi: &Vmi, interface: &str, device: &HostDevice) -> HostDeviceAttachment {
    let mut device = device.clone();
    let requested = pci_addresses::requested_by_interface(vmi, interface);
    pci_addresses::keep_requested(&mut device.address, requested);
    HostDeviceAttachment {
        interface: interface.to_owned(),
        xml: device_xml("hostdev", &device),
    }
}

fn is_claimed(vmi: &Vmi, interface: &str) -> bool {
    let mut networks = vmi.spec.networks.iter();
    networks.any(|network| network.name == interface && network.resource_claim.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hostdev(alias: &str) -> String {
        format!(
            "<hostdev type='pci' managed='no' mode='subsystem'><source>\
             <address type='pci' domain='0x0000' bus='0x81' slot='0x01' function='0x2'/></source>\
             <alias name='ua-{alias}'/></hostdev>"
        )
    }

    fn domain(devices: &[&str]) -> String {
        let devices: String = devices.iter().map(|alias| hostdev(alias)).collect();
        format!("<domain id='1'><devices>{devices}</devices></domain>")
    }

    #[test]
    fn only_host_devices_with_an_sriov_alias_are_sriov_interfaces() {
        let xml = "<domain><devices><hostdev mode='subsystem'><alias name='ua-sriov-blue'/></hostdev>\
            <hostdev><alias name='ua-gpu-one'/></hostdev><interface><alias name='ua-sriov-red'/></interface>\
            </devices></domain>";
        let interfaces = sriov_interfaces(&LiveDomain::parse(xml.into()).unwrap());
        let expected = LiveDevice {
            name: "blue".into(),
            alias: "ua-sriov-blue".into(),
            xml: "<hostdev mode='subsystem'><alias name='ua-sriov-blue'/></hostdev>".into(),
            overlay: None,
        };
        assert_eq!(interfaces, [expected]);
    }

    #[test]
    fn new_sriov_interfaces_are_attached_unless_a_claim_provides_them() {
        let vmi = json!({"metadata": {"name": "vm1", "namespace": "default", "uid": "1"},
            "spec": {"networks": [{"name": "blue", "multus": {"networkName": "blue"}},
                {"name": "dra", "resourceClaim": {"claimName": "c", "requestName": "r"}}]}});
        let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
        let wanted = domain(&["sriov-blue", "sriov-red", "sriov-dra", "gpu-one"]);
        let wanted = crate::domain_spec_from_xml::parse(&wanted).unwrap();
        let attach = |live: &[&str]| {
            let live = LiveDomain::parse(domain(live)).unwrap();
            sriov_attachments(&vmi, &wanted, &live)
        };
        let names = |live: &[&str]| {
            let attachments = attach(live).into_iter();
            attachments
                .map(|attachment| attachment.interface)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["blue", "red"]);
        assert_eq!(names(&["sriov-red"]), ["blue"]);
        assert_eq!(names(&["sriov-blue", "sriov-red"]), [""; 0]);
        let xml = &attach(&[])[0].xml;
        assert!(
            xml.contains("type=\"pci\"") && xml.contains("managed=\"no\""),
            "{xml}"
        );
        assert!(
            xml.contains("ua-sriov-blue") && xml.contains("0x81"),
            "{xml}"
        );
    }
}
