//! Interfaces of a running VM: attached to a tap device, their link switched, and detached.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::launcher_fixture::{EVENT, LauncherFixture, PreparedPod};
use tests::pod::{LauncherUser, Pod};
use tests::vmi_builder::Vmi;

pub(crate) const RESOLV_CONF: &str = "nameserver 10.96.0.10\n";
const MAC: &str = "02:00:00:00:00:B1";

/// Of the network `blue`.
const HASH: &str = "16477688c0e";

/// The links that virt-handler makes for a secondary network, named by the hash of the network's name.
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

/// virt-handler's file about the network.
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

/// Waits until the guest reports this for its interface's file.
async fn wait_for(
    fixture: &LauncherFixture,
    vmi: &Vmi,
    command: &str,
    expected: &str,
) -> Result<()> {
    let seen = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let output = fixture
            .commands
            .exec(vmi, "sh", &["-c", command])
            .await
            .ok()?;
        (output.std_out.trim() == expected).then_some(())
    };
    tests::until(&format!("{command}: {expected}"), EVENT, seen).await
}

pub(crate) fn interfaces(domain: &Value) -> Vec<Value> {
    let interfaces = domain["Spec"]["Devices"]["Interfaces"].as_array();
    interfaces.cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interface_is_attached_its_link_switched_and_detached() -> Result<()> {
    let plain = Vmi::new("nic", LauncherUser::Nonroot)
        .annotate("kubevirt.io/pci-interface-slot-count", "4")
        .edit(|vmi| vmi["status"]["phase"] = json!("Scheduled"));
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    prepared.pod.set_up_network(&links(HASH), RESOLV_CONF)?;
    add_vif_cache(&prepared.pod, HASH)?;
    let fixture = prepared.start(&plain, &[]).await?;
    fixture.boot_without_controller(&plain).await?;
    fixture.wait_for_agent(&plain).await?;

    let up = with_interface(&plain, "");
    let events = fixture.handler.events().len();
    fixture.commands.sync(&up).await?.ok()?;
    fixture
        .handler
        .wait_for("interface blue", events, EVENT, |event| {
            interfaces(event.domain()).iter().any(|one| {
                one["Alias"]["Name"] == "blue" && one["Target"]["Device"] == "tap16477688c0e"
            })
        })
        .await?;
    wait_for(
        &fixture,
        &up,
        "cat /sys/class/net/eth0/address",
        "02:00:00:00:00:b1",
    )
    .await?;
    wait_for(&fixture, &up, "cat /sys/class/net/eth0/mtu", "1400").await?;
    let link = "ip link set eth0 up; cat /sys/class/net/eth0/carrier";
    wait_for(&fixture, &up, link, "1").await?;
    let events = fixture.handler.events().len();
    fixture.commands.sync(&up).await?.ok()?;

    let down = with_interface(&plain, "down");
    fixture.commands.sync(&down).await?.ok()?;
    wait_for(&fixture, &down, link, "0").await?;
    fixture.commands.sync(&down).await?.ok()?;
    fixture.commands.sync(&up).await?.ok()?;
    wait_for(&fixture, &up, link, "1").await?;
    ensure!(
        fixture.handler.events()[events..]
            .iter()
            .all(|event| !interfaces(event.domain()).is_empty()),
        "{}",
        fixture.handler.history()
    );

    let absent = with_interface(&plain, "absent");
    fixture.commands.sync(&absent).await?.ok()?;
    wait_for(&fixture, &absent, "ls /sys/class/net", "lo").await?;
    ensure!(interfaces(&fixture.commands.domain().await?).is_empty());
    fixture.commands.sync(&absent).await?.ok()?;
    fixture.end_vm(&plain).await
}
