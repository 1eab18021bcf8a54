//! Errors of collecting hooks.

use std::path::PathBuf;
use std::time::Duration;

use crate::policy::PolicyError;

/// Why a collection failed.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// Fewer hooks than expected were ready in time.
    #[error(
        "{ready} of {expected} hooks were ready in {hooks_dir} within {deadline:?}; arrived: \
         {arrived}; waited for: {not_ready} (--hook-sidecars must be the number of hooks)"
    )]
    Deadline {
        /// The number of hooks that were ready.
        ready: usize,
        /// The number of hooks that were expected.
        expected: usize,
        /// The hooks directory.
        hooks_dir: PathBuf,
        /// The deadline of the collection.
        deadline: Duration,
        /// The hooks that were ready, each with its time.
        arrived: String,
        /// The hooks that were not ready, each with what it lacks.
        not_ready: String,
    },
    /// A file system did not answer in time.
    #[error("reading {what} took longer than {deadline:?}: does the file system answer?")]
    FilesDeadline {
        /// What was read.
        what: &'static str,
        /// The deadline of the collection.
        deadline: Duration,
    },
    /// There are more hooks than expected.
    #[error(
        "{hooks_dir} holds {} hooks and {expected} were expected: {}; remove what does not belong \
         there, or raise --hook-sidecars", hooks.len(), hooks.join(", ")
    )]
    Surplus {
        /// The hooks directory.
        hooks_dir: PathBuf,
        /// The number of hooks that were expected.
        expected: usize,
        /// All hooks in the directory.
        hooks: Vec<String>,
    },
    /// A directory holds both sockets and modules.
    #[error(
        "{directory} holds both sockets and modules ({files}); a sidecar and a WASM hook each need \
         a directory of their own"
    )]
    Mixed {
        /// The directory.
        directory: PathBuf,
        /// Its sockets and modules.
        files: String,
    },
    /// The operator's policy is invalid. It is read even if no hook is expected.
    #[error("the operator's policy: {0}")]
    Policy(#[from] PolicyError),
    /// The directory of records cannot be used.
    #[error(transparent)]
    Record(#[from] crate::record::RecordError),
    /// Standing hooks were not ready in time.
    #[error("the standing hooks in {directory} were not ready within {deadline:?}")]
    StandingDeadline {
        /// The hooks directory.
        directory: PathBuf,
        /// The deadline of the collection.
        deadline: Duration,
    },
    /// A standing hook and a counted hook have the same name.
    #[error(
        "hook {hook} is both in {standing} and in {hooks_dir}; records and errors need different \
         names: rename one of the directories"
    )]
    SameName {
        /// The name of both hooks.
        hook: String,
        /// The directory of standing hooks.
        standing: PathBuf,
        /// The directory of counted hooks.
        hooks_dir: PathBuf,
    },
    /// The operator's policy or the `hook.yaml` forbids a hook, or something that its module declares.
    #[error("{0}")]
    Refused(String),
    /// A hook cannot become ready.
    #[error("{0}")]
    Unusable(String),
    /// The hooks directory or another input of the collection cannot be read.
    #[error("the hooks directory cannot be read: {0}")]
    Scan(String),
}
