//! Replays a recorded call, and converts the answer as virt-handler's client does.

mod vm_stats;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use proto::cmd::v1::*;
use serde_json::{Value, json};
use tonic::{Code, Status};

use super::{Outcome, RecordedCall};
use crate::emulated_virt_handler::{
    COMMAND_TIMEOUT, Commands, DeadlineClient, FREEZE_TIMEOUT, QUERY_TIMEOUT,
};
use crate::vmi_builder::Vmi;
use vm_stats::vm_stats;

/// How long virt-handler waits for the answer.
fn deadline(call: &RecordedCall) -> Result<Duration> {
    Ok(match call.method.as_str() {
        "getdomain" | "getdomainstats" | "guestinfo" | "users" | "filesystems" | "qemuversion"
        | "sevinfo" | "ping" | "vmstats" | "screenshot" | "launchmeasurement" => QUERY_TIMEOUT,
        "exec" | "guestping" => {
            let timeout = call.args.get(1).with_context(|| call.title())?;
            Duration::from_secs(timeout.parse()?) + QUERY_TIMEOUT
        }
        "freeze" => FREEZE_TIMEOUT,
        _ => COMMAND_TIMEOUT,
    })
}

/// Makes the call with virt-handler's deadline, and with `vmi` if the call takes one.
pub async fn replay(commands: &Commands, vmi: &Vmi, call: &RecordedCall) -> Result<Outcome> {
    let client = commands.with_deadline(deadline(call)?);
    let outcome = match call.method.as_str() {
        "getdomain" | "getdomainstats" | "guestinfo" | "users" | "filesystems" | "qemuversion"
        | "dirtyrate" | "sevinfo" | "ping" => query(client, &call.method).await,
        "vmstats" => vm_stats(client, call).await,
        "exec" | "guestping" => agent_call(client, call).await,
        "screenshot" | "launchmeasurement" | "redefinecheckpoint" => {
            vm_query(client, vmi, call).await
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

fn outcome_of(
    response: Option<Response>,
    result: impl FnOnce() -> Result<Value>,
) -> Result<Outcome> {
    let Response { success, message } = response.context("no response")?;
    Ok(match success {
        true => Outcome::Answered(result()?),
        false => Outcome::Refused(message, Value::Null),
    })
}

fn parse_json(json: &str) -> Result<Value> {
    serde_json::from_str(json).with_context(|| format!("no JSON: {json}"))
}

async fn query(mut client: DeadlineClient, method: &str) -> Result<Outcome> {
    let empty = EmptyRequest {};
    match method {
        "getdomain" => {
            let answer = client.get_domain(empty).await?.into_inner();
            let exists = !answer.domain.is_empty();
            outcome_of(answer.response, || {
                Ok(json!({ "Exists": exists, "V": parse_json(&answer.domain)? }))
            })
        }
        "getdomainstats" => {
            let answer = client.get_domain_stats(empty).await?.into_inner();
            outcome_of(answer.response, || {
                Ok(json!({ "Exists": true, "V": parse_json(&answer.domain_stats)? }))
            })
        }
        "guestinfo" => {
            let answer = client.get_guest_info(empty).await?.into_inner();
            outcome_of(answer.response, || parse_json(&answer.guest_info_response))
        }
        "users" => {
            let answer = client.get_users(empty).await?.into_inner();
            outcome_of(answer.response, || {
                Ok(
                    json!({ "metadata": {}, "items": parse_json(&answer.guest_user_list_response)? }),
                )
            })
        }
        "filesystems" => {
            let answer = client.get_filesystems(empty).await?.into_inner();
            outcome_of(answer.response, || {
                Ok(
                    json!({ "metadata": {}, "items": parse_json(&answer.guest_filesystems_response)? }),
                )
            })
        }
        "qemuversion" => {
            let answer = client.get_qemu_version(empty).await?.into_inner();
            outcome_of(answer.response, || Ok(json!(answer.version)))
        }
        "dirtyrate" => {
            let answer = client
                .get_domain_dirty_rate_stats(empty)
                .await?
                .into_inner();
            outcome_of(answer.response, || Ok(json!(answer.dirty_rate_mbs)))
        }
        "sevinfo" => {
            let answer = client.get_sev_info(empty).await?.into_inner();
            outcome_of(answer.response, || {
                Ok(serde_json::from_slice(&answer.sev_info)?)
            })
        }
        "ping" => outcome_of(Some(client.ping(empty).await?.into_inner()), || {
            Ok(Value::Null)
        }),
        other => bail!("{other} is no query"),
    }
}

async fn agent_call(mut client: DeadlineClient, call: &RecordedCall) -> Result<Outcome> {
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
        return outcome_of(answer.response, || Ok(Value::Null));
    };
    let request = ExecRequest {
        domain_name,
        command: program.clone(),
        args: args.to_vec(),
        timeout_seconds,
    };
    let answer = client.exec(request).await?.into_inner();
    outcome_of(answer.response, || {
        Ok(json!({ "exitCode": answer.exit_code, "stdout": answer.std_out }))
    })
}

async fn vm_query(mut client: DeadlineClient, vmi: &Vmi, call: &RecordedCall) -> Result<Outcome> {
    match call.method.as_str() {
        "screenshot" => {
            let answer = client.get_screenshot(vmi.request()).await?.into_inner();
            outcome_of(answer.response, || {
                Ok(
                    json!({ "bytes": answer.data.len(), "mime": answer.mime, "response": { "success": true } }),
                )
            })
        }
        "launchmeasurement" => {
            let answer = client.get_launch_measurement(vmi.request()).await?;
            let answer = answer.into_inner();
            outcome_of(answer.response, || {
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
    parse_json(last)
}

async fn command(mut client: DeadlineClient, vmi: &Vmi, call: &RecordedCall) -> Result<Outcome> {
    let request = vmi.request();
    let answer = match call.method.as_str() {
        "sync" => client.sync_virtual_machine(request).await?,
        "pause" => client.pause_virtual_machine(request).await?,
        "unpause" => client.unpause_virtual_machine(request).await?,
        "softreboot" => client.soft_reboot_virtual_machine(request).await?,
        "reset" => client.reset_virtual_machine(request).await?,
        "shutdown" => client.shutdown_virtual_machine(request).await?,
        "kill" => client.kill_virtual_machine(request).await?,
        "delete" => client.delete_virtual_machine(request).await?,
        "unfreeze" => client.unfreeze_virtual_machine(request).await?,
        "finalize" => client.finalize_virtual_machine_migration(request).await?,
        "cancel" => client.cancel_virtual_machine_migration(request).await?,
        "hotplughostdevices" => client.hotplug_host_devices(request).await?,
        "synccpus" => client.sync_virtual_machine_cp_us(request).await?,
        "syncmemory" => client.sync_virtual_machine_memory(request).await?,
        "freeze" => {
            let seconds = call.args.last().map_or(Ok(0), |text| text.parse());
            let request = FreezeRequest {
                vmi: request.vmi,
                unfreeze_timeout_seconds: seconds?,
            };
            client.freeze_virtual_machine(request).await?
        }
        "memorydump" => {
            let dump_path = call.args.last().with_context(|| call.title())?.clone();
            let vmi = request.vmi;
            client
                .virtual_machine_memory_dump(MemoryDumpRequest { vmi, dump_path })
                .await?
        }
        "injectsecret" => {
            let (vmi, options) = (request.vmi, options(call)?.to_string().into_bytes());
            client
                .inject_launch_secret(InjectLaunchSecretRequest { vmi, options })
                .await?
        }
        "backup" => {
            let (vmi, options) = (request.vmi, options(call)?.to_string().into_bytes());
            client
                .backup_virtual_machine(BackupRequest { vmi, options })
                .await?
        }
        other => bail!(
            "{}: nobody knows how to make the call {other}",
            call.title()
        ),
    };
    outcome_of(Some(answer.into_inner()), || Ok(Value::Null))
}
