//! Replays `GetVMStats`, whose answer has many parts.

use anyhow::Result;
use proto::cmd::v1::*;
use serde_json::{Value, json};

use super::{options, outcome_of, parse_json};
use crate::emulated_virt_handler::DeadlineClient;
use crate::recorded_kubevirt_answers::{Outcome, RecordedCall};

/// Calls `GetVMStats`, and decodes the answer as virt-handler's client does.
pub(super) async fn vm_stats(mut client: DeadlineClient, call: &RecordedCall) -> Result<Outcome> {
    let options = match call.args.is_empty() {
        true => json!({}),
        false => options(call)?,
    };
    macro_rules! requested {
        ($($name:literal => $field:ident: $kind:ident),* $(,)?) => {
            VmStatsRequest { $($field: options.get($name).map(|_| $kind {})),* }
        };
    }
    let request = requested! {
        "domainStats" => domain_stats: DomainStatsRequest,
        "dirtyRate" => dirty_rate: DirtyRateRequest,
        "guestGetLoad" => guest_get_load: AgentLoadRequest,
        "guestGetCpuStats" => guest_get_cpu_stats: AgentCpuStatsRequest,
        "guestGetDiskStats" => guest_get_disk_stats: AgentDiskStatsRequest,
        "guestGetTime" => guest_get_time: AgentTimeRequest,
        "guestGetVcpus" => guest_get_vcpus: AgentVcpusRequest,
        "guestGetMemoryBlockInfo" => guest_get_memory_block_info: AgentMemoryBlockInfoRequest,
        "guestGetUsers" => guest_get_users: AgentUsersRequest,
        "guestGetOsInfo" => guest_get_os_info: AgentOsInfoRequest,
        "guestGetDisks" => guest_get_disks: AgentDisksRequest,
        "guestGetHostName" => guest_get_host_name: AgentHostNameRequest,
        "guestGetTimezone" => guest_get_timezone: AgentTimezoneRequest,
        "guestNetworkGetRoute" => guest_network_get_route: AgentNetworkRouteRequest,
        "guestNetworkGetInterfaces" => guest_network_get_interfaces: AgentNetworkInterfacesRequest,
        "guestGetMemoryBlocks" => guest_get_memory_blocks: AgentMemoryBlocksRequest,
    };
    let answer = client.get_vm_stats(request).await?.into_inner();
    let text = |response: Option<Response>| {
        let message = response.map(|response| response.message);
        Value::String(message.unwrap_or_default())
    };
    let response = answer.response.clone();
    outcome_of(response, || {
        Ok(json!({
            "DomainStats": match &answer.domain_stats {
                Some(stats) => parse_json(&stats.domain_stats)?,
                // An empty Go struct.
                None => json!({ "CPUMapSet": false }),
            },
            "DirtyRateMbps": answer.dirty_rate_stats.map(|rate| rate.dirty_rate_mbs),
            "GuestAgentVersion": text(answer.guest_agent_version),
            "GuestGetLoad": text(answer.guest_get_load),
            "GuestGetCpuStats": text(answer.guest_get_cpu_stats),
            "GuestGetDiskStats": text(answer.guest_get_disk_stats),
            "GuestGetTime": text(answer.guest_get_time),
            "GuestGetVcpus": text(answer.guest_get_vcpus),
            "GuestGetMemoryBlockInfo": text(answer.guest_get_memory_block_info),
            "GuestGetUsers": text(answer.guest_get_users),
            "GuestGetOsInfo": text(answer.guest_get_os_info),
            "GuestGetDisks": text(answer.guest_get_disks),
            "GuestGetHostName": text(answer.guest_get_host_name),
            "GuestGetTimezone": text(answer.guest_get_timezone),
            "GuestNetworkGetRoute": text(answer.guest_network_get_route),
            "GuestNetworkGetInterfaces": text(answer.guest_network_get_interfaces),
            "GuestGetMemoryBlocks": text(answer.guest_get_memory_blocks),
        }))
    })
}
