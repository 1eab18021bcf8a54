//! Prepares this pod as the target of a migration, before the source's libvirt sends the domain.
//!
//! Nothing is defined and nothing is published: libvirt receives the domain from the source
//! ([`crate::manager::incoming_migration_end_task`] watches for that). Hooks run as for a boot, so that a veto or a
//! failure is reported before the migration begins; the domain that they return only serves snapshots while libvirt
//! cannot describe the domain yet.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use domain::convert::Purpose;
use domain::host_facts::HostFacts;
use hook_host::Reason;
use kubevirt_api::domain_metadata::Migration;
use kubevirt_api::migration_metadata_values::RequestedMigration;
use kubevirt_api::vmi::{MigrationState, Vmi};
use tokio_util::sync::CancellationToken;

use super::prepare_domain::ConvertedVm;
use super::{require_own_vm, unless_interrupted};
use crate::libvirt_migration_hook_server::{EditDomain, HookServer};
use crate::manager::CommandSuccess;
use crate::manager::command_error::CommandError;
use crate::manager::incoming_migration::IncomingDomainEditor;
use crate::manager::kubevirt_metadata::now;
use crate::manager::sync_request::SyncRequest;
use crate::manager::vm_context::VmContext;
use crate::manager::vm_phase::Role;
use crate::untrusted_file::open_image;
use crate::vm_boot::boot_resources::FILE_TIMEOUT;
use crate::vm_boot::migration_target_sockets::MigrationTransport;
use crate::{blocking, unix_listener};

/// Annotation by which KubeVirt's functional tests block the preparation of a migration's target.
const TEST_BLOCK_ANNOTATION: &str = "kubevirt.io/func-test-block-migration-target-preparation";

/// Prepares this pod for the VM. virt-handler repeats the request until it succeeds, and sometimes after that: each
/// time everything is prepared again, except what the source may already be using.
pub(in crate::manager) async fn sync_migration_target(
    vm: &VmContext,
    request: &SyncRequest,
    interrupted: &CancellationToken,
) -> Result<CommandSuccess, CommandError> {
    let vmi = &request.vmi;
    require_own_vm(vm, vmi)?;
    if vm.client.lookup().await?.is_some() {
        tracing::info!("the virtual machine is here already, or on its way");
        return Ok(CommandSuccess::Unchanged);
    }
    let state = vmi.status.migration_state.clone().unwrap_or_default();
    let record = record(vm, &state)?;
    vm.driver_state().role = Role::Target;
    vm.incoming_migration
        .send_modify(|stage| *stage = stage.expect());
    if unless_interrupted(interrupted, prepare(vm, request, &state)).await?
        == CommandSuccess::Unchanged
    {
        return Ok(CommandSuccess::Unchanged);
    }
    vm.metadata
        .set_identity(vmi.uid(), vmi.grace_period_seconds());
    if let Some(record) = record {
        vm.metadata.set_migration(record);
    }
    vm.driver_state().paused_on_source = vmi.status.has_condition("Paused");
    tracing::info!(migration = state.uid_on_target(), "ready for the migration");
    Ok(CommandSuccess::Changed)
}

async fn prepare(
    vm: &VmContext,
    request: &SyncRequest,
    state: &MigrationState,
) -> Result<CommandSuccess, CommandError> {
    let vmi = &request.vmi;
    let converted = ConvertedVm::convert(vm, request, Purpose::MigrationTarget).await?;
    let prepared = converted.prepare(vm).await?;
    if vmi.annotation(TEST_BLOCK_ANNOTATION).is_some() {
        return Err(CommandError::BlockedByTestAnnotation);
    }
    if let Some(image) = prepared.cloud_init {
        let written = vm.boot_resources.write_cloud_init(vmi, None, image);
        written.await?;
    }
    // The migration may have begun during the preparation.
    if vm.client.lookup().await?.is_some() {
        tracing::info!("the virtual machine is on its way");
        return Ok(CommandSuccess::Unchanged);
    }
    let expected = domain::domain_spec_from_xml::parse(&prepared.xml);
    vm.client
        .expect(expected.map_err(|error| CommandError::DomainDescription(error.to_string()))?);
    let mut sockets = vm.migration_sockets.lock().await;
    if vm.driver_state().role != Role::Target {
        tracing::info!("the virtual machine has arrived meanwhile");
        return Ok(CommandSuccess::Unchanged);
    }
    serve_hook(vm, request, prepared.facts).await?;
    vm.credentials.send_replace(prepared.credentials);
    let prepared = sockets.prepare(
        &vm.boot_resources.migration_sockets,
        state.source_vmi_uid(vmi.uid()),
        transport(vmi),
    );
    prepared.await?;
    drop(sockets);
    if state.is_decentralized() {
        require_hotplugged_disks(vmi, &vm.boot_resources.hotplug_disks).await?;
    }
    Ok(CommandSuccess::Changed)
}

