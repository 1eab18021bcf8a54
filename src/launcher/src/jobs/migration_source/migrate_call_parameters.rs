//! The destination URI, the parameters and the flags of libvirt's migrate call.

use std::path::Path;

use domain::migration::disks_to_copy;
use domain_xml::Document;
use libvirt::{MigrationFlags, MigrationRequest};

use super::migration_request::MigrationJob;

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
}
