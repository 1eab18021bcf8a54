//! Devices are found by the VMI's names and by their targets.
use super::*;

const XML: &str = "<domain type='kvm'>
  <name>ns_vm</name>
  <devices>
    <disk><target dev='vda'/><alias name='ua-root'/></disk>
    <interface><mac address='02:00:00:00:00:0a'/><target dev='tap0'/><alias name='ua-default'/></interface>
    <hostdev><source><address domain='0x0000' bus='0x65' slot='0x00' function='0x0'/></source><alias name='ua-gpu-big'/></hostdev>
    <hostdev><source><address uuid='5a-b'/></source><alias name='ua-hostdevice-nic'/></hostdev>
  </devices>
</domain>";

#[test]
fn devices_are_found_by_the_names_of_the_vmi_and_by_their_targets() {
    let domain = Domain::parse(XML).unwrap();
    assert_eq!(domain.name(), "ns_vm");
    for name in ["root", "vda", "ua-root"] {
        assert!(domain.disk(name).is_some(), "{name}");
    }
    for name in ["default", "ua-default", "02:00:00:00:00:0A", "tap0"] {
        assert!(domain.interface(name).is_some(), "{name}");
    }
    for (name, alias) in [
        ("big", "ua-gpu-big"),
        ("nic", "ua-hostdevice-nic"),
        ("0000:65:00.0", "ua-gpu-big"),
        ("5a-b", "ua-hostdevice-nic"),
    ] {
        let device = domain.host_device(name).unwrap();
        assert_eq!(device.value("alias/@name").unwrap().as_deref(), Some(alias));
    }
    assert!(domain.disk("vdb").is_none() && domain.disk("default").is_none());
    assert!(domain.host_device("0000:65:00.1").is_none());
    assert!(domain.host_device("65:00").is_none());
    assert!(domain.device("default").unwrap().is("interface"));
    assert_eq!(domain.devices_of("hostdev").count(), 2);
}

#[test]
fn an_edit_of_a_device_is_all_that_changes() {
    let mut domain = Domain::parse(XML).unwrap();
    let driver = domain.disk_mut("root").unwrap().ensure_child("driver");
    driver.set_attr("queues", "2");
    assert_eq!(
        domain.render(),
        XML.replace("'ua-root'/>", "'ua-root'/><driver queues='2'/>")
    );
}

#[test]
fn reading_adds_no_devices_element() {
    let mut bare = Domain::parse("<domain/>").unwrap();
    assert!(bare.disk("vda").is_none() && bare.device("x").is_none());
    assert!(bare.disk_mut("vda").is_none() && bare.device_mut("x").is_none());
    assert!(bare.devices().is_none());
    assert_eq!(bare.devices_of("disk").count(), 0);
    assert_eq!(bare.devices_of_mut("disk").count(), 0);
    assert_eq!(bare.render(), "<domain/>");
    bare.devices_mut().append(Element::new("disk"));
    assert_eq!(bare.devices_of("disk").count(), 1);
}

#[test]
fn an_alias_wins_over_the_address_of_an_earlier_device() {
    let mut domain = Domain::parse(
        "<domain><devices>
    <disk id='1'><target dev='vdb'/><alias name='ua-root'/></disk>
    <disk id='2'><target dev='vda'/><alias name='ua-vdb'/></disk>
    <interface id='3'><target dev='tap0'/><alias name='ua-default'/></interface>
    <interface id='4'><target dev='tap1'/><alias name='ua-tap0'/></interface>
    <hostdev id='5'><source><address uuid='5a-b'/></source><alias name='ua-gpu-a'/></hostdev>
    <hostdev id='6'><source><address uuid='6a-b'/></source><alias name='ua-gpu-5a-b'/></hostdev>
  </devices></domain>",
    )
    .unwrap();
    let id = |device: Option<&Element>| {
        let id = device.and_then(|device| device.attr("id"));
        id.unwrap_or_default().into_owned()
    };
    assert_eq!(id(domain.disk("vdb")), "2");
    assert_eq!(id(domain.disk("vda")), "2");
    assert_eq!(id(domain.interface("tap0")), "4");
    assert_eq!(id(domain.host_device("5a-b")), "6");
    assert_eq!(id(domain.disk_mut("vdb").map(|disk| &*disk)), "2");
    assert_eq!(id(domain.interface_mut("tap1").map(|nic| &*nic)), "4");
    assert_eq!(id(domain.host_device_mut("a").map(|gpu| &*gpu)), "5");
}
