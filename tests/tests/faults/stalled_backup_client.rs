//! A client of a backup that requests all data and stops reading.

use anyhow::{Result, ensure};
use proto::nbd::{DataChunk, ReadRequest};
use serde_json::Value;
use tests::backup_export_server::ExportServer;
use tests::emulated_virt_handler::Commands;
use tests::vmi_builder::Vmi;
use tonic::Streaming;

/// The client. Its connection stays open until this is dropped.
pub(crate) struct StalledBackupClient {
    _server: ExportServer,
    _answer: Streaming<DataChunk>,
}

impl StalledBackupClient {
    /// Has the launcher export the running backup to `server`, requests the volume `data`, and reads one message of it.
    pub(crate) async fn connect(
        server: ExportServer,
        commands: &Commands,
        vmi: &Vmi,
        options: &Value,
    ) -> Result<StalledBackupClient> {
        commands.backup(vmi, options).await?.accepted()?;
        let read_all = ReadRequest {
            export_name: "data".to_owned(),
            ..ReadRequest::default()
        };
        let mut answer = server.client().await?.read(read_all).await?.into_inner();
        ensure!(answer.message().await?.is_some(), "no data");
        Ok(StalledBackupClient {
            _server: server,
            _answer: answer,
        })
    }
}
