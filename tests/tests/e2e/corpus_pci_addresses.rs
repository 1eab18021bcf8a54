//! Tests that every domain of the conversion corpus has the same PCI addresses as with KubeVirt's launcher, with and
//! without a hook that adds QEMU arguments and a device.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use domain::domain_spec_from_xml::parse;
use domain::domain_spec_to_xml::render;
use domain::hotplug_ports::DefinitionPlan;
use domain::libvirt_spec::DomainSpec;
use kubevirt_api::vmi::Vmi;

use super::corpus_definitions::{REFUSED_CASES, cases, convert_case};
use super::kubevirts_domain_definitions::{
    add_spare_ports, hotplug_ports, kubevirts_first_definition,
};
use super::libvirt_daemon_only_pod::DaemonOnlyPod;
use super::pci_addresses_equal_to_kubevirts::{
    addresses_of_devices, differences_of_devices, is_root_port,
};

/// A device that KubeVirt's types lack, so that KubeVirt's launcher loses it when it parses the domain.
const HOOK_DEVICE: &str =
    "<shmem name='hooked'><model type='ivshmem-plain'/><size unit='M'>1</size></shmem>";
/// QEMU arguments that the hook adds.
const HOOK_ARGUMENTS: &str = "<qemu:commandline><qemu:arg value='-fw_cfg'/>\
    <qemu:arg value='name=opt/tests,string=hooked'/></qemu:commandline>";

/// The name of the hook's device in a list of addresses.
const HOOK_DEVICE_NAME: &str = "hooked";

/// The domain after the changes of the hook.
pub(crate) fn with_hook_changes(xml: String) -> String {
    let xml = xml.replace("</devices>", &format!("{HOOK_DEVICE}</devices>"));
    match xml.contains("</qemu:commandline>") {
        true => xml,
        false => xml.replace("</domain>", &format!("{HOOK_ARGUMENTS}</domain>")),
    }
}

pub(crate) fn without_hook(xml: String) -> String {
    xml
}

/// A change of the domain before it is defined.
pub(crate) type Hook = fn(String) -> String;

