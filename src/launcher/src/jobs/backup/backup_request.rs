//! The requests about backups, validated.

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// Longer names than Kubernetes allows.
const LONGEST_NAME: usize = 253;

/// A request that cannot be carried out as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupRequestError {
    /// A field is missing or empty.
    #[error("the backup's {0} is missing")]
    Missing(&'static str),
    /// A name that is not a Kubernetes name; it would become part of a path.
    #[error("the backup's {what} {name:?} is not a name of a Kubernetes object")]
    Name {
        /// The field.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The directory of the backup.
    #[error("the backup's targetPath {0:?} is not an absolute path of at most 3000 bytes")]
    Target(PathBuf),
}

/// Which backup a request is about: a name can be used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupId {
    /// The backup's name.
    pub name: String,
    /// When it was requested, to the second. Only a start needs it.
    pub start_time: Option<Timestamp>,
}

impl BackupId {
    /// The time in the backup's record: RFC 3339 in UTC, to the second.
    pub(super) fn recorded_time(&self) -> Option<String> {
        self.start_time.map(|time| format!("{time:.0}"))
    }
}

/// How a backup is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// QEMU writes the data into the directory.
    Push,
    /// QEMU serves the data over NBD.
    Pull,
}

impl Mode {
    /// KubeVirt's word.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Mode::Push => "Push",
            Mode::Pull => "Pull",
        }
    }
}

/// A backup to be made.
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

/// The fields of a [`BackupRequest`], as they come.
#[derive(Debug, Clone)]
pub struct BackupFields {
    /// Which backup.
    pub id: BackupId,
    /// The VMI's name, part of the directory.
    pub vmi_name: String,
    /// How it is made.
    pub mode: Mode,
    /// The directory above that of all backups.
    pub target_path: Option<PathBuf>,
    /// The checkpoint to start from.
    pub incremental: Option<String>,
    /// Whether the guest's file systems are left alone.
    pub skip_quiesce: bool,
    /// The VM has a persistent TPM, whose state is written to disk too.
    pub persistent_tpm: bool,
}

impl BackupRequest {
    /// A backup by these fields.
    ///
    /// # Errors
    /// [`BackupRequestError`] when a field is missing or unusable.
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
        is_name("backupName", &id.name)?;
        is_name("VM name", &vmi_name)?;
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

    /// Which backup it is.
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

    /// How it is made.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// The checkpoint that is created with it: `NAME-2026-11-21_13-10-00`.
    pub(super) fn checkpoint(&self) -> String {
        let time = self.start_time.strftime("%Y-%m-%d_%H-%M-%S");
        format!("{}-{time}", self.name)
    }

    /// The checkpoint since which changes are backed up.
    pub(super) fn incremental(&self) -> Option<&str> {
        self.incremental.as_deref()
    }

    /// The backup's own directory, which is removed when it fails.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether the guest's file systems are left alone.
    pub(super) fn skip_quiesce(&self) -> bool {
        self.skip_quiesce
    }

    /// The VM has a persistent TPM.
    pub(super) fn persistent_tpm(&self) -> bool {
        self.persistent_tpm
    }
}

/// A running backup in pull mode that is to be served to the export server.
#[derive(Clone, PartialEq, Eq)]
pub struct ExportRequest {
    /// Which backup.
    pub id: BackupId,
    /// The export server: host and port, or the host alone.
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

/// Without the key.
impl fmt::Debug for ExportRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportRequest")
            .field("id", &self.id)
            .field("address", &self.address)
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

fn is_name(what: &'static str, name: &str) -> Result<(), BackupRequestError> {
    if name.is_empty() {
        return Err(BackupRequestError::Missing(what));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if name.len() <= LONGEST_NAME && is_plain && name.chars().all(is_allowed) {
        return Ok(());
    }
    Err(BackupRequestError::Name {
        what,
        name: name.chars().take(LONGEST_NAME).collect(),
    })
}
