//! Replaces devices of the incoming domain with the target's: names of tap devices, and the mediated device of a vGPU.

use domain_xml::{Document, Element};
use kubevirt_api::vmi::Vmi;

use super::error::MigrationXmlError;
use crate::libvirt_spec::{HostDevice, USER_PREFIX};
use crate::pod_network_and_dhcp::hotplug_tap;

/// The tap device of the pod's default network, in both naming schemes.
const PRIMARY_TAP: &str = "tap0";

/// Renames numbered tap devices after the hashes of their networks, as virt-handler names the links of this pod.
/// Sources of an older version number them.
pub(super) fn rename_ordinal_taps(
    document: &mut Document,
    vmi: &Vmi,
) -> Result<(), MigrationXmlError> {
    for interface in devices_mut(document).filter(|device| device.is("interface")) {
        let Some(tap) = attr(interface, "target", "dev").filter(|tap| is_ordinal(tap)) else {
            continue;
        };
        let alias = attr(interface, "alias", "name").unwrap_or_default();
        let name = alias.strip_prefix(USER_PREFIX).unwrap_or_default();
        let mut networks = vmi.spec.networks.iter();
        if !networks.any(|network| network.name == name) {
            return Err(MigrationXmlError::Tap { tap, alias });
        }
        if let Some(target) = interface.child_mut("target") {
            target.set_attr("dev", hotplug_tap(vmi, name));
        }
    }
    Ok(())
}

fn is_ordinal(tap: &str) -> bool {
    let number = tap.strip_prefix("tap").unwrap_or_default();
    tap != PRIMARY_TAP && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Replaces the mediated device of the only host device with this pod's.
pub(super) fn replace_vgpu(
    document: &mut Document,
    vgpu: &HostDevice,
) -> Result<(), MigrationXmlError> {
    let devices = devices_mut(document).filter(|device| device.is("hostdev"));
    let mut devices: Vec<&mut Element> = devices.collect();
    let device = match devices.as_mut_slice() {
        [] => return Ok(()),
        [device] if device.attr("type").as_deref() == Some("mdev") => device,
        [_] => return Err(MigrationXmlError::Vgpu("has a host device that is no vGPU")),
        _ => return Err(MigrationXmlError::Vgpu("has several host devices")),
    };
    let uuid = vgpu.source.address.as_ref().map(|address| &address.uuid);
    let uuid = uuid.ok_or(MigrationXmlError::Vgpu("has a vGPU, and this pod has none"))?;
    let source = device.ensure_child("source");
    source.ensure_child("address").set_attr("uuid", uuid);
    Ok(())
}

fn devices_mut(document: &mut Document) -> impl Iterator<Item = &mut Element> {
    let devices = document.root_mut().child_mut("devices");
    devices.into_iter().flat_map(Element::children_mut)
}

fn attr(device: &Element, child: &str, name: &str) -> Option<String> {
    Some(device.child(child)?.attr(name)?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libvirt_spec::{Address, HostDeviceSource};

    fn domain(devices: &str) -> Document {
        Document::parse_string(format!("<domain><devices>{devices}</devices></domain>")).unwrap()
    }

    fn interface(tap: &str, alias: &str) -> String {
        format!("<interface><target dev='{tap}'/><alias name='{alias}'/></interface>")
    }

    fn vmi() -> Vmi {
        let vmi = r#"{"metadata":{"name":"vm"},"spec":{"networks":[{"name":"default","pod":{}},
            {"name":"red","multus":{"networkName":"r"}}]}}"#;
        Vmi::from_json(vmi.as_bytes()).unwrap()
    }

    #[test]
    fn numbered_taps_are_renamed_after_their_networks() {
        let taps = [
            ("tap0", "default"),
            ("tap1", "red"),
            ("tapb1f51a511f1", "red"),
        ];
        let devices = taps.map(|(tap, network)| interface(tap, &format!("ua-{network}")));
        let mut document = domain(&devices.concat());
        rename_ordinal_taps(&mut document, &vmi()).unwrap();
        let xml = document.render();
        assert_eq!(xml.matches("dev='tap0'").count(), 1, "{xml}");
        assert!(!xml.contains("tap1"), "{xml}");
        assert_eq!(xml.matches("tapb1f51a511f1").count(), 2, "{xml}");
    }

    #[test]
    fn numbered_tap_of_an_unknown_network_is_an_error() {
        for alias in ["ua-blue", "net1", ""] {
            let mut document = domain(&interface("tap1", alias));
            let error = rename_ordinal_taps(&mut document, &vmi()).unwrap_err();
            assert!(error.to_string().contains("tap1"), "{error}");
        }
    }

    fn vgpu(uuid: &str) -> HostDevice {
        HostDevice {
            kind: "mdev".into(),
            source: HostDeviceSource {
                address: Some(Address {
                    uuid: uuid.into(),
                    ..Address::default()
                }),
            },
            ..HostDevice::default()
        }
    }

    #[test]
    fn only_vgpu_is_replaced_and_other_host_devices_are_errors() {
        const MDEV: &str = "<hostdev type='mdev' model='vfio-pci'><source><address uuid='source'/></source>\
            <address type='pci' slot='0x05'/></hostdev>";
        let mut document = domain(MDEV);
        replace_vgpu(&mut document, &vgpu("target")).unwrap();
        let expected = domain(&MDEV.replace("'source'", "'target'"));
        assert_eq!(document.render(), expected.render());
        let mut without_vgpu = domain("<disk/>");
        replace_vgpu(&mut without_vgpu, &vgpu("target")).unwrap();
        for others in [MDEV.repeat(2), MDEV.replace("mdev", "pci")] {
            assert!(replace_vgpu(&mut domain(&others), &vgpu("target")).is_err());
        }
    }
}