/// Defines and undefines all domains with one process of virsh, and returns libvirt's XML of each.
fn define_all(
    daemon: &DaemonOnlyPod,
    directory: &Path,
    domains: &BTreeMap<String, (String, String)>,
) -> Result<BTreeMap<String, String>> {
    const CASE_MARK: &str = "next: ";
    let mut commands = String::new();
    for (number, (case, (name, xml))) in domains.iter().enumerate() {
        let file = directory.join(format!("{number}.xml"));
        fs::write(&file, xml)?;
        writeln!(
            commands,
            "echo '{CASE_MARK}{case}'\ndefine {}",
            file.display()
        )?;
        writeln!(commands, "dumpxml --inactive {name}")?;
        writeln!(commands, "undefine {name} --keep-nvram --keep-tpm")?;
    }
    let script = directory.join("commands");
    fs::write(&script, commands)?;
    let output = daemon.virsh(File::open(script)?, &[])?;
    let text = String::from_utf8_lossy(&output.stdout);
    let defined_xml = text.split(CASE_MARK).skip(1).filter_map(|part| {
        let (case, rest) = part.split_once('\n')?;
        let end = rest.find("</domain>")? + "</domain>".len();
        let begin = rest.find("<domain")?;
        Some((case.trim().to_owned(), rest[begin..end].to_owned()))
    });
    let defined_xml: BTreeMap<_, _> = defined_xml.collect();
    ensure!(
        defined_xml.len() == domains.len(),
        "libvirt took {} of {} domains: {}",
        defined_xml.len(),
        domains.len(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(defined_xml)
}

type Cases = BTreeMap<String, (Vmi, DomainSpec)>;
type Addresses = BTreeMap<String, BTreeMap<String, String>>;

fn addresses(defined_xml: &BTreeMap<String, String>) -> Result<Addresses> {
    let addresses_of_case = |(case, xml): (&String, &String)| {
        let mut devices = addresses_of_devices(&serde_json::to_value(parse(xml)?.devices)?);
        if xml.contains("<shmem name='hooked'") && xml.contains("string=hooked") {
            devices.insert(HOOK_DEVICE_NAME.to_owned(), String::new());
        }
        Ok((case.clone(), devices))
    };
    defined_xml.iter().map(addresses_of_case).collect()
}

/// Defines the domains as KubeVirt's launcher does: with placeholders, then with the addresses that libvirt assigned
/// and with spare ports. The hook changes each definition.
fn define_like_kubevirt(
    daemon: &DaemonOnlyPod,
    directory: &Path,
    cases: &Cases,
    hook: Hook,
) -> Result<Addresses> {
    let mut specs = BTreeMap::new();
    let mut first_definitions = BTreeMap::new();
    for (case, (vmi, spec)) in cases {
        let (placeholders, ports) = hotplug_ports(vmi, spec)?;
        if let Some(domain) = kubevirts_first_definition(vmi, spec, placeholders) {
            first_definitions.insert(case.clone(), (spec.name.clone(), hook(render(&domain))));
        }
        specs.insert(case.clone(), (spec.clone(), ports));
    }
    for (case, xml) in define_all(daemon, directory, &first_definitions)? {
        let (spec, _) = specs.get_mut(&case).context("an unknown case")?;
        let interfaces = std::mem::take(&mut spec.devices.interfaces);
        spec.devices = parse(&xml)?.devices;
        spec.devices.interfaces = interfaces;
    }
    // KubeVirt's launcher defines the domain once more in between, which only changes the interfaces.
    let last_definitions = specs.into_iter().map(|(case, (mut spec, ports))| {
        add_spare_ports(&mut spec, ports);
        (case, (spec.name.clone(), hook(render(&spec))))
    });
    addresses(&define_all(daemon, directory, &last_definitions.collect())?)
}

/// Defines the domains as this launcher does.
fn define_like_this_launcher(
    daemon: &DaemonOnlyPod,
    directory: &Path,
    cases: &Cases,
    hook: Hook,
) -> Result<Addresses> {
    let mut plans = BTreeMap::new();
    let mut first_definitions = BTreeMap::new();
    for (case, (vmi, spec)) in cases {
        let plan = DefinitionPlan::plan(vmi, hook(render(spec)))?;
        first_definitions.insert(case.clone(), (spec.name.clone(), plan.first().to_owned()));
        plans.insert(case.clone(), plan);
    }
    let mut defined_xml = define_all(daemon, directory, &first_definitions)?;
    let mut second = BTreeMap::new();
    for (case, xml) in &defined_xml {
        if let Some(xml) = plans[case].second(xml)? {
            second.insert(case.clone(), (first_definitions[case].0.clone(), xml));
        }
    }
    defined_xml.extend(define_all(daemon, directory, &second)?);
    addresses(&defined_xml)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_corpus_has_kubevirts_addresses() -> Result<()> {
    let daemon = DaemonOnlyPod::start().await?;
    let directory = tempfile::tempdir()?;
    let is_defined = |case: &String| !REFUSED_CASES.iter().any(|(refused, _)| refused == case);
    let cases: Cases = cases()?
        .into_iter()
        .filter(is_defined)
        .map(|case| Ok((case.clone(), convert_case(&case)?)))
        .collect::<Result<_>>()?;
    let by_this_launcher =
        |hook| define_like_this_launcher(&daemon, directory.path(), &cases, hook);
    let by_kubevirt = |hook| define_like_kubevirt(&daemon, directory.path(), &cases, hook);
    let (ours, theirs) = (by_this_launcher(without_hook)?, by_kubevirt(without_hook)?);
    let mut plain = Vec::new();
    for (case, (vmi, spec)) in &cases {
        let (placeholders, _) = hotplug_ports(vmi, spec)?;
        plain.extend(differences_of_devices(
            case,
            &ours[case],
            &theirs[case],
            placeholders,
        ));
    }
    ensure!(plain.is_empty(), "{}", plain.join("\n"));
    let (mut ours, mut theirs) = (
        by_this_launcher(with_hook_changes)?,
        by_kubevirt(with_hook_changes)?,
    );
    let device_count: usize = theirs.values().map(BTreeMap::len).sum();
    // With a hook, the number of spare ports may differ.
    for devices in ours.values_mut().chain(theirs.values_mut()) {
        devices.retain(|device, _| !is_root_port(device));
    }
    let with_hook: Vec<_> = theirs
        .iter()
        .flat_map(|(case, theirs)| differences_of_devices(case, &ours[case], theirs, 0))
        .collect();
    ensure!(with_hook.is_empty(), "{}", with_hook.join("\n"));
    ensure!(
        theirs
            .values()
            .all(|devices| devices.contains_key(HOOK_DEVICE_NAME))
    );
    ensure!(
        device_count > 10 * cases.len(),
        "{device_count} devices of {} guests",
        cases.len()
    );
    Ok(())
}
