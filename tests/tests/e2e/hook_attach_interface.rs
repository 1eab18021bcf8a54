//! Hooks at OnAttachDevice for interfaces: a change reaches QEMU, and a veto prevents the attach of one interface only.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::build_and_install_hooks as hooks;
use tests::launcher_fixture::{EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::virsh::qemu_command;
use tests::vmi_builder::Vmi;

use crate::hotplug_interfaces::{RESOLV_CONF, add_vif_cache, interfaces, links};

const QUEUE_SIZE_ANNOTATION: &str = "nic.example.com/rx-queue-size";
const REFUSED_ANNOTATION: &str = "nic.example.com/refused";

/// The networks, with the hashes that are part of the names of their links.
const NETWORKS: [(&str, &str); 3] = [
    ("blue", "16477688c0e"),
    ("red", "b1f51a511f1"),
    ("green", "ba4788b226a"),
];

/// The running VMI with interfaces in these networks.
fn with_interfaces(vmi: &Vmi, networks: &[&str]) -> Vmi {
    let all = |object: fn(&str) -> Value| {
        networks
            .iter()
            .map(|interface| object(interface))
            .collect::<Value>()
    };
    vmi.clone().edit(|vmi| {
        vmi["spec"]["networks"] =
            all(|name| json!({ "name": name, "multus": { "networkName": name } }));
        vmi["spec"]["domain"]["devices"]["interfaces"] =
            all(|name| json!({ "name": name, "bridge": {} }));
        vmi["status"]["phase"] = json!("Running");
        vmi["status"]["interfaces"] =
            all(|name| json!({ "name": name, "infoSource": "multus-status" }));
    })
}

/// The aliases of the domain's interfaces, sorted.
async fn attached_aliases(fixture: &LauncherFixture) -> Result<Vec<String>> {
    let domain = fixture.commands.domain().await?;
    let name = |interface: &Value| {
        interface["Alias"]["Name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let mut names: Vec<String> = interfaces(&domain).iter().map(name).collect();
    names.sort();
    Ok(names)
}

/// The aliases for which the hook was called, in order.
fn hook_calls(fixture: &LauncherFixture) -> Vec<String> {
    let log = fixture.pod.log();
    let log_parts = log.split("asked for ua-").skip(1);
    let name = |rest: &str| rest.chars().take_while(char::is_ascii_lowercase).collect();
    log_parts.map(name).collect()
}

/// The Kubernetes events of hooks.
fn refusals(fixture: &LauncherFixture) -> Vec<String> {
    let events = fixture.handler.events();
    let events = events.iter().filter(|event| {
        let reason = event.kubernetes_reason();
        reason.is_some_and(|reason| reason.starts_with("Hook"))
    });
    events.map(ToString::to_string).collect()
}

async fn start(vmi: &Vmi) -> Result<LauncherFixture> {
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let all: Vec<String> = NETWORKS.iter().map(|(_, hash)| links(hash)).collect();
    prepared.pod.set_up_network(&all.concat(), RESOLV_CONF)?;
    for (_, hash) in NETWORKS {
        add_vif_cache(&prepared.pod, hash)?;
    }
    let directory = prepared.pod.hooks_dir()?;
    hooks::install(
        &directory,
        "hook-sidecar-0",
        &hooks::rust_hook("attach-interface-hook")?,
    )?;
    let fixture = prepared.start(vmi, &["--hook-sidecars", "1"]).await?;
    fixture.boot_without_controller(vmi).await?;
    fixture.wait_for_agent(vmi).await?;
    Ok(fixture)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attached_interface_carries_the_hooks_change_and_a_veto_keeps_one_away() -> Result<()> {
    let vmi = Vmi::new("hooknic", LauncherUser::Nonroot)
        .annotate("kubevirt.io/pci-interface-slot-count", "6")
        .annotate(QUEUE_SIZE_ANNOTATION, "512")
        .annotate(REFUSED_ANNOTATION, "red")
        .edit(|vmi| vmi["status"]["phase"] = json!("Scheduled"));
    let fixture = start(&vmi).await?;

    let all = with_interfaces(&vmi, &["blue", "red", "green"]);
    for _ in 0..3 {
        fixture.commands.sync(&all).await?.accepted()?;
    }
    ensure!(
        attached_aliases(&fixture).await? == ["blue", "green"],
        "{:?}",
        attached_aliases(&fixture).await?
    );
    let size = r#"{"execute":"qom-get","arguments":{"path":"/machine/peripheral/ua-blue","property":"rx_queue_size"}}"#;
    let answer = qemu_command(&fixture.pod, &vmi, size).await?;
    ensure!(answer["return"] == 512, "{answer}");
    let is_reported = async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        (!refusals(&fixture).is_empty() && hook_calls(&fixture).len() >= 3).then_some(())
    };
    tests::wait_until("an event of the hook", EVENT_TIMEOUT, is_reported).await?;
    let events = refusals(&fixture);
    ensure!(
        events.len() == 1
            && events[0].contains("HookDenied: interface red is not attached")
            && events[0].contains("no ua-red today"),
        "{events:#?}"
    );
    ensure!(
        hook_calls(&fixture) == ["blue", "red", "green"],
        "each is asked about once: {:?}",
        hook_calls(&fixture)
    );

    // The hook is called again for an interface that is removed and added again, and now allows it.
    let without = with_interfaces(&vmi, &["blue", "green"]);
    fixture.commands.sync(&without).await?.accepted()?;
    let with_all_allowed = all.clone().annotate(REFUSED_ANNOTATION, "none");
    fixture.commands.sync(&with_all_allowed).await?.accepted()?;
    ensure!(attached_aliases(&fixture).await? == ["blue", "green", "red"]);
    let count = "ls -d /sys/class/net/eth* | wc -l";
    let has_three_interfaces = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let listed = fixture.commands.exec(&vmi, "sh", &["-c", count]).await;
        (listed.ok()?.std_out.trim() == "3").then_some(())
    };
    tests::wait_until(
        "three interfaces in the guest",
        EVENT_TIMEOUT,
        has_three_interfaces,
    )
    .await?;
    let hook_calls = hook_calls(&fixture);
    ensure!(
        hook_calls.last().context("no call")? == "red" && hook_calls.len() == 4,
        "{hook_calls:?}"
    );
    ensure!(refusals(&fixture).len() == 1, "{:#?}", refusals(&fixture));
    fixture.end_vm(&vmi).await
}
