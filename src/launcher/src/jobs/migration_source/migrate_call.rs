//! libvirt's migrate call: its preparation, and the thread that makes it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::{fs, thread};

use domain::migration::{
    MigrationXmlError, TargetCpuPlacement, TargetEdits, disks_to_copy, migrated_volume_disks,
    target_xml,
};
use domain_xml::Document;
use libvirt::{Domain, DomainState, MigrationFlags, MigrationRequest, XmlKind};
use tokio::sync::oneshot;

use super::monitor_calls::{QUERY_TIMEOUT, state};
use super::sriov_interfaces::DetachedDevices;
use super::{MigrationJob, sriov_interfaces};
use crate::jobs::{JobContext, JobError, domain_call};

/// Receives the result of libvirt's call.
pub(super) type MigrateResult = oneshot::Receiver<libvirt::Result<()>>;

/// A prepared call.
pub(super) struct PreparedCall {
    destination: String,
    request: MigrationRequest,
    /// Whether the guest is paused, and stays paused on the target.
    pub(super) is_paused: bool,
}

/// Detaches SR-IOV interfaces, which cannot migrate, and creates the parameters of the call with the domain for the
/// target.
pub(super) async fn prepare(
    context: &JobContext,
    job: &MigrationJob,
    domain: &Arc<dyn Domain>,
    detached: &mut DetachedDevices,
) -> Result<PreparedCall, JobError> {
    let environment = &context.migration;
    let cpu_placement = match environment.sets_target_names_and_cpus {
        true => TargetCpuPlacement::of(job.vmi(), &environment.facts)?,
        false => None,
    };
    let is_paused = state(domain).await?.state == DomainState::Paused;
    sriov_interfaces::detach(domain, detached).await?;
    let read = |domain: &dyn Domain| domain.xml(XmlKind::Migratable);
    let xml = domain_call(
        domain,
        "reading the domain's migratable XML",
        QUERY_TIMEOUT,
        read,
    )
    .await?;
    let document = Document::parse(&xml)
        .map_err(|error| JobError::from(MigrationXmlError::Domain(error.into())))?;
    let edits = TargetEdits {
        cpu_placement,
        rewrites_disk_paths: environment.sets_target_names_and_cpus,
        disk_sizes: disk_sizes(job, domain, &document).await?,
    };
    let xml = target_xml(xml, job.vmi(), &edits)?;
    Ok(PreparedCall {
        destination: destination(job, &environment.share),
        request: request(job, &environment.share, &document, xml, is_paused),
        is_paused,
    })
}

/// The virtual sizes of the disks of migrated volumes in bytes, by volume.
async fn disk_sizes(
    job: &MigrationJob,
    domain: &Arc<dyn Domain>,
    document: &Document,
) -> Result<BTreeMap<String, u64>, JobError> {
    let disks = migrated_volume_disks(job.vmi(), document);
    if disks.is_empty() {
        return Ok(BTreeMap::new());
    }
    let read = |domain: &dyn Domain| domain.block_infos();
    let infos = domain_call(
        domain,
        "asking for the sizes of the disks",
        QUERY_TIMEOUT,
        read,
    )
    .await?;
    let sizes = disks.into_iter().filter_map(|(volume, path)| {
        let info = infos.get(&path)?;
        Some((volume, info.capacity))
    });
    Ok(sizes.collect())
}

/// Makes the call on a thread of its own, because it may take hours and the pool's threads are for short calls.
pub(super) fn send(
    domain: &Arc<dyn Domain>,
    call: PreparedCall,
) -> Result<MigrateResult, JobError> {
    let (done, migrated) = oneshot::channel();
    let domain = Arc::clone(domain);
    let PreparedCall {
        destination,
        request,
        ..
    } = call;
    tracing::info!(
        destination,
        flags = request.flags.bits(),
        disks = ?request.disks,
        "migrating the virtual machine"
    );
    thread::Builder::new()
        .name("migration".into())
        .spawn(move || drop(done.send(domain.migrate(&destination, &request))))
        .map_err(|_| JobError::Internal)?;
    Ok(migrated)
}

/// The ports of a migration's memory and of its disks. They are only part of the names of its sockets.
const MEMORY_PORT: u16 = 49152;
const DISKS_PORT: u16 = 49153;

