//! Tests the hook policy's table of the changes that a hook may make to the domain of an incoming migration, with
//! libvirt and QEMU. There is no migration: a saved domain is redefined, which has the same ABI check in libvirt, and
//! restored, which reads the same stream in QEMU.

mod accepted_and_refused_edits;
mod edits_accepted_only_by_libvirt;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use domain_xml::host::diff;
use domain_xml::{Document, Element, PathPattern};
use hook_host::ConditionedPath;
use hook_host::policy::migration_abi;
use hook_host::policy::permission::{Permission, permits};
use tests::guest_image::Guest;
use tests::pod::{LauncherUser, Pod};

use super::libvirt_daemon_only_pod::DaemonOnlyPod;
use accepted_and_refused_edits::{CASES, Edit};
use edits_accepted_only_by_libvirt::{REFUSED_EDITS, RestoreResult};

const ACCEPTED_CHANGES: &str =
    include_str!("../../../../src/hook-host/src/policy/migration_abi/accepted_changes.txt");
const DOMAIN_XML: &str = include_str!("domain.xml");
/// A directory in which the pod's QEMU can read and write.
const DISK_DIRECTORY: &str = "/var/run/kubevirt-ephemeral-disks";
const SAVED_IMAGE: &str = "/var/run/kubevirt-ephemeral-disks/saved";
const EDITED_IMAGE: &str = "/var/run/kubevirt-ephemeral-disks/tried";
/// The firmware that QEMU uses by default, of which the pod has two copies.
const FIRMWARE_PATH: &str = "/usr/share/seabios/bios-256k.bin";
/// Where Debian 12 and Debian 13 have the ROMs of network cards.
const ROM_DIRECTORIES: [&str; 2] = ["/usr/lib/ipxe/qemu", "/usr/share/qemu"];

fn table_lines() -> Vec<&'static str> {
    ACCEPTED_CHANGES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect()
}

/// A saved domain, and the daemon that saved it.
struct SavedDomain {
    daemon: DaemonOnlyPod,
    xml: String,
    directory: tempfile::TempDir,
}

impl SavedDomain {
    async fn create() -> Result<SavedDomain> {
        let pod = Pod::create(LauncherUser::Root)?;
        pod.disable_virtlogd()?;
        Guest::prepare()?.install_kernel_boot(&pod.path("/run/kubevirt"))?;
        let share = pod.share_dir();
        for name in ["kernel", "kernel2"] {
            fs::copy(share.join("kernel-boot/vmlinuz"), share.join(name))?;
        }
        for name in ["initrd", "initrd2"] {
            fs::write(share.join(name), "an initrd that is never read")?;
        }
        for name in ["bios", "bios2"] {
            fs::copy(FIRMWARE_PATH, share.join(name)).context("the package seabios")?;
        }
        let mut rom_directories = ROM_DIRECTORIES.map(Path::new).into_iter();
        let roms = rom_directories.find(|directory| directory.join("efi-virtio.rom").is_file());
        let roms = roms.context("the package ipxe-qemu")?;
        for name in ["efi-virtio.rom", "efi-e1000.rom"] {
            fs::copy(roms.join(name), share.join(name))?;
        }
        for name in ["disk.img", "disk2.img"] {
            fs::File::create(pod.path(DISK_DIRECTORY).join(name))?.set_len(1 << 20)?;
        }
        let directory = tempfile::tempdir()?;
        let description = directory.path().join("domain.xml");
        fs::write(&description, DOMAIN_XML)?;
        let daemon = DaemonOnlyPod::start_in(pod).await?;
        daemon.virsh_output(&["create", &description.to_string_lossy()])?;
        daemon.virsh_output(&["save", "saved", SAVED_IMAGE])?;
        let xml = daemon.virsh_output(&["save-image-dumpxml", SAVED_IMAGE, "--security-info"])?;
        Ok(SavedDomain {
            daemon,
            xml,
            directory,
        })
    }

    fn apply_edit(&self, edit: Edit) -> Result<String> {
        apply_edit(&self.xml, edit)
    }

    /// Redefines a copy of the saved domain with this XML. Returns libvirt's error message if it refuses.
    fn redefine(&self, xml: &str) -> Result<Option<String>> {
        fs::copy(
            self.daemon.path(SAVED_IMAGE),
            self.daemon.path(EDITED_IMAGE),
        )?;
        let description: PathBuf = self.directory.path().join("edited.xml");
        fs::write(&description, xml)?;
        let description = description.to_string_lossy();
        let arguments = ["save-image-define", EDITED_IMAGE, &description];
        let output = self.daemon.virsh(Stdio::null(), &arguments)?;
        let refusal = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((!output.status.success()).then_some(refusal))
    }

    /// Restores the domain with this XML, and ends it.
    fn restore(&self, xml: &str) -> Result<()> {
        if let Some(refusal) = self.redefine(xml)? {
            anyhow::bail!("libvirt: {refusal}");
        }
        self.daemon.virsh_output(&["restore", EDITED_IMAGE])?;
        let state = self.daemon.virsh_output(&["domstate", "saved"])?;
        self.daemon.virsh_output(&["destroy", "saved"])?;
        ensure!(state.trim() == "running", "{state}");
        Ok(())
    }

    /// The paths of the changes that the table refuses.
    fn paths_refused_by_table(&self, xml: &str) -> Result<Vec<String>> {
        let (before, after) = (Document::parse(&self.xml)?, Document::parse(xml)?);
        let changes = diff(&before, &after);
        ensure!(!changes.is_empty(), "the edit changes nothing");
        let refused = migration_abi::refused(&changes, &before, &after);
        Ok(refused
            .into_iter()
            .map(|change| change.path.clone())
            .collect())
    }

