//! A client of a backup that asks for all data and stops reading.

use anyhow::{Result, ensure};
use proto::nbd::{DataChunk, ReadRequest};
use serde_json::Value;
use tests::export_server::ExportServer;
use tests::virt_handler::Commands;
use tests::vmi_builder::Vmi;
use tonic::Streaming;

/// The client; its connection stays open until this is dropped.
pub(crate) struct StalledBackupClient {
    _server: ExportServer,
    _answer: Streaming<DataChunk>,
}

impl StalledBackupClient {
    /// Has the running backup exported to `server`, and reads one message of its volume `data`.
    pub(crate) async fn connect(
        server: ExportServer,
        commands: &Commands,
        vmi: &Vmi,
        options: &Value,
    ) -> Result<StalledBackupClient> {
        commands.backup(vmi, options).await?.ok()?;
        let everything = ReadRequest {
            export_name: "data".to_owned(),
            ..ReadRequest::default()
        };
        let mut answer = server.client().await?.read(everything).await?.into_inner();
        ensure!(answer.message().await?.is_some(), "no data");
        Ok(StalledBackupClient {
            _server: server,
            _answer: answer,
        })
    }
}