/// The URI of the target's libvirt daemon: a socket that virt-handler serves.
pub(super) fn destination(job: &MigrationJob, share: &Path) -> String {
    let driver = match job.vmi().is_non_root() {
        true => "session",
        false => "system",
    };
    let socket = socket_path(share, job.vmi().uid());
    format!("qemu+unix:///{driver}?socket={socket}")
}

/// libvirt's name of the domain on the target.
pub(super) fn destination_name(job: &MigrationJob) -> String {
    let target = job.vmi().status.migration_state.as_ref();
    let target = target.and_then(|state| state.target_state.as_ref()?.domain());
    target.unwrap_or_else(|| job.vmi().domain_name())
}

/// The parameters of libvirt's call. `xml` is the domain for the target, `domain` is libvirt's description of the
/// domain here.
pub(super) fn request(
    job: &MigrationJob,
    share: &Path,
    domain: &Document,
    xml: String,
    is_paused: bool,
) -> MigrationRequest {
    let (vmi, options) = (job.vmi(), job.options());
    let compression = options.compression().unwrap_or_else(|unknown| {
        tracing::warn!("{unknown}; the migration is not compressed");
        None
    });
    let flags = MigrationFlags::LIVE
        | MigrationFlags::PEER2PEER
        | MigrationFlags::PERSIST_DEST
        | MigrationFlags::PAUSED.when(is_paused)
        | MigrationFlags::NON_SHARED_INC.when(vmi.status.is_block_migration())
        | MigrationFlags::UNSAFE.when(options.unsafe_migration)
        | MigrationFlags::COMPRESSED.when(compression.is_some())
        | MigrationFlags::AUTO_CONVERGE.when(options.allow_auto_converge)
        | MigrationFlags::POST_COPY.when(options.allow_post_copy)
        | MigrationFlags::PARALLEL.when(options.parallel_migration_threads.is_some());
    let disks = disks_to_copy(vmi, domain);
    let uri = |port: u16| {
        format!(
            "unix://{}",
            socket_path(share, &format!("{}-{port}", vmi.uid()))
        )
    };
    MigrationRequest {
        flags,
        uri: Some(uri(MEMORY_PORT)),
        destination_name: Some(destination_name(job)),
        destination_xml: Some(xml.clone()),
        persistent_xml: Some(xml),
        // The quantity is valid: it was read before the job began.
        bandwidth: options.mib_per_second().unwrap_or_default(),
        parallel_connections: options
            .parallel_migration_threads
            .map(|threads| i32::try_from(threads).unwrap_or(i32::MAX)),
        compression: compression.map(str::to_owned),
        disks_uri: (!disks.is_empty()).then(|| uri(DISKS_PORT)),
        disks,
    }
}

fn socket_path(share: &Path, key: &str) -> String {
    let socket = share
        .join("migrationproxy")
        .join(format!("{key}-source.sock"));
    socket.to_string_lossy().into_owned()
}

/// Maximum depth of directories that are read; KubeVirt's are not that deep.
const MAX_DEPTH: usize = 16;

/// The total size of the files below a directory, in bytes; 0 if the directory does not exist. Unreadable files do not
/// count. Blocking.
pub(super) fn total_file_size(directory: &Path) -> u64 {
    size_below(directory, MAX_DEPTH)
}

