//! Makes a recorded call, and shows the answer as virt-handler's client does.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use proto::cmd::v1::*;
use serde_json::{Value, json};
use tonic::{Code, Status};

use super::{Outcome, RecordedCall};
use crate::virt_handler::{COMMAND, Commands, DeadlineClient, FREEZE, QUERY};
use crate::vmi_builder::Vmi;

/// How long virt-handler waits for the answer.
fn deadline(call: &RecordedCall) -> Result<Duration> {
    Ok(match call.method.as_str() {
        "getdomain" | "getdomainstats" | "guestinfo" | "users" | "filesystems" | "qemuversion"
        | "sevinfo" | "ping" | "vmstats" | "screenshot" | "launchmeasurement" => QUERY,
        "exec" | "guestping" => {
            let timeout = call.args.get(1).with_context(|| call.title())?;
            Duration::from_secs(timeout.parse()?) + QUERY
        }
        "freeze" => FREEZE,
        _ => COMMAND,
    })
}

/// Makes the call with virt-handler's deadline, and with `vmi`, where it needs one.
pub async fn replay(commands: &Commands, vmi: &Vmi, call: &RecordedCall) -> Result<Outcome> {
    let client = commands.with_deadline(deadline(call)?);
    let outcome = match call.method.as_str() {
        "getdomain" | "getdomainstats" | "guestinfo" | "users" | "filesystems" | "qemuversion"
        | "dirtyrate" | "sevinfo" | "ping" => query(client, &call.method).await,
        "vmstats" => vm_stats(client, call).await,
        "exec" | "guestping" => agent(client, call).await,
        "screenshot" | "launchmeasurement" | "redefinecheckpoint" => {
            about_vm(client, vmi, call).await
        }
        _ => command(client, vmi, call).await,
    };
    outcome.or_else(|error| match error.downcast::<Status>() {
        Ok(status) if status.code() == Code::Unknown => {
            Ok(Outcome::GrpcError(status.message().to_owned()))
        }
        Ok(status) => Ok(Outcome::Lost(status.to_string())),
        Err(error) => Err(error),
    })
}

fn answered(response: Option<Response>, result: impl FnOnce() -> Result<Value>) -> Result<Outcome> {
    let Response { success, message } = response.context("no response")?;
    Ok(match success {
        true => Outcome::Answered(result()?),
        false => Outcome::Refused(message, Value::Null),
    })
}

fn parsed(json: &str) -> Result<Value> {
    serde_json::from_str(json).with_context(|| format!("no JSON: {json}"))
}

async fn query(mut client: DeadlineClient, method: &str) -> Result<Outcome> {
    let empty = EmptyRequest {};
    match method {
        "getdomain" => {
            let answer = client.get_domain(empty).await?.into_inner();
            let exists = !answer.domain.is_empty();
            answered(answer.response, || {
                Ok(json!({ "Exists": exists, "V": parsed(&answer.domain)? }))
            })
        }
        "getdomainstats" => {
            let answer = client.get_domain_stats(empty).await?.into_inner();
            answered(answer.response, || {
                Ok(json!({ "Exists": true, "V": parsed(&answer.domain_stats)? }))
            })
        }
        "guestinfo" => {
            let answer = client.get_guest_info(empty).await?.into_inner();
            answered(answer.response, || parsed(&answer.guest_info_response))
        }
        "users" => {
            let answer = client.get_users(empty).await?.into_inner();
            answered(answer.response, || {
                Ok(json!({ "metadata": {}, "items": parsed(&answer.guest_user_list_response)? }))
            })
        }
        "filesystems" => {
            let answer = client.get_filesystems(empty).await?.into_inner();
            answered(answer.response, || {
                Ok(json!({ "metadata": {}, "items": parsed(&answer.guest_filesystems_response)? }))
            })
        }
        "qemuversion" => {
            let answer = client.get_qemu_version(empty).await?.into_inner();
            answered(answer.response, || Ok(json!(answer.version)))
        }
        "dirtyrate" => {
            let answer = client
                .get_domain_dirty_rate_stats(empty)
                .await?
                .into_inner();
            answered(answer.response, || Ok(json!(answer.dirty_rate_mbs)))
        }
        "sevinfo" => {
            let answer = client.get_sev_info(empty).await?.into_inner();
            answered(answer.response, || {
                Ok(serde_json::from_slice(&answer.sev_info)?)
            })
        }
        "ping" => answered(Some(client.ping(empty).await?.into_inner()), || {
            Ok(Value::Null)
        }),
        other => bail!("{other} is no query"),
    }
}

