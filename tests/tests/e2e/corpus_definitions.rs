//! Tests that libvirt accepts every domain of the conversion corpus, except those that it also refuses from KubeVirt.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use domain::convert::convert;
use domain::domain_spec_to_xml::render;
use domain::libvirt_spec::DomainSpec;
use kubevirt_api::vmi::Vmi;
use tempfile::TempDir;
use tests::binaries::workspace;

use super::libvirt_daemon_only_pod::DaemonOnlyPod;

/// The cases that libvirt refuses, each with a part of its message.
pub(crate) const REFUSED_CASES: &[(&str, &str)] = &[
    // Invalid PCI slots.
    ("disk-pci-address", BAD_SLOT),
    ("random-vmi-095", BAD_SLOT),
    ("random-vmi-095+root", BAD_SLOT),
    // Native IO without a cache mode: the launcher chooses the driver mode later, from the file system.
    ("disk-io-native", NO_CACHE_MODE),
    ("random-vmi-007", NO_CACHE_MODE),
    // RHEL's machine types, which other builds of QEMU lack.
    ("machine-pc-q35-rhel", NO_SUCH_MACHINE),
    ("machine-pc-q35-rhel+root", NO_SUCH_MACHINE),
    ("random-vmi-005", NO_SUCH_MACHINE),
    ("random-vmi-061", NO_SUCH_MACHINE),
    // Confidential computing, which this host lacks.
    ("sev", NO_PROTECTION),
    ("snp", NO_PROTECTION),
    ("tdx", NO_TDX),
];
const BAD_SLOT: &str = "slot must be <= 0";
const NO_CACHE_MODE: &str = "io='native' needs either no disk cache or directsync cache mode";
const NO_SUCH_MACHINE: &str = "does not support machine type";
const NO_PROTECTION: &str = "launch security is not supported with this QEMU binary";
const NO_TDX: &str = "Invalid value for attribute 'type' in element 'launchSecurity': 'tdx'";

pub(crate) fn corpus_directory() -> PathBuf {
    workspace().join("tests/corpus/vmi-to-domain-xml")
}

/// The names of the cases that are converted to a domain.
pub(crate) fn cases() -> Result<Vec<String>> {
    let mut cases = Vec::new();
    for file in fs::read_dir(corpus_directory())? {
        let file = file?.file_name().into_string().unwrap_or_default();
        let case = file.strip_suffix(".xml");
        cases.extend(
            case.filter(|case| !case.ends_with(".driver-modes"))
                .map(str::to_owned),
        );
    }
    cases.sort();
    ensure!(cases.len() > 150, "only {} cases", cases.len());
    Ok(cases)
}

/// The VMI of a case, and the domain to which it is converted.
pub(crate) fn convert_case(case: &str) -> Result<(Vmi, DomainSpec)> {
    let read =
        |ending: &str| fs::read_to_string(corpus_directory().join(format!("{case}{ending}")));
    let vmi = Vmi::from_json(read(".vmi.json")?.as_bytes())?;
    let options = serde_json::from_str(&read(".options.json")?)?;
    let host = serde_json::from_str(&fs::read_to_string(corpus_directory().join("host.json"))?)?;
    let spec = convert(&vmi, &options, &host).with_context(|| case.to_owned())?;
    Ok((vmi, spec))
}

/// Writes each case's XML to a file, and the virsh commands that define and undefine each.
fn write_definitions(cases: &[String], directory: &TempDir) -> Result<File> {
    let mut commands = String::new();
    for case in cases {
        let (_, spec) = convert_case(case)?;
        let file = file(directory, case);
        fs::write(&file, render(&spec))?;
        writeln!(
            commands,
            "define {file}\nundefine {} --keep-nvram --keep-tpm",
            spec.name
        )?;
    }
    let script = directory.path().join("commands");
    fs::write(&script, commands)?;
    Ok(File::open(script)?)
}

fn file(directory: &TempDir, case: &str) -> String {
    format!("{}/{case}.xml", directory.path().display())
}

/// virsh's error message about a domain.
fn refusal<'a>(errors: &'a str, file: &str) -> &'a str {
    const ERROR_PREFIX: &str = "Failed to define domain from ";
    let after = errors.split_once(&format!("{ERROR_PREFIX}{file}\n"));
    after.map_or("virsh says nothing of it", |(_, rest)| {
        rest.split(ERROR_PREFIX).next().unwrap_or(rest).trim()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libvirt_defines_every_converted_domain() -> Result<()> {
    let daemon = DaemonOnlyPod::start().await?;
    let directory = tempfile::tempdir()?;
    let cases = cases()?;
    let output = daemon.virsh(write_definitions(&cases, &directory)?, &[])?;
    let defined = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let mut refused: BTreeMap<&str, &str> = REFUSED_CASES.iter().copied().collect();
    let mut problems = Vec::new();
    for case in &cases {
        let file = file(&directory, case);
        let is_defined = defined.contains(&format!("defined from {file}\n"));
        match refused.remove(case.as_str()) {
            None if is_defined => {}
            None => problems.push(format!("{case}: {}", refusal(&errors, &file))),
            Some(_) if is_defined => problems.push(format!("{case}: libvirt takes it")),
            Some(reason) if refusal(&errors, &file).contains(reason) => {}
            Some(_) => problems.push(format!("{case}: {}", refusal(&errors, &file))),
        }
    }
    problems.extend(refused.keys().map(|case| format!("{case}: no such case")));
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}
