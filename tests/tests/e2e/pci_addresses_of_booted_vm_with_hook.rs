//! A booted VM has the PCI addresses that were recorded with KubeVirt's launcher, also with a hook that adds devices.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;
use tests::binaries::workspace;
use tests::launcher_fixture::{EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::sidecar_server::Sidecar;
use tests::vmi_builder::Vmi;

use super::pci_addresses_equal_to_kubevirts::{addresses_of_devices, differences_of_devices};
use crate::start_notifications::assert_started;

fn read_transcript(file: &str) -> Result<String> {
    Ok(fs::read_to_string(
        workspace()
            .join("tests/corpus/launcher-transcripts")
            .join(file),
    )?)
}

/// The VMI of the recorded transcript.
fn vmi() -> Result<Vmi> {
    let value = serde_json::from_str(&read_transcript("vmi-of-all-transcripts.json")?)?;
    Ok(Vmi::new("vm1", LauncherUser::Root).edit(|vmi| *vmi = value))
}

/// The addresses of the recorded VM while it ran.
fn recorded_addresses() -> Result<BTreeMap<String, String>> {
    for line in read_transcript("start-to-delete.events.jsonl")?.lines() {
        let event: Value = serde_json::from_str(line)?;
        if event["status"]["Status"] == "Running" {
            return Ok(addresses_of_devices(&event["domain"]["Spec"]["Devices"]));
        }
    }
    anyhow::bail!("the recorded guest never ran")
}

/// Boots the VM, and waits for all notifications of a start.
async fn start(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    fixture.boot(vmi).await?;
    let has_all_states = async || (fixture.handler.states().len() >= 4).then_some(());
    tests::wait_until(
        "the four notifications of a start",
        EVENT_TIMEOUT,
        has_all_states,
    )
    .await?;
    assert_started(fixture);
    Ok(())
}

async fn addresses_of(fixture: &LauncherFixture) -> Result<BTreeMap<String, String>> {
    let domain = fixture.commands.domain().await?;
    Ok(addresses_of_devices(&domain["Spec"]["Devices"]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_booted_vm_has_the_recorded_addresses() -> Result<()> {
    let vmi = vmi()?;
    let fixture = LauncherFixture::start(LauncherUser::Root, &vmi).await?;
    start(&fixture, &vmi).await?;
    let addresses = addresses_of(&fixture).await?;
    let differences = differences_of_devices("booted", &addresses, &recorded_addresses()?, 0);
    assert_eq!(differences, [""; 0]);
    fixture.end_vm(&vmi).await
}

/// Adds two devices that are not in the VMI, one of which libvirt does not know.
fn add_devices(xml: String) -> Result<String, String> {
    const RNG: &str = "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>";
    const ARGUMENTS: &str = "<qemu:commandline><qemu:arg value='-fw_cfg'/>\
        <qemu:arg value='name=opt/tests,string=hooked'/></qemu:commandline>";
    match xml.contains("xmlns:qemu") {
        true => Ok(xml
            .replace("</devices>", &format!("{RNG}</devices>"))
            .replace("</domain>", &format!("{ARGUMENTS}</domain>"))),
        false => Err("the domain does not declare libvirt's QEMU namespace".into()),
    }
}

/// Boots the same VM with a hook and these annotations, and returns its addresses.
async fn boot_with_hook(annotations: &[(&str, &str)]) -> Result<BTreeMap<String, String>> {
    let mut vmi = vmi()?;
    for (key, text) in annotations {
        vmi = vmi.annotate(key, text);
    }
    let prepared = PreparedPod::create(LauncherUser::Root)?;
    let hook = Sidecar::new("meddler").on_define_domain(0, add_devices);
    let hook = hook.serve(&prepared.pod.hooks_dir()?, "hook-sidecar-0")?;
    let fixture = prepared.start(&vmi, &["--hook-sidecars", "1"]).await?;
    start(&fixture, &vmi).await?;
    let addresses = addresses_of(&fixture).await?;
    assert!(!fixture.handler.history().contains("placeholder"));
    for event in fixture.handler.events() {
        let devices = event.domain()["Spec"]["Devices"].to_string();
        assert!(!devices.contains("placeholder"), "{devices}");
    }
    let qemu = fixture.pod.qemu().context("QEMU runs")?;
    let arguments = fs::read_to_string(format!("/proc/{}/cmdline", qemu.pid.as_raw_nonzero()))?;
    assert!(arguments.contains("name=opt/tests,string=hooked"));
    fixture.end_vm(&vmi).await?;
    assert_eq!(hook.calls(), ["v1alpha3 OnDefineDomain"], "once per boot");
    Ok(addresses)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_added_by_a_hook_moves_no_other_device() -> Result<()> {
    let addresses = boot_with_hook(&[]).await?;
    for (device, address) in recorded_addresses()? {
        assert_eq!(
            addresses.get(&device),
            Some(&address),
            "{device} of {addresses:#?}"
        );
    }
    assert!(addresses.keys().any(|device| device.starts_with("Rng/")));
    Ok(())
}

/// The VMI has no interface, and three ports are reserved for later ones before all others: each device behind a port moves
/// by three buses, also with a hook.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ports_reserved_for_interfaces_stay_free_in_a_hooked_domain() -> Result<()> {
    let addresses = boot_with_hook(&[("kubevirt.io/pci-interface-slot-count", "3")]).await?;
    let bus = |address: &String| address.split(' ').next().unwrap_or_default().to_owned();
    for (device, address) in recorded_addresses()? {
        let is_behind_port = !address.starts_with("0x00");
        if is_behind_port {
            let number = |bus: &str| u32::from_str_radix(bus.trim_start_matches("0x"), 16);
            let expected = number(&bus(&address))? + 3;
            let address = addresses.get(&device).map(bus).unwrap_or_default();
            assert_eq!(number(&address)?, expected, "{device} of {addresses:#?}");
        }
    }
    Ok(())
}
