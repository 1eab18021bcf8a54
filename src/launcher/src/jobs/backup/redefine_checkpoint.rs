//! Redefines the checkpoint of an earlier backup in libvirt, after the VM was restarted.

use std::collections::HashSet;
use std::time::Duration;

use domain::backup_plan::redefined_checkpoint;
use jiff::Timestamp;
use libvirt::{Domain, code};
use serde::Deserialize;

use super::BackupError;
use crate::jobs::Jobs;
use crate::libvirt_client::{COMMAND, CallError};
use crate::qmp_answer::{self, QmpError};

const SNAPSHOT: Duration = Duration::from_secs(4);
/// QEMU's description of each image, with the bitmaps, also those that are in memory only.
const BLOCK_NODES: &str = r#"{"execute":"query-named-block-nodes"}"#;

/// A checkpoint of an earlier backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its name, also that of its bitmaps.
    pub name: String,
    /// When it was created.
    pub creation_time: Option<Timestamp>,
}

/// The checkpoint could not be redefined.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// libvirt refused.
    #[error("failed to redefine checkpoint {name}: {source}")]
    Refused {
        /// The checkpoint.
        name: String,
        /// libvirt's reason.
        source: CallError,
    },
    /// No image has its bitmap.
    #[error("no disks found with checkpoint bitmap {0}")]
    NoBitmap(String),
    /// The domain could not be asked.
    #[error(transparent)]
    Domain(#[from] BackupError),
    /// QEMU's answer is not understood.
    #[error("asking for bitmaps: {0}")]
    BlockNodes(#[from] QmpError),
}

impl CheckpointError {
    /// Whether the checkpoint is of no use any more, so that the next backup has to be a full one.
    pub fn is_invalid(&self) -> bool {
        match self {
            CheckpointError::NoBitmap(_) => true,
            CheckpointError::Refused {
                source: CallError::Libvirt(error),
                ..
            } => matches!(
                error.code,
                code::INVALID_DOMAIN_CHECKPOINT
                    | code::NO_DOMAIN_CHECKPOINT
                    | code::CHECKPOINT_INCONSISTENT
            ),
            _ => false,
        }
    }
}

impl Jobs {
    /// Redefines a checkpoint for the disks whose images have its bitmap.
    pub(crate) async fn redefine_checkpoint(
        &self,
        checkpoint: &Checkpoint,
    ) -> Result<(), CheckpointError> {
        let client = &self.context.client;
        let no_domain = || BackupError::NoDomain(self.context.domain.clone());
        let domain = client.lookup().await.map_err(BackupError::from)?;
        let domain = domain.ok_or_else(no_domain)?;
        let snapshot = client.snapshot(SNAPSHOT).await.map_err(BackupError::from)?;
        let spec = snapshot.spec.ok_or_else(no_domain)?;
        let nodes = |domain: &dyn Domain| domain.qemu_command(BLOCK_NODES);
        let nodes = client
            .on(&domain, "asking for bitmaps", COMMAND, nodes)
            .await;
        let files = files_with_bitmap(&nodes.map_err(BackupError::from)?, &checkpoint.name)?;
        let time = checkpoint.creation_time.map(Timestamp::as_second);
        let xml = redefined_checkpoint(&spec, &checkpoint.name, time, |file| files.contains(file));
        let xml = xml.ok_or_else(|| CheckpointError::NoBitmap(checkpoint.name.clone()))?;
        let redefine = move |domain: &dyn Domain| domain.redefine_checkpoint(&xml);
        client
            .on(&domain, "redefining a checkpoint", COMMAND, redefine)
            .await
            .map_err(|source| CheckpointError::Refused {
                name: checkpoint.name.clone(),
                source,
            })
    }
}

#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    file: String,
    #[serde(default, rename = "dirty-bitmaps")]
    bitmaps: Vec<Bitmap>,
}

#[derive(Deserialize)]
struct Bitmap {
    #[serde(default)]
    name: String,
    /// The bitmap was in use when QEMU ended, and lacks changes.
    #[serde(default)]
    inconsistent: bool,
}

/// The images that have a usable bitmap of that name.
fn files_with_bitmap(json: &str, name: &str) -> Result<HashSet<String>, CheckpointError> {
    let nodes: Vec<Node> = qmp_answer::parse(json)?;
    let is_usable = |bitmap: &Bitmap| bitmap.name == name && !bitmap.inconsistent;
    let nodes = nodes
        .into_iter()
        .filter(|node| node.bitmaps.iter().any(is_usable));
    Ok(nodes.map(|node| node.file).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_usable_bitmaps_of_the_name_count() {
        let json = r#"{"return":[
            {"file":"/cbt/a.qcow2","dirty-bitmaps":[{"name":"c1"},{"name":"c2","inconsistent":true}]},
            {"file":"/cbt/b.qcow2","dirty-bitmaps":[{"name":"c2","inconsistent":false}]},
            {"node-name":"none"}],"id":"libvirt-40"}"#;
        let files = |name| {
            let mut files: Vec<_> = files_with_bitmap(json, name).unwrap().into_iter().collect();
            files.sort();
            files
        };
        assert_eq!(files("c1"), ["/cbt/a.qcow2"]);
        assert_eq!(files("c2"), ["/cbt/b.qcow2"]);
        assert!(files("c3").is_empty());
        assert!(files_with_bitmap("{}", "c").is_err());
    }
}
