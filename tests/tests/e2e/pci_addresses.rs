//! Devices get the PCI addresses that they have under KubeVirt's launcher, with the same ports free for hotplug.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use domain::hotplug_ports::DefinitionPlan;
use domain::libvirt_spec::{Controller, DomainSpec, Interface, InterfaceTarget, Model};
use domain::parse_domain_xml::parse;
use domain::render_domain_xml::render;
use kubevirt_api::vmi::Vmi;
use serde_json::Value;
use tests::binaries::workspace;
use tests::launcher_fixture::{EVENT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::sidecar_server::Sidecar;

use super::daemon_only_pod::DaemonOnlyPod;
use super::define_corpus::converted;
use super::vm_lifecycle::assert_started;

/// Guests whose devices libvirt places by different rules, with the placeholder interfaces and the spare
/// ports that KubeVirt's launcher gives each.
const GUESTS: [(&str, usize, usize); 9] = [
    ("typical-fedora", 3, 4),
    ("typical-windows", 3, 8),
    ("vsock", 3, 0),
    ("sound-ac97", 3, 0),
    ("virtiofs-pvc", 3, 0),
    ("net-model-rtl8139", 3, 0),
    ("net-none", 0, 4),
    ("net-multus", 1, 2),
    ("place-pci-on-root", 0, 0),
];

/// Defines a domain, and returns libvirt's XML of it.
fn define(daemon: &DaemonOnlyPod, directory: &Path, name: &str, xml: &str) -> Result<String> {
    let file = directory.join("domain.xml");
    fs::write(&file, xml)?;
    daemon.ask(&["define", &file.to_string_lossy()])?;
    daemon.ask(&["dumpxml", "--inactive", name])
}

/// The PCI addresses of a domain's devices, as virt-handler sees them.
fn addresses(daemon: &DaemonOnlyPod, name: &str, xml: &str) -> Result<BTreeMap<String, String>> {
    daemon.ask(&["undefine", name, "--keep-nvram", "--keep-tpm"])?;
    Ok(of_devices(&serde_json::to_value(parse(xml)?.devices)?))
}

/// Controllers by type and index, others by their place in the list of their kind.
pub(crate) fn of_devices(devices: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (kind, devices) in devices.as_object().into_iter().flatten() {
        let list = match devices {
            Value::Array(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        for (index, device) in list.iter().enumerate() {
            let address = &device["Address"];
            if address["Type"] == "pci" {
                let part = |name: &str| address[name].as_str().unwrap_or_default();
                let at = format!("{} {} {}", part("Bus"), part("Slot"), part("Function"));
                let which = match kind.as_str() {
                    "Controllers" => format!("{} {}", device["Type"], device["Index"]),
                    _ => index.to_string(),
                };
                found.insert(format!("{kind}/{which}"), at);
            }
        }
    }
    found
}

fn placeholder(number: usize, model: &str) -> Interface {
    Interface {
        kind: "ethernet".into(),
        model: Some(Model { kind: model.into() }),
        target: Some(InterfaceTarget {
            device: format!("placeholder-{number}"),
            managed: "no".into(),
        }),
        ..Interface::default()
    }
}

/// The domain with its placeholder interfaces.
pub(crate) fn as_first_defined(
    vmi: &Vmi,
    spec: &DomainSpec,
    placeholders: usize,
) -> Option<DomainSpec> {
    let mut first = spec.clone();
    let model = match vmi.is_virtio_transitional() {
        true => "virtio-transitional",
        false => "virtio-non-transitional",
    };
    let more = (0..placeholders).map(|number| placeholder(number, model));
    first.devices.interfaces.extend(more);
    (placeholders > 0).then_some(first)
}

/// Adds root ports above the existing ones. The first bus has at most 31.
pub(crate) fn spare_ports(spec: &mut DomainSpec, ports: usize) {
    let controllers = &mut spec.devices.controllers;
    let indices = controllers
        .iter()
        .filter(|controller| controller.kind == "pci")
        .filter_map(|controller| controller.index.parse::<usize>().ok());
    let next = indices.max().unwrap_or_default() + 1;
    controllers.extend((next..=31).take(ports).map(|index| Controller {
        kind: "pci".into(),
        index: index.to_string(),
        model: "pcie-root-port".into(),
        ..Controller::default()
    }));
}

/// KubeVirt's way: placeholders, the devices read back into its own types, spare ports; three definitions.
fn define_like_kubevirt(
    daemon: &DaemonOnlyPod,
    directory: &Path,
    (vmi, mut spec): (Vmi, DomainSpec),
    (placeholders, ports): (usize, usize),
) -> Result<BTreeMap<String, String>> {
    let name = spec.name.clone();
    if let Some(first) = as_first_defined(&vmi, &spec, placeholders) {
        let mut devices = parse(&define(daemon, directory, &name, &render(&first))?)?.devices;
        devices.interfaces = spec.devices.interfaces;
        spec.devices = devices;
        define(daemon, directory, &name, &render(&spec))?;
    }
    spare_ports(&mut spec, ports);
    let described = define(daemon, directory, &name, &render(&spec))?;
    addresses(daemon, &name, &described)
}

fn define_like_this_launcher(
    daemon: &DaemonOnlyPod,
    directory: &Path,
    (vmi, spec): (Vmi, DomainSpec),
) -> Result<BTreeMap<String, String>> {
    let definition = DefinitionPlan::plan(&vmi, render(&spec))?;
    let mut described = define(daemon, directory, &spec.name, definition.first())?;
    if let Some(second) = definition.second(&described)? {
        described = define(daemon, directory, &spec.name, &second)?;
    }
    addresses(daemon, &spec.name, &described)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_definitions_give_the_addresses_of_kubevirts_three() -> Result<()> {
    let daemon = DaemonOnlyPod::start().await?;
    let directory = tempfile::tempdir()?;
    for (case, placeholders, ports) in GUESTS {
        let room = (placeholders, ports);
        let theirs = define_like_kubevirt(&daemon, directory.path(), converted(case)?, room)?;
        let ours = define_like_this_launcher(&daemon, directory.path(), converted(case)?)?;
        assert_eq!(ours, theirs, "{case}");
        assert!(ours.len() > 3, "{case}: {ours:?}");
    }
    Ok(())
}

fn recorded(file: &str) -> Result<String> {
    Ok(fs::read_to_string(
        workspace()
            .join("tests/corpus/launcher-transcripts")
            .join(file),
    )?)
}

/// The VMI of the recorded life.
fn vmi() -> Result<tests::vmi_builder::Vmi> {
    let value = serde_json::from_str(&recorded("vmi-of-all-transcripts.json")?)?;
    Ok(tests::vmi_builder::Vmi::new("vm1", LauncherUser::Root).edit(|vmi| *vmi = value))
}

/// Where the recorded guest saw its devices while it ran.
fn recorded_addresses() -> Result<BTreeMap<String, String>> {
    for line in recorded("start-to-delete.events.jsonl")?.lines() {
        let event: Value = serde_json::from_str(line)?;
        if event["status"]["Status"] == "Running" {
            return Ok(of_devices(&event["domain"]["Spec"]["Devices"]));
        }
    }
    anyhow::bail!("the recorded guest never ran")
}

/// Boots the guest, and waits for all notifications of a start.
async fn start(fixture: &LauncherFixture, vmi: &tests::vmi_builder::Vmi) -> Result<()> {
    fixture.boot(vmi).await?;
    let all = async || (fixture.handler.states().len() >= 4).then_some(());
    tests::until("the four notifications of a start", EVENT, all).await?;
    assert_started(fixture);
    Ok(())
}

async fn addresses_of(fixture: &LauncherFixture) -> Result<BTreeMap<String, String>> {
    let domain = fixture.commands.domain().await?;
    Ok(of_devices(&domain["Spec"]["Devices"]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_booted_vm_has_the_recorded_addresses() -> Result<()> {
    let vmi = vmi()?;
    let fixture = LauncherFixture::start(LauncherUser::Root, &vmi).await?;
    start(&fixture, &vmi).await?;
    assert_eq!(addresses_of(&fixture).await?, recorded_addresses()?);
    fixture.end_vm(&vmi).await
}

/// Two devices that no VMI asked for, one of which libvirt does not know.
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

/// The same guest with a hook, and with `annotations` that reserve ports for interfaces.
async fn hooked(annotations: &[(&str, &str)]) -> Result<BTreeMap<String, String>> {
    let mut vmi = vmi()?;
    for (key, text) in annotations {
        vmi = vmi.annotate(key, text);
    }
    let prepared = PreparedPod::create(LauncherUser::Root)?;
    let hook = Sidecar::new("meddler").on_define_domain(0, add_devices);
    let hook = hook.serve(&prepared.pod.hooks_dir()?, "hook-sidecar-0")?;
    let fixture = prepared.start(&vmi, &["--hook-sidecars", "1"]).await?;
    start(&fixture, &vmi).await?;
    let found = addresses_of(&fixture).await?;
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
    Ok(found)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_added_by_a_hook_moves_no_other_device() -> Result<()> {
    let found = hooked(&[]).await?;
    for (device, address) in recorded_addresses()? {
        assert_eq!(found.get(&device), Some(&address), "{device} of {found:#?}");
    }
    assert!(found.keys().any(|device| device.starts_with("Rng/")));
    Ok(())
}

/// Interfaces get their addresses before other devices: the ports of three interfaces that may come stay free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ports_reserved_for_interfaces_stay_free_in_a_hooked_domain() -> Result<()> {
    let found = hooked(&[("kubevirt.io/pci-interface-slot-count", "3")]).await?;
    let bus = |address: &String| address.split(' ').next().unwrap_or_default().to_owned();
    for (device, address) in recorded_addresses()? {
        let behind_a_port = !address.starts_with("0x00");
        if behind_a_port {
            let number = |bus: &str| u32::from_str_radix(bus.trim_start_matches("0x"), 16);
            let kept = number(&bus(&address))? + 3;
            let at = found.get(&device).map(bus).unwrap_or_default();
            assert_eq!(number(&at)?, kept, "{device} of {found:#?}");
        }
    }
    Ok(())
}