fn size_below(directory: &Path, depth: usize) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() && depth > 0 => size_below(&entry.path(), depth - 1),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    });
    sizes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use hook_host::MigrationParameters;
    use kubevirt_api::migration_options::MigrationOptions;
    use kubevirt_api::vmi::Vmi;
    use serde_json::{Value, json};

    use super::*;

    const SHARE: &str = "/var/run/kubevirt";
    const DOMAIN: &str = "<domain><devices><disk type='file' device='disk'><target dev='vda'/><alias name='ua-empty'/>\
        </disk></devices></domain>";

    fn job(status: Value, options: Value) -> MigrationJob {
        let vmi = json!({
            "metadata": {"name": "vm1", "namespace": "default", "uid": "1234"},
            "spec": {"volumes": [{"name": "empty", "emptyDisk": {"capacity": "64Mi"}}]},
            "status": status,
        });
        let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
        let options = MigrationOptions::from_json(options.to_string().as_bytes()).unwrap();
        MigrationJob::new(vmi, options).unwrap()
    }

    fn request_for(job: &MigrationJob, domain: &str) -> MigrationRequest {
        let domain = Document::parse(domain).unwrap();
        request(job, Path::new(SHARE), &domain, "<XML/>".into(), false)
    }

    /// The parameters that were recorded with KubeVirt's launcher for a plain migration.
    #[test]
    fn plain_migration_has_the_recorded_parameters() {
        let state = json!({"migrationState": {"migrationUid": "m"}, "runtimeUser": 107});
        let options = json!({"Bandwidth": "0", "ProgressTimeout": 150});
        let job = job(state, options);
        assert_eq!(
            destination(&job, Path::new(SHARE)),
            "qemu+unix:///session?socket=/var/run/kubevirt/migrationproxy/1234-source.sock"
        );
        let expected = MigrationRequest {
            flags: MigrationFlags::LIVE | MigrationFlags::PEER2PEER | MigrationFlags::PERSIST_DEST,
            uri: Some("unix:///var/run/kubevirt/migrationproxy/1234-49152-source.sock".into()),
            destination_name: Some("default_vm1".into()),
            destination_xml: Some("<XML/>".into()),
            persistent_xml: Some("<XML/>".into()),
            ..MigrationRequest::default()
        };
        assert_eq!(request_for(&job, "<domain/>"), expected);
    }

    /// The parameters that were recorded with KubeVirt's launcher for a migration of disks to another namespace.
    #[test]
    fn decentralized_block_migration_has_the_recorded_parameters() {
        let target = json!({"domainNamespace": "other", "domainName": "vm1"});
        let state = json!({"migrationState": {"migrationUid": "m", "targetState": target},
                "migrationMethod": "BlockMigration"});
        let job = job(state, json!({}));
        assert!(destination(&job, Path::new(SHARE)).starts_with("qemu+unix:///system?"));
        let request = request_for(&job, DOMAIN);
        assert_eq!(request.destination_name.as_deref(), Some("other_vm1"));
        assert_eq!(request.disks, ["vda"]);
        assert_eq!(
            request.disks_uri.as_deref(),
            Some("unix:///var/run/kubevirt/migrationproxy/1234-49153-source.sock")
        );
        assert_eq!(request.flags.bits(), 1 + 2 + 8 + 128);
    }

    #[test]
    fn options_become_flags_and_parameters() {
        let state = || json!({"migrationState": {"migrationUid": "m"}});
        let all = json!({"Bandwidth": "10Mi", "UnsafeMigration": true, "AllowAutoConverge": true,
                "AllowPostCopy": true, "ParallelMigrationThreads": 8, "Compression": "zstd"});
        let request = request_for(&job(state(), all), DOMAIN);
        assert_eq!(
            request.flags.bits(),
            1 + 2 + 8 + 512 + 2048 + 8192 + 32_768 + 131_072
        );
        assert_eq!(request.bandwidth, Some(10));
        assert_eq!(request.parallel_connections, Some(8));
        assert_eq!(request.compression.as_deref(), Some("zstd"));
        let compressed = json!({"Compression": "zstd", "ParallelMigrationThreads": 8});
        let single = job(state(), compressed);
        let parameters = MigrationParameters {
            parallel_connections: 0,
            ..single.parameters()
        };
        let single = request_for(&single.with_parameters(&parameters), DOMAIN);
        assert_eq!(
            (single.parallel_connections, single.compression),
            (None, None)
        );
        assert_eq!(single.flags.bits(), 11, "libvirt refuses zstd alone");
        let unknown = request_for(&job(state(), json!({"Compression": "lz4"})), DOMAIN);
        assert_eq!((unknown.compression, unknown.flags.bits()), (None, 11));
        let document = Document::parse(DOMAIN).unwrap();
        let paused = super::request(
            &job(state(), json!({})),
            Path::new(SHARE),
            &document,
            String::new(),
            true,
        );
        assert!(paused.flags.contains(MigrationFlags::PAUSED));
    }

    #[test]
    fn files_in_subdirectories_count() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("a/b")).unwrap();
        fs::write(directory.path().join("a/b/disk.img"), [0; 7]).unwrap();
        fs::write(directory.path().join("x"), [0; 3]).unwrap();
        std::os::unix::fs::symlink("/", directory.path().join("loop")).unwrap();
        assert_eq!(total_file_size(directory.path()), 10);
        assert_eq!(total_file_size(&directory.path().join("none")), 0);
    }
}
