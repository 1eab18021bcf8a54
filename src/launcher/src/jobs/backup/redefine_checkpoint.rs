//! Redefines the checkpoint of an earlier backup in libvirt after the VM was restarted.

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

const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(4);
/// Asks QEMU for the description of each image, with its bitmaps, including those that are only in memory.
const BLOCK_NODES_QUERY: &str = r#"{"execute":"query-named-block-nodes"}"#;

/// A checkpoint of an earlier backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The name of the checkpoint and of its bitmaps.
    pub name: String,
    /// When the checkpoint was created.
    pub creation_time: Option<Timestamp>,
}

/// Why a checkpoint could not be redefined.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// libvirt refused the checkpoint.
    #[error("failed to redefine checkpoint {name}: {source}")]
    Refused {
        /// The name of the checkpoint.
        name: String,
        /// libvirt's error.
        source: CallError,
    },
    /// No image has a usable bitmap of the checkpoint.
    #[error("no disks found with checkpoint bitmap {0}")]
    NoBitmap(String),
    /// The domain or its bitmaps could not be read.
    #[error(transparent)]
    Domain(#[from] BackupError),
    /// QEMU's answer could not be parsed.
    #[error("asking for bitmaps: {0}")]
    BlockNodes(#[from] QmpError),
}

impl CheckpointError {
    /// Whether the checkpoint is no longer usable, so that the next backup has to be a full one.
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
    /// Redefines a checkpoint for the disks whose images have a usable bitmap of it.
    pub(crate) async fn redefine_checkpoint(
        &self,
        checkpoint: &Checkpoint,
    ) -> Result<(), CheckpointError> {
        let client = &self.context.client;
        let no_domain = || BackupError::NoDomain(self.context.domain.clone());
        let domain = client.lookup().await.map_err(BackupError::from)?;
        let domain = domain.ok_or_else(no_domain)?;
        let snapshot = client
            .snapshot(SNAPSHOT_TIMEOUT)
            .await
            .map_err(BackupError::from)?;
        let spec = snapshot.spec.ok_or_else(no_domain)?;
        let nodes = |domain: &dyn Domain| domain.qemu_command(BLOCK_NODES_QUERY);
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

/// A block node of QEMU.
#[derive(Deserialize)]
struct BlockNode {
    #[serde(default)]
    file: String,
    #[serde(default, rename = "dirty-bitmaps")]
    bitmaps: Vec<Bitmap>,
}

#[derive(Deserialize)]
struct Bitmap {
    #[serde(default)]
    name: String,
    /// Whether the bitmap was in use when QEMU ended, so that it lacks changes.
    #[serde(default)]
    inconsistent: bool,
}

/// The images that have a usable bitmap with this name.
fn files_with_bitmap(json: &str, name: &str) -> Result<HashSet<String>, CheckpointError> {
    let nodes: Vec<BlockNode> = qmp_answer::parse(json)?;
    let is_usable = |bitmap: &Bitmap| bitmap.name == name && !bitmap.inconsistent;
    let nodes = nodes
        .into_iter()
        .filter(|node| node.bitmaps.iter().any(is_usable));
    Ok(nodes.map(|node| node.file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_usable_bitmaps_with_the_name_are_found() {
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
