//! GetVMStats: what the caller asks for, of the domain, its dirty rate and the guest agent's own answers.

use std::time::Duration;

use proto::cmd::v1::{Response as Answer, VmStatsRequest, VmStatsResponse};
use tokio::time::Instant;

use super::response::{failed, ok};
use super::vm_queries;
use crate::manager::VmContext;

/// The agent's fields have this long; virt-handler gives the whole request up after 5 s
/// (`shortTimeout` in KubeVirt's `pkg/virt-handler/cmd-client`).
const AGENT_TIME: Duration = Duration::from_millis(4300);

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

/// Fields that fail are answered with their errors, the others with what is known. They are asked for side by side, so that
/// an agent that hangs costs the agent's fields only.
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
    let mut problems = Vec::new();
    if let Some(stats) = &domain_stats {
        note(&mut problems, "domain stats", stats.response.as_ref());
    }
    if let Some(rate) = &dirty_rate_stats {
        note(&mut problems, "dirty rate stats", rate.response.as_ref());
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
        note(&mut problems, &what, Some(&answer));
        (field.put)(&mut response, answer);
    }
    response.response = Some(match problems.is_empty() {
        true => ok(),
        false => failed(problems.join("; ")),
    });
    response
}

/// The answers to the agent's fields of the request, in their order.
async fn agent_answers(vm: &VmContext, request: &VmStatsRequest) -> Vec<(&'static Field, Answer)> {
    let end = Instant::now() + AGENT_TIME;
    let mut answers = Vec::new();
    // Each further command would take as long as the one that got no answer.
    let mut silence = None;
    for field in FIELDS.iter().filter(|field| (field.is_requested)(request)) {
        let problem = match &silence {
            Some(silence) => String::clone(silence),
            None => match tokio::time::timeout_at(end, vm.agent_data.get(field.command)).await {
                Ok(Ok(data)) => {
                    let message = data.as_ref().to_owned();
                    answers.push((field, Answer { message, ..ok() }));
                    continue;
                }
                Ok(Err(error)) => {
                    silence = error.is_silence().then(|| error.to_string());
                    error.to_string()
                }
                Err(_) => {
                    let text = format!("no answer within {AGENT_TIME:?}");
                    silence.insert(text).clone()
                }
            },
        };
        let answer = failed(format_args!(
            "failed to get agent data for {}: {problem}",
            field.command
        ));
        answers.push((field, answer));
    }
    answers
}

fn note(problems: &mut Vec<String>, what: &str, answer: Option<&Answer>) {
    if let Some(answer) = answer.filter(|answer| !answer.success) {
        problems.push(format!("{what}: {}", answer.message));
    }
}
