//! GetVMStats: what the caller asks for, of the domain, its dirty rate and the guest agent's own answers.

use proto::cmd::v1::{DirtyRateStatsResponse, Response as Answer, VmStatsRequest, VmStatsResponse};

use super::response::{failed, ok};
use super::vm_queries;
use crate::manager::VmContext;

/// What the agent is asked for one field of the response.
struct Field {
    command: &'static str,
    is_requested: fn(&VmStatsRequest) -> bool,
    put: fn(&mut VmStatsResponse, Answer),
}

macro_rules! fields {
    ($($command:literal => $field:ident),* $(,)?) => {
        &[$(Field {
            command: $command,
            is_requested: |request| request.$field.is_some(),
            put: |response, answer| response.$field = Some(answer),
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

/// Fields that fail are answered with their errors, the others with what is known.
pub(super) async fn vm_stats(vm: &VmContext, request: &VmStatsRequest) -> VmStatsResponse {
    let mut response = VmStatsResponse::default();
    let mut problems = Vec::new();
    if request.domain_stats.is_some() {
        let stats = vm_queries::domain_stats(vm).await;
        note(&mut problems, "domain stats", stats.response.as_ref());
        response.domain_stats = Some(stats);
    }
    if request.dirty_rate.is_some() {
        let rate = dirty_rate(vm).await;
        note(&mut problems, "dirty rate stats", rate.response.as_ref());
        response.dirty_rate_stats = Some(rate);
    }
    add_agent_data(vm, request, &mut response, &mut problems).await;
    response.response = Some(match problems.is_empty() {
        true => ok(),
        false => failed(problems.join("; ")),
    });
    response
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

async fn add_agent_data(
    vm: &VmContext,
    request: &VmStatsRequest,
    response: &mut VmStatsResponse,
    problems: &mut Vec<String>,
) {
    let mut silence = None;
    for field in FIELDS.iter().filter(|field| (field.is_requested)(request)) {
        let command = field.command;
        let answer = match &silence {
            // Each further command would take as long as the one that got no answer.
            Some(silence) => failed(format_args!(
                "failed to get agent data for {command}: {silence}"
            )),
            None => match vm.agent_data.get(command).await {
                Ok(data) => Answer {
                    message: data.as_ref().to_owned(),
                    ..ok()
                },
                Err(error) => {
                    let text = format!("failed to get agent data for {command}: {error}");
                    silence = error.is_silence().then(|| error.to_string());
                    failed(text)
                }
            },
        };
        note(problems, &format!("agent data {command}"), Some(&answer));
        (field.put)(response, answer);
        response.guest_agent_version = Some(Answer {
            message: vm.guest_info.agent_version(),
            ..ok()
        });
    }
}

fn note(problems: &mut Vec<String>, what: &str, answer: Option<&Answer>) {
    if let Some(answer) = answer.filter(|answer| !answer.success) {
        problems.push(format!("{what}: {}", answer.message));
    }
}
