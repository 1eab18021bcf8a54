//! Every domain of the conversion corpus gets the PCI addresses that it has under KubeVirt's launcher, with
//! and without a hook that adds arguments of QEMU's and a device.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use domain::hotplug_ports::DefinitionPlan;
use domain::libvirt_spec::DomainSpec;
use domain::parse_domain_xml::parse;
use domain::render_domain_xml::render;
use kubevirt_api::vmi::Vmi;
use serde_json::Value;

use super::daemon_only_pod::DaemonOnlyPod;
use super::define_corpus::{REFUSED, cases, converted};
use super::pci_addresses::{as_first_defined, of_devices, spare_ports};

/// A device of a kind that KubeVirt's types lack, so it is lost when KubeVirt parses the domain.
const DEVICE: &str =
    "<shmem name='hooked'><model type='ivshmem-plain'/><size unit='M'>1</size></shmem>";
const ARGUMENTS: &str = "<qemu:commandline><qemu:arg value='-fw_cfg'/>\
    <qemu:arg value='name=opt/tests,string=hooked'/></qemu:commandline>";

/// The name of the hook's device in a list of addresses.
const HOOKED: &str = "hooked";

/// Changes the domain like a hook.
fn hooked(xml: String) -> String {
    let xml = xml.replace("</devices>", &format!("{DEVICE}</devices>"));
    match xml.contains("</qemu:commandline>") {
        true => xml,
        false => xml.replace("</domain>", &format!("{ARGUMENTS}</domain>")),
    }
}

fn unhooked(xml: String) -> String {
    xml
}

/// A change of the domain before it is defined.
type Hook = fn(String) -> String;

