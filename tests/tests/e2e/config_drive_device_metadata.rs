//! The device metadata on the config drive has the addresses at which the guest finds its tagged devices.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::launcher_fixture::{LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

/// The tag and the MAC address of each interface.
const TAGGED_INTERFACES: [(&str, &str); 2] =
    [("mgmt", "02:00:00:00:00:01"), ("data", "02:00:00:00:00:02")];

/// The links that the pod network and a binding plugin create for the two interfaces.
const LINKS: &str = "
    for index in 0 1; do
        ip link add pod$index type veth peer name outside$index
        ip tuntap add tap$index mode tap user 107 group 107
        ip link set tap$index up
    done
    ip link set pod0 name eth0
    ip link set pod1 name net1
";

/// The PCI address of each interface in the guest, by MAC address.
async fn guest_addresses(fixture: &LauncherFixture, vmi: &Vmi) -> Result<BTreeMap<String, String>> {
    const SCRIPT: &str = r#"for nic in /sys/class/net/eth*; do echo "$(cat $nic/address) $(readlink -f $nic/device)"; done"#;
    fixture.wait_for_agent(vmi).await?;
    let output = fixture.commands.exec(vmi, "sh", &["-c", SCRIPT]).await?;
    ensure!(output.exit_code == 0, "{output:?}");
    let nic = |line: &str| {
        let (mac, path) = line.split_once(' ')?;
        // ../devices/pci0000:00/0000:00:02.0/0000:01:00.0/virtio1
        let address = path.rsplit('/').find(|part| part.contains(':'))?;
        Some((mac.to_owned(), address.to_owned()))
    };
    Ok(output.std_out.lines().filter_map(nic).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tagged_interfaces_have_the_addresses_on_the_config_drive() -> Result<()> {
    let mut vmi = Vmi::new("tagged", LauncherUser::Nonroot).config_drive("#cloud-config\n");
    for (tag, mac) in TAGGED_INTERFACES {
        vmi = vmi.interface(json!({
            "name": tag, "tag": tag, "macAddress": mac, "binding": { "name": "plugged" },
        }));
    }
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    prepared.pod.set_up_network(LINKS, "")?;
    let fixture = prepared.start(&vmi, &[]).await?;
    let reports = fixture.boot_and_read_reports(&vmi).await?;
    let meta_data = reports
        .iter()
        .find_map(|report| report.strip_prefix("meta-data: "));
    let meta_data: Value = serde_json::from_str(meta_data.context("no meta-data")?)?;
    let guest_addresses = guest_addresses(&fixture, &vmi).await?;
    let devices = meta_data["devices"].as_array().context("no devices")?;
    assert_eq!(devices.len(), TAGGED_INTERFACES.len(), "{meta_data}");
    for (tag, mac) in TAGGED_INTERFACES {
        let has_tag = |device: &&Value| device["tags"][0] == tag;
        let device = devices
            .iter()
            .find(has_tag)
            .with_context(|| tag.to_owned())?;
        assert_eq!(device["type"], "nic");
        assert_eq!(device["bus"], "pci");
        assert_eq!(device["mac"], mac);
        let address = device["address"].as_str().map(str::to_owned);
        assert_eq!(
            guest_addresses.get(mac).cloned(),
            address,
            "{device} of {guest_addresses:?}"
        );
    }
    fixture.end_vm(&vmi).await
}