    /// Whether the other lines of the table also accept these changes.
    fn is_accepted_without(&self, line: &str, xml: &str) -> Result<bool> {
        let (before, after) = (Document::parse(&self.xml)?, Document::parse(xml)?);
        let others = table_lines().into_iter().filter(|other| *other != line);
        let others: Result<Vec<_>, _> = others.map(PathPattern::parse).collect();
        let others: Vec<ConditionedPath> = others?.into_iter().map(ConditionedPath::from).collect();
        Ok(diff(&before, &after).iter().all(|change| {
            let permission = permits(&others, change, &before, &after);
            matches!(permission, Permission::Granted { .. })
        }))
    }
}

fn apply_edit(xml: &str, edit: Edit) -> Result<String> {
    let mut xml = xml.to_owned();
    for (from, to) in edit {
        let count = xml.matches(from).count();
        ensure!(count == 1, "{from:?} occurs {count} times in {xml}");
        xml = xml.replace(from, to);
    }
    Ok(xml)
}

#[tokio::test(flavor = "multi_thread")]
async fn libvirt_accepts_every_line_of_the_table_and_refuses_what_is_beside_it() -> Result<()> {
    let lines_of_cases: Vec<_> = CASES.iter().map(|case| case.line).collect();
    ensure!(
        table_lines() == lines_of_cases,
        "a case for every line, in their order"
    );
    let saved = SavedDomain::create().await?;
    let mut problems = Vec::new();
    for case in CASES {
        let line = case.line;
        let accepted = saved.apply_edit(case.accepted).context(line)?;
        if let Some(refusal) = saved.redefine(&accepted)? {
            problems.push(format!("{line}: libvirt refuses it: {refusal}"));
        }
        let refused = saved.paths_refused_by_table(&accepted).context(line)?;
        if !refused.is_empty() {
            problems.push(format!("{line}: refused here: {refused:?}"));
        }
        if saved.is_accepted_without(line, &accepted)? {
            problems.push(format!("{line}: the edit does not need the line"));
        }
        let refused_xml = saved.apply_edit(case.refused).context(line)?;
        match saved.redefine(&refused_xml)? {
            None => problems.push(format!("{line}: libvirt accepts {:?}", case.refused)),
            Some(refusal) if !is_refusal_of_abi_check(&refusal) => {
                problems.push(format!("{line}: {:?}: {refusal}", case.refused));
            }
            Some(_) => {}
        }
        if saved
            .paths_refused_by_table(&refused_xml)
            .context(line)?
            .is_empty()
        {
            problems.push(format!("{line}: accepted here: {:?}", case.refused));
        }
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// Whether the message is one of libvirt's ABI check, and not of its parser.
fn is_refusal_of_abi_check(refusal: &str) -> bool {
    refusal.contains("unsupported configuration: Target")
        || refusal.contains("unsupported configuration: State of")
}

#[tokio::test(flavor = "multi_thread")]
async fn qemu_restores_a_domain_with_all_accepted_changes() -> Result<()> {
    let saved = SavedDomain::create().await?;
    let mut xml = saved.xml.clone();
    // An edit of a text that an earlier edit has replaced is skipped.
    for case in CASES.iter().filter(|case| case.is_restored) {
        if let Ok(edited) = apply_edit(&xml, case.accepted) {
            xml = edited;
        }
    }
    saved.restore(&xml)
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_accepted_only_by_libvirt_are_refused_by_the_policy() -> Result<()> {
    let saved = SavedDomain::create().await?;
    for (name, expected, edit) in REFUSED_EDITS {
        let xml = saved.apply_edit(edit).context(*name)?;
        let refusal = saved.redefine(&xml)?;
        ensure!(refusal.is_none(), "{name}: libvirt refuses it: {refusal:?}");
        let refused = saved.paths_refused_by_table(&xml).context(*name)?;
        ensure!(!refused.is_empty(), "{name}: accepted here");
        let restored = saved.restore(&xml);
        match expected {
            RestoreResult::Fails => {
                let error = restored.err().context(*name)?.to_string();
                ensure!(error.contains("load of migration"), "{name}: {error}");
            }
            RestoreResult::Succeeds => restored.context(*name)?,
        }
    }
    Ok(())
}

/// So that no hook can mend a CPU that a newer QEMU reports otherwise ("extra features: ht").
#[tokio::test(flavor = "multi_thread")]
async fn libvirt_refuses_another_check_and_other_features_of_the_cpu() -> Result<()> {
    let saved = SavedDomain::create().await?;
    let mut edited = [Document::parse(&saved.xml)?, Document::parse(&saved.xml)?];
    let [other_check, other_features] = &mut edited;
    let cpu = other_check.root_mut().ensure_child("cpu");
    let check = match cpu.attr("check").as_deref() {
        Some("partial") => "full",
        _ => "partial",
    };
    cpu.set_attr("check", check);
    let feature = Element::new("feature")
        .with_attr("policy", "require")
        .with_attr("name", "ht");
    other_features
        .root_mut()
        .ensure_child("cpu")
        .append(feature);
    for domain in &edited {
        let xml = domain.render();
        let refusal = saved.redefine(&xml)?.context("libvirt accepts it")?;
        ensure!(is_refusal_of_abi_check(&refusal), "{refusal}");
        ensure!(
            !saved.paths_refused_by_table(&xml)?.is_empty(),
            "accepted here"
        );
    }
    Ok(())
}
