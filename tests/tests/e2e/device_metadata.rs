//! A guest can find its tagged devices by the device metadata on the config drive.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::launcher_fixture::{LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

/// Tag and MAC address of each interface.
const TAGGED: [(&str, &str); 2] = [("mgmt", "02:00:00:00:00:01"), ("data", "02:00:00:00:00:02")];

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

/// Where the guest's kernel sees the interface of each MAC address.
async fn seen(fixture: &LauncherFixture, vmi: &Vmi) -> Result<BTreeMap<String, String>> {
    const LOOK: &str = r#"for nic in /sys/class/net/eth*; do echo "$(cat $nic/address) $(readlink -f $nic/device)"; done"#;
    fixture.wait_for_agent(vmi).await?;
    let output = fixture.commands.exec(vmi, "sh", &["-c", LOOK]).await?;
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
    for (tag, mac) in TAGGED {
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
    let seen = seen(&fixture, &vmi).await?;
    let devices = meta_data["devices"].as_array().context("no devices")?;
    assert_eq!(devices.len(), TAGGED.len(), "{meta_data}");
    for (tag, mac) in TAGGED {
        let is_it = |device: &&Value| device["tags"][0] == tag;
        let device = devices.iter().find(is_it).with_context(|| tag.to_owned())?;
        assert_eq!(device["type"], "nic");
        assert_eq!(device["bus"], "pci");
        assert_eq!(device["mac"], mac);
        let address = device["address"].as_str().map(str::to_owned);
        assert_eq!(seen.get(mac).cloned(), address, "{device} of {seen:?}");
    }
    fixture.end_vm(&vmi).await
}
