//! The table of what a hook may change of a domain that arrives, against the real libvirt and QEMU: a domain that was saved is
//! given another description (libvirt's ABI check, the one of a migration), and restored (QEMU's stream).

mod accepted_and_refused_edits;
mod only_libvirt_accepts;

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use domain_xml::{Document, PathPattern, diff};
use hook_host::policy::migration_abi;
use hook_host::policy::permission::{Permission, permits};
use tests::guest_image::Guest;
use tests::pod::{LauncherUser, Pod};

use super::daemon_only_pod::DaemonOnlyPod;
use accepted_and_refused_edits::{CASES, Edit};
use only_libvirt_accepts::{REFUSED_HERE, Stream};

const TABLE: &str =
    include_str!("../../../../src/hook-host/src/policy/migration_abi/accepted_changes.txt");
const DOMAIN: &str = include_str!("domain.xml");
/// Where the pod's QEMU can read and write.
const DISKS: &str = "/var/run/kubevirt-ephemeral-disks";
const IMAGE: &str = "/var/run/kubevirt-ephemeral-disks/saved";
const TRIED: &str = "/var/run/kubevirt-ephemeral-disks/tried";
/// The firmware of a domain without a loader, and another file of its size.
const FIRMWARE: &str = "/usr/share/seabios/bios-256k.bin";

fn lines() -> Vec<&'static str> {
    TABLE
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect()
}

/// A daemon with a domain that was saved.
struct Saved {
    daemon: DaemonOnlyPod,
    xml: String,
    directory: tempfile::TempDir,
}

impl Saved {
    async fn create() -> Result<Saved> {
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
            fs::copy(FIRMWARE, share.join(name)).context("the package seabios")?;
        }
        for name in ["disk.img", "disk2.img"] {
            fs::File::create(pod.path(DISKS).join(name))?.set_len(1 << 20)?;
        }
        let directory = tempfile::tempdir()?;
        let description = directory.path().join("domain.xml");
        fs::write(&description, DOMAIN)?;
        let daemon = DaemonOnlyPod::start_in(pod).await?;
        daemon.ask(&["create", &description.to_string_lossy()])?;
        daemon.ask(&["save", "saved", IMAGE])?;
        let xml = daemon.ask(&["save-image-dumpxml", IMAGE, "--security-info"])?;
        Ok(Saved {
            daemon,
            xml,
            directory,
        })
    }

    fn edited(&self, edit: Edit) -> Result<String> {
        edited(&self.xml, edit)
    }

    /// libvirt's refusal of this description for a copy of the saved domain, if it refuses.
    fn redefine(&self, xml: &str) -> Result<Option<String>> {
        fs::copy(self.daemon.path(IMAGE), self.daemon.path(TRIED))?;
        let description: PathBuf = self.directory.path().join("edited.xml");
        fs::write(&description, xml)?;
        let description = description.to_string_lossy();
        let arguments = ["save-image-define", TRIED, &description];
        let defined = self.daemon.virsh(Stdio::null(), &arguments)?;
        let refusal = String::from_utf8_lossy(&defined.stderr).into_owned();
        Ok((!defined.status.success()).then_some(refusal))
    }

    /// Restores the domain with this description, and ends it.
    fn restore(&self, xml: &str) -> Result<()> {
        if let Some(refusal) = self.redefine(xml)? {
            anyhow::bail!("libvirt: {refusal}");
        }
        self.daemon.ask(&["restore", TRIED])?;
        let state = self.daemon.ask(&["domstate", "saved"])?;
        self.daemon.ask(&["destroy", "saved"])?;
        ensure!(state.trim() == "running", "{state}");
        Ok(())
    }

    /// The paths of the changes that our table refuses.
    fn refused_here(&self, xml: &str) -> Result<Vec<String>> {
        let (before, after) = (Document::parse(&self.xml)?, Document::parse(xml)?);
        let changes = diff(&before, &after);
        ensure!(!changes.is_empty(), "the edit changes nothing");
        let refused = migration_abi::refused(&changes, &before, &after);
        Ok(refused
            .into_iter()
            .map(|change| change.path.clone())
            .collect())
    }

    /// Whether the other lines of the table accept these changes, too.
    fn is_accepted_without(&self, line: &str, xml: &str) -> Result<bool> {
        let (before, after) = (Document::parse(&self.xml)?, Document::parse(xml)?);
        let others = lines().into_iter().filter(|other| *other != line);
        let others: Result<Vec<PathPattern>, _> = others.map(PathPattern::parse).collect();
        let others = others?;
        Ok(diff(&before, &after).iter().all(|change| {
            let permission = permits(&others, change, &before, &after);
            matches!(permission, Permission::Granted { .. })
        }))
    }
}

fn edited(xml: &str, edit: Edit) -> Result<String> {
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
    let tried: Vec<_> = CASES.iter().map(|case| case.line).collect();
    ensure!(lines() == tried, "a case for every line, in their order");
    let saved = Saved::create().await?;
    let mut wrong = Vec::new();
    for case in CASES {
        let line = case.line;
        let accepted = saved.edited(case.accepted).context(line)?;
        if let Some(refusal) = saved.redefine(&accepted)? {
            wrong.push(format!("{line}: libvirt refuses it: {refusal}"));
        }
        let refused = saved.refused_here(&accepted).context(line)?;
        if !refused.is_empty() {
            wrong.push(format!("{line}: refused here: {refused:?}"));
        }
        if saved.is_accepted_without(line, &accepted)? {
            wrong.push(format!("{line}: the edit does not need the line"));
        }
        let beside = saved.edited(case.refused).context(line)?;
        match saved.redefine(&beside)? {
            None => wrong.push(format!("{line}: libvirt accepts {:?}", case.refused)),
            Some(refusal) if !is_abi(&refusal) => {
                wrong.push(format!("{line}: {:?}: {refusal}", case.refused));
            }
            Some(_) => {}
        }
        if saved.refused_here(&beside).context(line)?.is_empty() {
            wrong.push(format!("{line}: accepted here: {:?}", case.refused));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Whether the check of the ABI refuses, and not the parser.
fn is_abi(refusal: &str) -> bool {
    refusal.contains("unsupported configuration: Target")
        || refusal.contains("unsupported configuration: State of")
}

#[tokio::test(flavor = "multi_thread")]
async fn qemu_restores_a_domain_with_all_accepted_changes() -> Result<()> {
    let saved = Saved::create().await?;
    let mut xml = saved.xml.clone();
    // A change of a text that an earlier one has replaced is left out.
    for case in CASES.iter().filter(|case| case.is_restored) {
        if let Ok(with) = edited(&xml, case.accepted) {
            xml = with;
        }
    }
    saved.restore(&xml)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_libvirt_accepts_is_refused_here() -> Result<()> {
    let saved = Saved::create().await?;
    for (name, stream, edit) in REFUSED_HERE {
        let xml = saved.edited(edit).context(*name)?;
        let refusal = saved.redefine(&xml)?;
        ensure!(refusal.is_none(), "{name}: libvirt refuses it: {refusal:?}");
        let refused = saved.refused_here(&xml).context(*name)?;
        ensure!(!refused.is_empty(), "{name}: accepted here");
        let restored = saved.restore(&xml);
        match stream {
            Stream::Refuses => {
                let error = restored.err().context(*name)?.to_string();
                ensure!(error.contains("load of migration"), "{name}: {error}");
            }
            Stream::Accepts => restored.context(*name)?,
        }
    }
    Ok(())
}