async fn agent(mut client: DeadlineClient, call: &RecordedCall) -> Result<Outcome> {
    let [domain, seconds, words @ ..] = call.args.as_slice() else {
        bail!("{}: too few arguments", call.title());
    };
    let timeout_seconds = seconds.parse()?;
    let domain_name = domain.clone();
    let [program, args @ ..] = words else {
        let request = GuestPingRequest {
            domain_name,
            timeout_seconds,
        };
        let answer = client.guest_ping(request).await?.into_inner();
        return answered(answer.response, || Ok(Value::Null));
    };
    let request = ExecRequest {
        domain_name,
        command: program.clone(),
        args: args.to_vec(),
        timeout_seconds,
    };
    let answer = client.exec(request).await?.into_inner();
    answered(answer.response, || {
        Ok(json!({ "exitCode": answer.exit_code, "stdout": answer.std_out }))
    })
}

async fn about_vm(mut client: DeadlineClient, vmi: &Vmi, call: &RecordedCall) -> Result<Outcome> {
    match call.method.as_str() {
        "screenshot" => {
            let answer = client.get_screenshot(vmi.request()).await?.into_inner();
            answered(answer.response, || {
                Ok(
                    json!({ "bytes": answer.data.len(), "mime": answer.mime, "response": { "success": true } }),
                )
            })
        }
        "launchmeasurement" => {
            let answer = client.get_launch_measurement(vmi.request()).await?;
            let answer = answer.into_inner();
            answered(answer.response, || {
                Ok(serde_json::from_slice(&answer.launch_measurement)?)
            })
        }
        _ => {
            let request = RedefineCheckpointRequest {
                vmi: vmi.request().vmi,
                checkpoint: options(call)?.to_string().into_bytes(),
            };
            let answer = client.redefine_checkpoint(request).await?.into_inner();
            let result = json!({ "checkpointInvalid": answer.checkpoint_invalid });
            let Response { success, message } = answer.response.context("no response")?;
            Ok(match success {
                true => Outcome::Answered(result),
                false => Outcome::Refused(message, result),
            })
        }
    }
}

/// The last argument, which is JSON.
fn options(call: &RecordedCall) -> Result<Value> {
    let last = call.args.last().with_context(|| call.title())?;
    parsed(last)
}

async fn command(mut client: DeadlineClient, vmi: &Vmi, call: &RecordedCall) -> Result<Outcome> {
    let wire = vmi.request();
    let answer = match call.method.as_str() {
        "sync" => client.sync_virtual_machine(wire).await?,
        "pause" => client.pause_virtual_machine(wire).await?,
        "unpause" => client.unpause_virtual_machine(wire).await?,
        "softreboot" => client.soft_reboot_virtual_machine(wire).await?,
        "reset" => client.reset_virtual_machine(wire).await?,
        "shutdown" => client.shutdown_virtual_machine(wire).await?,
        "kill" => client.kill_virtual_machine(wire).await?,
        "delete" => client.delete_virtual_machine(wire).await?,
        "unfreeze" => client.unfreeze_virtual_machine(wire).await?,
        "finalize" => client.finalize_virtual_machine_migration(wire).await?,
        "cancel" => client.cancel_virtual_machine_migration(wire).await?,
        "hotplughostdevices" => client.hotplug_host_devices(wire).await?,
        "synccpus" => client.sync_virtual_machine_cp_us(wire).await?,
        "syncmemory" => client.sync_virtual_machine_memory(wire).await?,
        "freeze" => {
            let seconds = call.args.last().map_or(Ok(0), |text| text.parse());
            let request = FreezeRequest {
                vmi: wire.vmi,
                unfreeze_timeout_seconds: seconds?,
            };
            client.freeze_virtual_machine(request).await?
        }
        "memorydump" => {
            let dump_path = call.args.last().with_context(|| call.title())?.clone();
            let vmi = wire.vmi;
            client
                .virtual_machine_memory_dump(MemoryDumpRequest { vmi, dump_path })
                .await?
        }
        "injectsecret" => {
            let (vmi, options) = (wire.vmi, options(call)?.to_string().into_bytes());
            client
                .inject_launch_secret(InjectLaunchSecretRequest { vmi, options })
                .await?
        }
        "backup" => {
            let (vmi, options) = (wire.vmi, options(call)?.to_string().into_bytes());
            client
                .backup_virtual_machine(BackupRequest { vmi, options })
                .await?
        }
        other => bail!(
            "{}: nobody knows how to make the call {other}",
            call.title()
        ),
    };
    answered(Some(answer.into_inner()), || Ok(Value::Null))
}

/// As virt-handler's client decodes `GetVMStats`.
async fn vm_stats(mut client: DeadlineClient, call: &RecordedCall) -> Result<Outcome> {
    let wanted = match call.args.is_empty() {
        true => json!({}),
        false => options(call)?,
    };
    macro_rules! requested {
        ($($name:literal => $field:ident: $kind:ident),* $(,)?) => {
            VmStatsRequest { $($field: wanted.get($name).map(|_| $kind {})),* }
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
    answered(response, || {
        Ok(json!({
            "DomainStats": match &answer.domain_stats {
                Some(stats) => parsed(&stats.domain_stats)?,
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
