//! Handles the queries about the VM: domain, statistics, guest information, QEMU's version, dirty rate.

use std::sync::Arc;

use libvirt::{DomainStats, JobStats};
use proto::cmd::v1::{
    DirtyRateStatsResponse, DomainResponse, DomainStatsResponse, GuestFilesystemsResponse,
    GuestInfoResponse, GuestUserListResponse, QemuVersionResponse, Response as Answer,
};

use super::response::{failed, ok};
use crate::domain_stats_json::{self, DeviceAliases, MigrationProgress};
use crate::libvirt_client::{QUERY_DEADLINE, SnapshotError, response_text};
use crate::manager::{Identity, Phase, VmContext};

/// The domain in KubeVirt's JSON; empty while there is no domain.
pub(super) async fn domain(vm: &VmContext) -> DomainResponse {
    let (response, domain) = split(domain_json(vm).await);
    DomainResponse { response, domain }
}

async fn domain_json(vm: &VmContext) -> Result<String, String> {
    let snapshot = vm.client.snapshot(QUERY_DEADLINE).await;
    let snapshot = snapshot.map_err(|error| match error {
        SnapshotError::Libvirt(error) => response_text(&error),
        other => other.to_string(),
    })?;
    if snapshot.is_gone() {
        return Ok(String::new());
    }
    let Identity {
        namespace,
        name,
        uid,
        ..
    } = &vm.identity;
    let mut domain = snapshot.domain(namespace, name, uid, vm.metadata.current());
    // Notifications have the UID here too. In KubeVirt's answer only the metadata in the spec has it.
    domain.metadata.uid.clear();
    vm.guest_info.add_to_domain(&mut domain.status);
    let json = domain.to_json();
    let json = json.map_err(|error| error.to_string())?;
    String::from_utf8(json).map_err(|error| error.to_string())
}

/// The domain's statistics in KubeVirt's JSON.
pub(super) async fn domain_stats(vm: &VmContext) -> DomainStatsResponse {
    let (response, domain_stats) = split(stats_json(vm).await);
    DomainStatsResponse {
        response,
        domain_stats,
    }
}

async fn stats_json(vm: &VmContext) -> Result<String, String> {
    if *vm.phase.borrow() != Phase::Active {
        // The statistics of a VM that does not run must not come from the cache.
        vm.client.invalidate();
    }
    let guest_info = Arc::clone(&vm.guest_info);
    let migration = migration_progress(vm.jobs.migration_progress());
    let render = move |stats: &DomainStats, xml: &str| {
        let aliases = DeviceAliases::from_xml(xml);
        domain_stats_json::domain_stats(stats, &aliases, &guest_info.load(), &migration).to_string()
    };
    match vm.client.statistics(render).await {
        Ok(Some(json)) => Ok(json.as_ref().to_owned()),
        Ok(None) => Err("empty DomainStats".to_owned()),
        Err(error) => Err(error.message()),
    }
}

fn migration_progress(stats: Option<JobStats>) -> MigrationProgress {
    let Some(stats) = stats else {
        return MigrationProgress::default();
    };
    let pages = stats.memory_dirty_rate.zip(stats.memory_page_size);
    MigrationProgress {
        total: stats.data_total,
        processed: stats.data_processed,
        memory_bps: stats.memory_bps,
        remaining: stats.data_remaining,
        dirty_rate: pages.map(|(pages, size)| pages.saturating_mul(size)),
    }
}

/// The guest information that the agent reported last.
pub(super) fn guest_info(vm: &VmContext) -> GuestInfoResponse {
    let (response, guest_info_response) = split_json(vm.guest_info.guest_info_json());
    GuestInfoResponse {
        response,
        guest_info_response,
    }
}

/// The users who are logged in, as the agent reported last.
pub(super) fn users(vm: &VmContext) -> GuestUserListResponse {
    let (response, guest_user_list_response) = split_json(vm.guest_info.users_json());
    GuestUserListResponse {
        response,
        guest_user_list_response,
    }
}

/// The guest's file systems, as the agent reported last.
pub(super) fn filesystems(vm: &VmContext) -> GuestFilesystemsResponse {
    let (response, guest_filesystems_response) = split_json(vm.guest_info.filesystems_json());
    GuestFilesystemsResponse {
        response,
        guest_filesystems_response,
    }
}

fn split_json(json: serde_json::Result<String>) -> (Option<Answer>, String) {
    split(json.map_err(|error| error.to_string()))
}

/// QEMU's version.
pub(super) async fn qemu_version(vm: &VmContext) -> QemuVersionResponse {
    let version = vm.client.qemu_version().await;
    let version = version.map(|version| format!("QEMU {version}"));
    let (response, version) = split(version.map_err(|error| error.message()));
    QemuVersionResponse { response, version }
}

fn split(result: Result<String, String>) -> (Option<Answer>, String) {
    match result {
        Ok(text) => (Some(ok()), text),
        Err(message) => (Some(failed(message)), String::new()),
    }
}

/// How fast the guest writes to its memory.
pub(super) async fn dirty_rate(vm: &VmContext) -> DirtyRateStatsResponse {
    match vm.client.dirty_rate().await {
        Ok(dirty_rate_mbs) => DirtyRateStatsResponse {
            response: Some(ok()),
            dirty_rate_mbs,
        },
        Err(error) => DirtyRateStatsResponse {
            response: Some(failed(error.message())),
            dirty_rate_mbs: 0,
        },
    }
}
