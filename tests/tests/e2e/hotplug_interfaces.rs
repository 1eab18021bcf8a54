//! Hotplug of an interface: attached to a tap device, its link set down and up, and detached.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::launcher_fixture::{EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::{LauncherUser, Pod};
use tests::vmi_builder::Vmi;

pub(crate) const RESOLV_CONF: &str = "nameserver 10.96.0.10\n";
const MAC: &str = "02:00:00:00:00:B1";

/// The hash of the network name `blue`, which is part of the names of its links.
const BLUE_HASH: &str = "16477688c0e";

/// The commands that create virt-handler's links for a secondary network.
pub(crate) fn links(hash: &str) -> String {
    format!(
        "
    ip link add pod{hash} type bridge
    ip link set pod{hash} address 02:00:00:ab:cd:01 mtu 1400
    ip link add k6t-{hash} type bridge
    ip link set k6t-{hash} up
    ip link add {hash}-nic type bridge
    ip tuntap add tap{hash} mode tap user 107 group 107
    ip link set tap{hash} master k6t-{hash}
    ip link set tap{hash} mtu 1400 up
"
    )
}

/// Writes virt-handler's cache file about the network.
pub(crate) fn add_vif_cache(pod: &Pod, hash: &str) -> Result<()> {
    let cache = json!({ "MAC": "AgAAq80B", "IPAMDisabled": true });
    let path = format!("/run/kubevirt-private/vif-cache-pod{hash}.json");
    Ok(std::fs::write(pod.path(&path), cache.to_string())?)
}

fn with_interface(vmi: &Vmi, state: &str) -> Vmi {
    vmi.clone().edit(|vmi| {
        vmi["spec"]["networks"] = json!([{ "name": "blue", "multus": { "networkName": "blue" } }]);
        vmi["spec"]["domain"]["devices"]["interfaces"] =
            json!([{ "name": "blue", "bridge": {}, "macAddress": MAC, "state": state }]);
        vmi["status"]["phase"] = json!("Running");
        vmi["status"]["interfaces"] = json!([{ "name": "blue", "infoSource": "multus-status" }]);
    })
}

/// Waits until a shell command in the guest prints this.
async fn wait_for_output(
    fixture: &LauncherFixture,
    vmi: &Vmi,
    command: &str,
    expected: &str,
) -> Result<()> {
    let has_output = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let output = fixture
            .commands
            .exec(vmi, "sh", &["-c", command])
            .await
            .ok()?;
        (output.std_out.trim() == expected).then_some(())
    };
    tests::wait_until(&format!("{command}: {expected}"), EVENT_TIMEOUT, has_output).await
}

pub(crate) fn interfaces(domain: &Value) -> Vec<Value> {
    let interfaces = domain["Spec"]["Devices"]["Interfaces"].as_array();
    interfaces.cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interface_is_attached_its_link_switched_and_detached() -> Result<()> {
    let vmi = Vmi::new("nic", LauncherUser::Nonroot)
        .annotate("kubevirt.io/pci-interface-slot-count", "4")
        .edit(|vmi| vmi["status"]["phase"] = json!("Scheduled"));
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    prepared
        .pod
        .set_up_network(&links(BLUE_HASH), RESOLV_CONF)?;
    add_vif_cache(&prepared.pod, BLUE_HASH)?;
    let fixture = prepared.start(&vmi, &[]).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture.wait_for_agent(&vmi).await?;

    let up = with_interface(&vmi, "");
    let events = fixture.handler.events().len();
    fixture.commands.sync(&up).await?.accepted()?;
    fixture
        .handler
        .wait_for("interface blue", events, EVENT_TIMEOUT, |event| {
            interfaces(event.domain()).iter().any(|interface| {
                interface["Alias"]["Name"] == "blue"
                    && interface["Target"]["Device"] == "tap16477688c0e"
            })
        })
        .await?;
    wait_for_output(
        &fixture,
        &up,
        "cat /sys/class/net/eth0/address",
        "02:00:00:00:00:b1",
    )
    .await?;
    wait_for_output(&fixture, &up, "cat /sys/class/net/eth0/mtu", "1400").await?;
    let link = "ip link set eth0 up; cat /sys/class/net/eth0/carrier";
    wait_for_output(&fixture, &up, link, "1").await?;
    let events = fixture.handler.events().len();
    fixture.commands.sync(&up).await?.accepted()?;

    let down = with_interface(&vmi, "down");
    fixture.commands.sync(&down).await?.accepted()?;
    wait_for_output(&fixture, &down, link, "0").await?;
    fixture.commands.sync(&down).await?.accepted()?;
    fixture.commands.sync(&up).await?.accepted()?;
    wait_for_output(&fixture, &up, link, "1").await?;
    ensure!(
        fixture.handler.events()[events..]
            .iter()
            .all(|event| !interfaces(event.domain()).is_empty()),
        "{}",
        fixture.handler.history()
    );

    let absent = with_interface(&vmi, "absent");
    fixture.commands.sync(&absent).await?.accepted()?;
    wait_for_output(&fixture, &absent, "ls /sys/class/net", "lo").await?;
    ensure!(interfaces(&fixture.commands.domain().await?).is_empty());
    fixture.commands.sync(&absent).await?.accepted()?;
    fixture.end_vm(&vmi).await
}
