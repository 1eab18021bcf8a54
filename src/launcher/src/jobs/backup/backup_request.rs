//! Requests to start or export a backup, validated.

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// Maximum length of a name in bytes, as in Kubernetes.
const MAX_NAME_BYTES: usize = 253;

/// Why a request about a backup is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupRequestError {
    /// A field is missing or empty.
    #[error("the backup's {0} is missing")]
    Missing(&'static str),
    /// A name is not a Kubernetes name. It is refused because it would become part of a path.
    #[error("the backup's {what} {name:?} is not a name of a Kubernetes object")]
    Name {
        /// The field.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The directory for backups is not a usable path.
    #[error("the backup's targetPath {0:?} is not an absolute path of at most 3000 bytes")]
    Target(PathBuf),
}

/// Identifies a backup: a name alone can be used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupId {
    /// The backup's name.
    pub name: String,
    /// When the backup was requested, to the second. Only a request to start needs it.
    pub start_time: Option<Timestamp>,
}

impl BackupId {
    /// The time in the backup's record: RFC 3339 in UTC, to the second.
    pub(super) fn recorded_time(&self) -> Option<String> {
        self.start_time.map(|time| format!("{time:.0}"))
    }
}

/// How the data of a backup is transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// QEMU writes the data into the directory.
    Push,
    /// QEMU serves the data over NBD.
    Pull,
}

impl Mode {
    /// The mode's name in KubeVirt.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Mode::Push => "Push",
            Mode::Pull => "Pull",
        }
    }
}

/// A request to start a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupRequest {
    name: String,
    start_time: Timestamp,
    mode: Mode,
    directory: PathBuf,
    incremental: Option<String>,
    skip_quiesce: bool,
    persistent_tpm: bool,
}

/// The fields of a [`BackupRequest`] before validation.
#[derive(Debug, Clone)]
pub struct BackupFields {
    /// Identifies the backup.
    pub id: BackupId,
    /// The VMI's name, which becomes part of the directory.
    pub vmi_name: String,
    /// How the data is transferred.
    pub mode: Mode,
    /// The directory that contains the directories of all backups.
    pub target_path: Option<PathBuf>,
    /// The checkpoint since which changes are backed up; `None` or empty for a full backup.
    pub incremental: Option<String>,
    /// Whether the guest's file systems are not frozen.
    pub skip_quiesce: bool,
    /// Whether the VM has a persistent TPM, whose state is written to disk, too.
    pub persistent_tpm: bool,
}

impl BackupRequest {
    /// Validates these fields.
    ///
    /// # Errors
    /// [`BackupRequestError`] if a field is missing or invalid.
    pub fn new(fields: BackupFields) -> Result<BackupRequest, BackupRequestError> {
        let BackupFields {
            id,
            vmi_name,
            mode,
            target_path,
            incremental,
            skip_quiesce,
            persistent_tpm,
        } = fields;
        let start_time = (id.start_time).ok_or(BackupRequestError::Missing("backupStartTime"))?;
        require_name("backupName", &id.name)?;
        require_name("VM name", &vmi_name)?;
        let incremental = incremental.filter(|checkpoint| !checkpoint.is_empty());
        let target = target_path.ok_or(BackupRequestError::Missing("targetPath"))?;
        let is_usable = target.is_absolute() && target.as_os_str().len() <= 3000;
        if !is_usable || target.to_str().is_none_or(|path| path.contains('\0')) {
            return Err(BackupRequestError::Target(target));
        }
        let mut request = BackupRequest {
            name: id.name,
            start_time,
            mode,
            directory: PathBuf::new(),
            incremental,
            skip_quiesce,
            persistent_tpm,
        };
        request.directory = target.join(vmi_name).join(request.checkpoint());
        Ok(request)
    }

    /// Identifies the backup.
    pub(super) fn id(&self) -> BackupId {
        BackupId {
            name: self.name.clone(),
            start_time: Some(self.start_time),
        }
    }

    /// The backup's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// How the data is transferred.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// The name of the checkpoint that the backup creates: `NAME-2026-11-21_13-10-00`.
    pub(super) fn checkpoint(&self) -> String {
        let time = self.start_time.strftime("%Y-%m-%d_%H-%M-%S");
        format!("{}-{time}", self.name)
    }

    /// The checkpoint since which changes are backed up.
    pub(super) fn incremental(&self) -> Option<&str> {
        self.incremental.as_deref()
    }

    /// The backup's own directory, which is removed if the backup fails.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether the guest's file systems are not frozen.
    pub(super) fn skip_quiesce(&self) -> bool {
        self.skip_quiesce
    }

    /// Whether the VM has a persistent TPM.
    pub(super) fn persistent_tpm(&self) -> bool {
        self.persistent_tpm
    }
}

/// A request to serve a running backup in pull mode to the export server.
#[derive(Clone, PartialEq, Eq)]
pub struct ExportRequest {
    /// Identifies the backup.
    pub id: BackupId,
    /// The export server: host and port, or only the host.
    pub address: String,
    /// The name in the export server's certificate.
    pub server_name: String,
    /// The certificate authority of the export server, PEM.
    pub ca: String,
    /// The launcher's certificate, PEM.
    pub certificate: String,
    /// The private key of the launcher's certificate, PEM.
    pub key: String,
}

/// Omits the private key.
impl fmt::Debug for ExportRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportRequest")
            .field("id", &self.id)
            .field("address", &self.address)
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

/// Requires a name of a Kubernetes object.
fn require_name(what: &'static str, name: &str) -> Result<(), BackupRequestError> {
    if name.is_empty() {
        return Err(BackupRequestError::Missing(what));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let has_valid_start = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if name.len() <= MAX_NAME_BYTES && has_valid_start && name.chars().all(is_allowed) {
        return Ok(());
    }
    Err(BackupRequestError::Name {
        what,
        name: name.chars().take(MAX_NAME_BYTES).collect(),
    })
}
