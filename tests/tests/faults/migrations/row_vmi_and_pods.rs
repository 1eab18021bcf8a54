//! The VMI and the pods of a migration row, as its [`Target`] requires them.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::json;
use tests::build_and_install_hooks as hooks;
use tests::launcher_fixture::{LauncherFixture, PreparedPod};
use tests::migration::{SOURCE_POD, TARGET_POD, migrating, prepare_pod};
use tests::pod::LauncherUser;
use tests::sidecar_server::Sidecar as GrpcSidecar;
use tests::vmi_builder::Vmi;

use super::migration_row::{Sidecar, Target};
use super::sidecar_xml_rewrites;

/// Mounts a file system with space for an empty image, but not for the blocks that the guest has written.
const SMALL_DISK: &str = "mkdir -p /run/libvirt/empty-disks
    mount -t tmpfs -o size=6m,mode=2777,uid=107,gid=107 tmpfs /run/libvirt/empty-disks";
/// A libvirt hook that hangs: libvirt waits for its hooks without a limit.
const HUNG_HOOK: &str = "#!/bin/sh\ncase \"$2\" in migrate) sleep 5; exit 1 ;; esac\nexit 0\n";
/// The annotation with what `misbehaving-hook` does on the target.
const ON_ARRIVAL: &str = "misbehaving.example.com/on-arrival";
/// The annotation of a VM that has a disk with content.
const DISK: &str = "row.example.com/disk";
/// The annotation with the XML rewrite of the VM's gRPC sidecar.
const SIDECAR: &str = "row.example.com/sidecar";
/// The annotation of a VM whose module does not return from PreMigrationSource before a slow migration.
const HOOK_HANGS: &str = "row.example.com/hook-hangs";
const REWRITE_TYPES: &str = "rewrite-types";
const APPEND_ELEMENT: &str = "append-element";

/// Creates the VMI with the disks and annotations that the row needs.
pub(super) fn create_vmi(target: Target) -> Vmi {
    let vmi = Vmi::new("moves", LauncherUser::Nonroot);
    match target {
        Target::MisbehavingHook(word) => vmi.annotate(ON_ARRIVAL, word),
        Target::FullDisk => vmi.annotate(DISK, "").empty_disk("scratch", "64Mi"),
        Target::Sidecar(Sidecar::RewriteTypes) => vmi.annotate(SIDECAR, REWRITE_TYPES),
        Target::Sidecar(Sidecar::AppendElement) => vmi.annotate(SIDECAR, APPEND_ELEMENT),
        Target::HookHangsBeforeMigration => vmi.annotate(HOOK_HANGS, ""),
        _ => vmi,
    }
}

/// The annotations by which VMs of different rows differ.
pub(super) fn fixture_annotations(vmi: &Vmi) -> [Option<&str>; 4] {
    [ON_ARRIVAL, DISK, SIDECAR, HOOK_HANGS].map(|name| vmi.annotation(name))
}

/// The VMI during a migration, see [`migrating`]; with block migration if the VM has a disk.
pub(super) fn in_migration(vmi: &Vmi, uid: &str) -> Vmi {
    let has_disk = vmi.annotation(DISK).is_some();
    migrating(vmi, uid).edit(|vmi| {
        if has_disk {
            vmi["status"]["migrationMethod"] = json!("BlockMigration");
        }
    })
}

/// Writes more data to the disk than the target's file system has space for.
async fn fill_disk(launcher: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let script = "for n in 1 2 3 4 5 6 7 8; do cat /bin/busybox; done >/dev/vda && sync";
    let arguments = ["-c", script];
    let answer = launcher.commands.exec(vmi, "/bin/sh", &arguments).await?;
    ensure!(answer.exit_code == 0, "{answer:?}");
    Ok(())
}

/// Starts the VM's gRPC sidecar or installs its module, if the VM has one. Returns the launcher's arguments.
fn serve_sidecar(prepared: &PreparedPod, vmi: &Vmi) -> Result<&'static [&'static str]> {
    if vmi.annotation(HOOK_HANGS).is_some() {
        let module = hooks::rust_hook("hang-at-pre-migration-source-hook")?;
        hooks::install(&prepared.pod.hooks_dir()?, "hook-sidecar-0", &module)?;
        return Ok(&["--hook-sidecars", "1"]);
    }
    let rewrite = match vmi.annotation(SIDECAR) {
        Some(REWRITE_TYPES) => sidecar_xml_rewrites::rewrite_types,
        Some(_) => sidecar_xml_rewrites::append_element,
        None => return Ok(&[]),
    };
    let sidecar = GrpcSidecar::new("sidecar").on_define_domain(0, move |xml| Ok(rewrite(&xml)));
    let sidecar = sidecar.serve(&prepared.pod.hooks_dir()?, "hook-sidecar-0")?;
    sidecar.keep_running();
    Ok(&["--hook-sidecars", "1"])
}

/// A running VM and its launcher.
pub(crate) struct RunningVm {
    pub(crate) launcher: LauncherFixture,
    pub(super) vmi: Vmi,
    /// The number of the simulated host that runs the VM.
    pub(super) host: u32,
}

/// Boots the VM in a new source pod on the simulated host number `host`.
pub(super) async fn boot_source(target: Target, host: u32) -> Result<RunningVm> {
    let vmi = create_vmi(target);
    let prepared = prepare_pod(LauncherUser::Nonroot, host, SOURCE_POD)?;
    let arguments = serve_sidecar(&prepared, &vmi)?;
    let launcher = prepared.start(&vmi, arguments).await?;
    launcher.boot_without_controller(&vmi).await?;
    launcher.wait_for_agent(&vmi).await?;
    if vmi.annotation(DISK).is_some() {
        fill_disk(&launcher, &vmi).await?;
    }
    Ok(RunningVm {
        launcher,
        vmi,
        host,
    })
}

/// Starts the target's launcher on the simulated host number `host`.
pub(super) async fn start_target(vmi: &Vmi, host: u32, target: Target) -> Result<LauncherFixture> {
    let prepared = prepare_pod(LauncherUser::Nonroot, host, TARGET_POD)?;
    let module = match target {
        Target::Veto => Some(hooks::example("required-label-hook")?),
        Target::MisbehavingHook(_) => Some(hooks::rust_hook("misbehaving-hook")?),
        _ => None,
    };
    if let Some(module) = &module {
        hooks::install(&prepared.pod.hooks_dir()?, "hook-sidecar-0", module)?;
    }
    if target == Target::HungHook {
        let hook = prepared.pod.path("/etc/libvirt/hooks/qemu");
        fs::remove_file(&hook)?;
        prepared.pod.replace_program("hung-hook", HUNG_HOOK)?;
        prepared.pod.link_program("hung-hook", &hook)?;
    }
    match target {
        Target::FullDisk => prepared.pod.set_up_network(SMALL_DISK, "")?,
        Target::NoUserfaultfd => prepared.pod.hide_userfaultfd()?,
        _ => {}
    }
    let arguments = match module {
        Some(_) => &["--hook-sidecars", "1"],
        None => serve_sidecar(&prepared, vmi)?,
    };
    prepared.start(vmi, arguments).await
}
