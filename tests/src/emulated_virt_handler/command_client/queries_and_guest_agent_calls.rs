//! The queries, and the calls of the guest agent.

use anyhow::{Context, Result};
use proto::cmd::info::CmdInfoRequest;
use proto::cmd::info::cmd_info_client::CmdInfoClient;
use proto::cmd::v1::{EmptyRequest, ExecRequest, ExecResponse, GuestPingRequest};
use serde_json::Value;
use tonic::Status;

use super::{Answer, COMMAND_TIMEOUT, Commands, QUERY_TIMEOUT, request_with_deadline};
use crate::vmi_builder::Vmi;

impl Commands {
    /// The versions of the command service that the launcher supports.
    pub async fn info(&self) -> Result<Vec<u32>> {
        let mut client = CmdInfoClient::new(self.channel.clone());
        let answer = client
            .info(request_with_deadline(CmdInfoRequest {}, QUERY_TIMEOUT))
            .await?;
        Ok(answer.into_inner().supported_cmd_versions)
    }

    /// `Ping`.
    pub async fn ping(&self) -> Result<Answer, Status> {
        Ok(Answer::of(Some(
            self.raw
                .clone()
                .ping(request_with_deadline(EmptyRequest {}, QUERY_TIMEOUT))
                .await?
                .into_inner(),
        )))
    }

    /// `GetDomain`, as JSON; null when there is none.
    pub async fn domain(&self) -> Result<Value> {
        let answer = self
            .raw
            .clone()
            .get_domain(request_with_deadline(EmptyRequest {}, QUERY_TIMEOUT))
            .await?
            .into_inner();
        Answer::of(answer.response).accepted()?;
        if answer.domain.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&answer.domain)
            .with_context(|| format!("GetDomain: {}", answer.domain))
    }

    /// `GetDomainStats`, as JSON.
    pub async fn domain_stats(&self) -> Result<Value> {
        let answer = self
            .raw
            .clone()
            .get_domain_stats(request_with_deadline(EmptyRequest {}, QUERY_TIMEOUT))
            .await?
            .into_inner();
        Answer::of(answer.response).accepted()?;
        serde_json::from_str(&answer.domain_stats)
            .with_context(|| format!("GetDomainStats: {}", answer.domain_stats))
    }

    /// `GetQemuVersion`.
    pub async fn qemu_version(&self) -> Result<String> {
        let answer = self
            .raw
            .clone()
            .get_qemu_version(request_with_deadline(EmptyRequest {}, QUERY_TIMEOUT))
            .await?
            .into_inner();
        Answer::of(answer.response).accepted()?;
        Ok(answer.version)
    }

    /// `GuestPing`.
    pub async fn guest_ping(&self, vmi: &Vmi, seconds: i32) -> Result<Answer, Status> {
        let request = GuestPingRequest {
            domain_name: vmi.domain(),
            timeout_seconds: seconds,
        };
        Ok(Answer::of(
            self.raw
                .clone()
                .guest_ping(request_with_deadline(request, COMMAND_TIMEOUT))
                .await?
                .into_inner()
                .response,
        ))
    }

    /// `Exec` in the guest.
    pub async fn exec(
        &self,
        vmi: &Vmi,
        command: &str,
        args: &[&str],
    ) -> Result<ExecResponse, Status> {
        let request = ExecRequest {
            domain_name: vmi.domain(),
            command: command.to_owned(),
            args: args.iter().map(ToString::to_string).collect(),
            timeout_seconds: 10,
        };
        Ok(self
            .raw
            .clone()
            .exec(request_with_deadline(request, COMMAND_TIMEOUT))
            .await?
            .into_inner())
    }
}