/// Starts the server that libvirt's migration hook asks for the edits of the incoming domain.
async fn serve_hook(
    vm: &VmContext,
    request: &SyncRequest,
    facts: HostFacts,
) -> Result<(), CommandError> {
    let incoming = Arc::new(IncomingDomainEditor {
        hooks: Arc::clone(&vm.hooks),
        hook_failures: vm.hook_failures.clone(),
        invocation: vm.identity.invocation(Reason::MigrationTarget),
        request: request.clone(),
        edits: vm.boot_resources.incoming_edits.map(|edits| (facts, edits)),
        last_edit: Arc::clone(&vm.last_incoming_edit),
    });
    let edit: EditDomain = Arc::new(move |xml| {
        let incoming = Arc::clone(&incoming);
        Box::pin(async move { incoming.edit(xml).await })
    });
    if let Some(server) = &vm.driver_state().hook_server {
        // The server keeps its socket, because libvirt's hook may be connected to it.
        server.replace(edit);
        return Ok(());
    }
    let path = &vm.boot_resources.hook_socket;
    let failed = |source| CommandError::HookSocket {
        path: path.clone(),
        source,
    };
    let to_bind = path.clone();
    let bind = move || unix_listener::bind(&to_bind);
    let bound =
        blocking::file_call("making the socket of libvirt's hook", FILE_TIMEOUT, bind).await?;
    let server = HookServer::start(bound.map_err(failed)?, path, edit).map_err(failed)?;
    vm.driver_state().hook_server = Some(server);
    Ok(())
}

fn transport(vmi: &Vmi) -> MigrationTransport {
    match vmi.status.migrates_over_unix_sockets() {
        true => MigrationTransport::Unix,
        false => MigrationTransport::Loopback {
            with_disks: vmi.status.is_block_migration(),
        },
    }
}

/// The record of a new migration; `None` for a migration that is recorded already and has not ended.
fn record(vm: &VmContext, state: &MigrationState) -> Result<Option<Migration>, CommandError> {
    let last = vm.metadata.current().migration;
    match Migration::request(last.as_ref(), state.uid_on_target()) {
        RequestedMigration::New => Ok(Some(Migration::begin(state.uid_on_target(), now()))),
        RequestedMigration::UnderWay => Ok(None),
        RequestedMigration::Ended => {
            let last = last.unwrap_or_default();
            Err(CommandError::MigrationExecuted {
                uid: last.uid,
                end: last.end_timestamp.unwrap_or_default(),
                failed: last.failed,
                abort_status: last.abort_status,
            })
        }
    }
}

/// Requires that `directory` has as many files as the VMI has hotplugged volumes, and that each can be opened. A
/// missing directory is accepted, as by KubeVirt's launcher.
async fn require_hotplugged_disks(vmi: &Vmi, directory: &Path) -> Result<(), CommandError> {
    let expected = hotplugged_volume_count(vmi);
    let directory = directory.to_owned();
    let check = move || check(expected, &directory);
    let checked = blocking::file_call("looking for hotplugged disks", FILE_TIMEOUT, check).await?;
    checked.map_err(CommandError::HotplugDisks)
}

fn hotplugged_volume_count(vmi: &Vmi) -> usize {
    let volumes = vmi.value()["spec"]["volumes"].as_array();
    let is_hotplugged = |volume: &&serde_json::Value| {
        ["dataVolume", "persistentVolumeClaim"]
            .iter()
            .any(|source| volume[*source]["hotpluggable"] == true)
    };
    volumes.into_iter().flatten().filter(is_hotplugged).count()
}

fn check(expected: usize, directory: &Path) -> Result<(), String> {
    if expected == 0 {
        return Ok(());
    }
    let unreadable =
        |path: &Path, error: io::Error| format!("hotplugged disk {}: {error}", path.display());
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| unreadable(directory, error))?,
    };
    let files: Result<Vec<_>, _> = entries.map(|entry| Ok(entry?.path())).collect();
    let files = files.map_err(|error| unreadable(directory, error))?;
    if files.len() != expected {
        return Err(format!(
            "found {} hotplugged disks files in {}, expected {expected}",
            files.len(),
            directory.display()
        ));
    }
    let failures: Vec<_> = files
        .iter()
        .filter_map(|file| Some(unreadable(file, open_image(file).err()?)))
        .collect();
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hotplugged_data_volumes_and_claims_are_counted() {
        let vmi = r#"{"metadata":{"name":"vm1","namespace":"default"},"spec":{"volumes":[
            {"name":"a","dataVolume":{"name":"a","hotpluggable":true}},{"name":"b","dataVolume":{"name":"b"}},
            {"name":"c","persistentVolumeClaim":{"claimName":"c","hotpluggable":true}}]}}"#;
        assert_eq!(
            hotplugged_volume_count(&Vmi::from_json(vmi.as_bytes()).unwrap()),
            2
        );
    }

    #[test]
    fn missing_disk_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(check(0, directory.path()), Ok(()));
        assert_eq!(check(1, &directory.path().join("none")), Ok(()));
        let error = check(1, directory.path()).unwrap_err();
        assert!(
            error.starts_with("found 0 hotplugged disks files"),
            "{error}"
        );
        fs::write(directory.path().join("disk.img"), "").unwrap();
        assert_eq!(check(1, directory.path()), Ok(()));
    }
}
