//! Handles the queries about the VM: domain, statistics, guest information, QEMU's version, dirty rate.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{DomainStats, JobStats};
use proto::cmd::v1::{
    DirtyRateStatsResponse, DomainResponse, DomainStatsResponse, GuestFilesystemsResponse,
    GuestInfoResponse, GuestUserListResponse, QemuVersionResponse, Response as Answer,
    VmStatsRequest, VmStatsResponse,
};
use tokio::time::Instant;

use super::{failed, ok};
use crate::domain_stats_json;
use crate::domain_stats_json::{DeviceAliases, MigrationProgress};
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

/// How long all answers of the agent may take. virt-handler gives up the whole request after 5 s (`shortTimeout` in
/// KubeVirt's `pkg/virt-handler/cmd-client`).
const AGENT_TIMEOUT: Duration = Duration::from_millis(4300);

/// A field of the response that has the agent's answer to one command.
struct Field {
    command: &'static str,
    is_requested: fn(&VmStatsRequest) -> bool,
    set: fn(&mut VmStatsResponse, Answer),
}

macro_rules! fields {
    ($($command:literal => $field:ident),* $(,)?) => {
        &[$(Field {
            command: $command,
            is_requested: |request| request.$field.is_some(),
            set: |response, answer| response.$field = Some(answer),
        }),*]
    };
}

const FIELDS: &[Field] = fields! {
    "guest-get-load" => guest_get_load,
    "guest-get-cpustats" => guest_get_cpu_stats,
    "guest-get-diskstats" => guest_get_disk_stats,
    "guest-get-time" => guest_get_time,
    "guest-get-vcpus" => guest_get_vcpus,
    "guest-get-memory-block-info" => guest_get_memory_block_info,
    "guest-get-users" => guest_get_users,
    "guest-get-osinfo" => guest_get_os_info,
    "guest-get-disks" => guest_get_disks,
    "guest-get-host-name" => guest_get_host_name,
    "guest-get-timezone" => guest_get_timezone,
    "guest-network-get-route" => guest_network_get_route,
    "guest-network-get-interfaces" => guest_network_get_interfaces,
    "guest-get-memory-blocks" => guest_get_memory_blocks,
};

/// Reads the requested fields. A field that fails contains its error. The fields are read concurrently, so that an
/// agent that hangs affects only the agent's fields.
pub(super) async fn vm_stats(vm: &VmContext, request: &VmStatsRequest) -> VmStatsResponse {
    let domain_stats = async {
        match request.domain_stats {
            Some(_) => Some(domain_stats(vm).await),
            None => None,
        }
    };
    let dirty_rate_stats = async {
        match request.dirty_rate {
            Some(_) => Some(dirty_rate(vm).await),
            None => None,
        }
    };
    let (domain_stats, dirty_rate_stats, agent) =
        tokio::join!(domain_stats, dirty_rate_stats, agent_answers(vm, request));
    let mut errors = Vec::new();
    if let Some(stats) = &domain_stats {
        collect_error(&mut errors, "domain stats", stats.response.as_ref());
    }
    if let Some(rate) = &dirty_rate_stats {
        collect_error(&mut errors, "dirty rate stats", rate.response.as_ref());
    }
    let mut response = VmStatsResponse {
        domain_stats,
        dirty_rate_stats,
        ..VmStatsResponse::default()
    };
    if !agent.is_empty() {
        response.guest_agent_version = Some(Answer {
            message: vm.guest_info.agent_version(),
            ..ok()
        });
    }
    for (field, answer) in agent {
        let what = format!("agent data {}", field.command);
        collect_error(&mut errors, &what, Some(&answer));
        (field.set)(&mut response, answer);
    }
    response.response = Some(match errors.is_empty() {
        true => ok(),
        false => failed(errors.join("; ")),
    });
    response
}

/// The agent's answers for the requested fields, in the order of [`FIELDS`].
async fn agent_answers(vm: &VmContext, request: &VmStatsRequest) -> Vec<(&'static Field, Answer)> {
    let deadline = Instant::now() + AGENT_TIMEOUT;
    let mut answers = Vec::new();
    // After a command without an answer no further command is sent, since it would take as long.
    let mut no_answer = None;
    for field in FIELDS.iter().filter(|field| (field.is_requested)(request)) {
        let error = match &no_answer {
            Some(no_answer) => String::clone(no_answer),
            None => match tokio::time::timeout_at(deadline, vm.vm_stats_answers.get(field.command))
                .await
            {
                Ok(Ok(data)) => {
                    let message = data.as_ref().to_owned();
                    answers.push((field, Answer { message, ..ok() }));
                    continue;
                }
                Ok(Err(error)) => {
                    no_answer = error.is_unanswered().then(|| error.to_string());
                    error.to_string()
                }
                Err(_) => {
                    let text = format!("no answer within {AGENT_TIMEOUT:?}");
                    no_answer.insert(text).clone()
                }
            },
        };
        let answer = failed(format_args!(
            "failed to get agent data for {}: {error}",
            field.command
        ));
        answers.push((field, answer));
    }
    answers
}

/// Adds the error of a field that failed.
fn collect_error(errors: &mut Vec<String>, what: &str, answer: Option<&Answer>) {
    if let Some(answer) = answer.filter(|answer| !answer.success) {
        errors.push(format!("{what}: {}", answer.message));
    }
}
