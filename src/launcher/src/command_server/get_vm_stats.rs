//! Handles GetVMStats: the requested ones of domain statistics, dirty rate and answers of the guest agent.

use std::time::Duration;

use proto::cmd::v1::{Response as Answer, VmStatsRequest, VmStatsResponse};
use tokio::time::Instant;

use super::response::{failed, ok};
use super::vm_queries;
use crate::manager::VmContext;

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
            Some(_) => Some(vm_queries::domain_stats(vm).await),
            None => None,
        }
    };
    let dirty_rate_stats = async {
        match request.dirty_rate {
            Some(_) => Some(vm_queries::dirty_rate(vm).await),
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