/// Defines and undefines domains with one virsh, and returns libvirt's XML of each.
fn define_all(
    daemon: &DaemonOnlyPod,
    directory: &Path,
    domains: &BTreeMap<String, (String, String)>,
) -> Result<BTreeMap<String, String>> {
    const MARK: &str = "next: ";
    let mut commands = String::new();
    for (number, (case, (name, xml))) in domains.iter().enumerate() {
        let file = directory.join(format!("{number}.xml"));
        fs::write(&file, xml)?;
        writeln!(commands, "echo '{MARK}{case}'\ndefine {}", file.display())?;
        writeln!(commands, "dumpxml --inactive {name}")?;
        writeln!(commands, "undefine {name} --keep-nvram --keep-tpm")?;
    }
    let script = directory.join("commands");
    fs::write(&script, commands)?;
    let output = daemon.virsh(File::open(script)?, &[])?;
    let text = String::from_utf8_lossy(&output.stdout);
    let described = text.split(MARK).skip(1).filter_map(|part| {
        let (case, rest) = part.split_once('\n')?;
        let end = rest.find("</domain>")? + "</domain>".len();
        let begin = rest.find("<domain")?;
        Some((case.trim().to_owned(), rest[begin..end].to_owned()))
    });
    let described: BTreeMap<_, _> = described.collect();
    ensure!(
        described.len() == domains.len(),
        "libvirt took {} of {} domains: {}",
        described.len(),
        domains.len(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(described)
}

type Cases = BTreeMap<String, (Vmi, DomainSpec)>;
type Addresses = BTreeMap<String, BTreeMap<String, String>>;

fn addresses(described: &BTreeMap<String, String>) -> Result<Addresses> {
    let of = |(case, xml): (&String, &String)| {
        let mut devices = of_devices(&serde_json::to_value(parse(xml)?.devices)?);
        if xml.contains("<shmem name='hooked'") && xml.contains("string=hooked") {
            devices.insert(HOOKED.to_owned(), String::new());
        }
        Ok((case.clone(), devices))
    };
    described.iter().map(of).collect()
}

/// Placeholder interfaces, and spare ports after them: counted on KubeVirt's own types, before any hook.
fn room(vmi: &Vmi, spec: &DomainSpec) -> Result<(usize, usize)> {
    const LARGE: u64 = 2 << 30;
    let on_root_complex =
        vmi.annotation("kubevirt.io/placePCIDevicesOnRootComplex") == Some("true");
    let interfaces = vmi.spec.domain.devices.interfaces.len();
    let placeholders = match vmi.annotation("kubevirt.io/pci-interface-slot-count") {
        Some(slots) => slots.parse::<usize>()?.saturating_sub(interfaces),
        None if on_root_complex || interfaces == 0 => 0,
        None => 4_usize.saturating_sub(interfaces),
    };
    if on_root_complex {
        return Ok((placeholders, 0));
    }
    let (all, least) = if spec.memory.value > LARGE {
        (16, 6)
    } else {
        (8, 3)
    };
    let taken = pci_devices(&serde_json::to_value(&spec.devices)?);
    let free = usize::max(all.max(taken) - taken, least);
    Ok((placeholders, free.saturating_sub(placeholders)))
}

/// Devices that KubeVirt takes for PCI devices, in its own JSON.
fn pci_devices(devices: &Value) -> usize {
    let counts = |kind: &str, device: &Value| match kind {
        "Interfaces" | "Watchdogs" | "Rng" | "Ballooning" => true,
        "HostDevices" => device["Type"] == "pci",
        "Controllers" => {
            let model = device["Model"].as_str().unwrap_or_default();
            !["pci-root", "pcie-root", "pcie-expander-bus"].contains(&model)
        }
        "Disks" => device["Target"]["Bus"] == "virtio",
        "Inputs" => device["Bus"] == "virtio",
        _ => false,
    };
    let elsewhere = |device: &Value| {
        let bus = device["Address"]["Type"].as_str().unwrap_or_default();
        !matches!(bus, "" | "pci")
    };
    let each = devices.as_object().into_iter().flatten();
    each.flat_map(|(kind, devices)| {
        let list = match devices {
            Value::Array(list) => list.as_slice(),
            Value::Null => &[],
            one => std::slice::from_ref(one),
        };
        list.iter().map(move |device| (kind, device))
    })
    .filter(|(kind, device)| counts(kind, device) && !elsewhere(device))
    .count()
}

/// KubeVirt's way: placeholders, the devices read back into its own types, spare ports; the hook at each step.
fn define_like_kubevirt(
    daemon: &DaemonOnlyPod,
    directory: &Path,
    cases: &Cases,
    hook: Hook,
) -> Result<Addresses> {
    let mut specs = BTreeMap::new();
    let mut first = BTreeMap::new();
    for (case, (vmi, spec)) in cases {
        let (placeholders, ports) = room(vmi, spec)?;
        if let Some(domain) = as_first_defined(vmi, spec, placeholders) {
            first.insert(case.clone(), (spec.name.clone(), hook(render(&domain))));
        }
        specs.insert(case.clone(), (spec.clone(), ports));
    }
    for (case, xml) in define_all(daemon, directory, &first)? {
        let (spec, _) = specs.get_mut(&case).context("an unknown case")?;
        let interfaces = std::mem::take(&mut spec.devices.interfaces);
        spec.devices = parse(&xml)?.devices;
        spec.devices.interfaces = interfaces;
    }
    // The definition between these two changes nothing but the interfaces.
    let last = specs.into_iter().map(|(case, (mut spec, ports))| {
        spare_ports(&mut spec, ports);
        (case, (spec.name.clone(), hook(render(&spec))))
    });
    addresses(&define_all(daemon, directory, &last.collect())?)
}

fn define_like_this_launcher(
    daemon: &DaemonOnlyPod,
    directory: &Path,
    cases: &Cases,
    hook: Hook,
) -> Result<Addresses> {
    let mut plans = BTreeMap::new();
    let mut first = BTreeMap::new();
    for (case, (vmi, spec)) in cases {
        let plan = DefinitionPlan::plan(vmi, hook(render(spec)))?;
        first.insert(case.clone(), (spec.name.clone(), plan.first().to_owned()));
        plans.insert(case.clone(), plan);
    }
    let mut described = define_all(daemon, directory, &first)?;
    let mut second = BTreeMap::new();
    for (case, xml) in &described {
        if let Some(xml) = plans[case].second(xml)? {
            second.insert(case.clone(), (first[case].0.clone(), xml));
        }
    }
    described.extend(define_all(daemon, directory, &second)?);
    addresses(&described)
}

/// Where a device is that KubeVirt has too; spare ports are as many as the hook leaves room for.
fn differences(ours: &Addresses, theirs: &Addresses, is_compared: fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (case, theirs) in theirs {
        for (device, address) in theirs.iter().filter(|(device, _)| is_compared(device)) {
            let here = ours.get(case).and_then(|ours| ours.get(device));
            if here != Some(address) {
                found.push(format!(
                    "{case}: {device} is at {here:?} and not at {address}"
                ));
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_corpus_has_kubevirts_addresses() -> Result<()> {
    let daemon = DaemonOnlyPod::start().await?;
    let directory = tempfile::tempdir()?;
    let is_taken = |case: &String| !REFUSED.iter().any(|(refused, _)| refused == case);
    let cases: Cases = cases()?
        .into_iter()
        .filter(is_taken)
        .map(|case| Ok((case.clone(), converted(&case)?)))
        .collect::<Result<_>>()?;
    let here = |hook| define_like_this_launcher(&daemon, directory.path(), &cases, hook);
    let there = |hook| define_like_kubevirt(&daemon, directory.path(), &cases, hook);
    let (ours, theirs) = (here(unhooked)?, there(unhooked)?);
    let mut plain = differences(&ours, &theirs, |_| true);
    plain.extend(differences(&theirs, &ours, |_| true));
    ensure!(plain.is_empty(), "{}", plain.join("\n"));
    let (ours, theirs) = (here(hooked)?, there(hooked)?);
    let hooked = differences(&ours, &theirs, |device| {
        !device.starts_with("Controllers/\"pci\"")
    });
    ensure!(hooked.is_empty(), "{}", hooked.join("\n"));
    ensure!(theirs.values().all(|devices| devices.contains_key(HOOKED)));
    let placed: usize = theirs.values().map(BTreeMap::len).sum();
    ensure!(
        placed > 10 * cases.len(),
        "{placed} devices of {} guests",
        cases.len()
    );
    Ok(())
}
