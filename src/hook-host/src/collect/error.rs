//! Why a collection fails.

use std::path::PathBuf;
use std::time::Duration;

use crate::policy::PolicyError;

/// Why hooks did not become ready.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// Fewer hooks than expected were ready in time.
    #[error(
        "{ready} of {expected} hooks were ready in {hooks_dir} within {deadline:?}; arrived: \
         {arrived}; waited for: {laggards} (--hook-sidecars must be the number of hooks)"
    )]
    Deadline {
        /// How many were ready.
        ready: usize,
        /// How many should have been.
        expected: usize,
        /// Where.
        hooks_dir: PathBuf,
        /// How long they had.
        deadline: Duration,
        /// Those that were ready, and when.
        arrived: String,
        /// The others, and what each lacks.
        laggards: String,
    },
    /// A file system does not answer.
    #[error("reading {what} took longer than {deadline:?}: does the file system answer?")]
    FilesDeadline {
        /// What was read.
        what: &'static str,
        /// How long it may take.
        deadline: Duration,
    },
    /// There are more hooks than expected.
    #[error(
        "{hooks_dir} holds {} hooks and {expected} were expected: {}; remove what does not belong \
         there, or raise --hook-sidecars", hooks.len(), hooks.join(", ")
    )]
    Surplus {
        /// Where.
        hooks_dir: PathBuf,
        /// How many there should be.
        expected: usize,
        /// All that are there.
        hooks: Vec<String>,
    },
    /// A directory holds both sockets and modules.
    #[error(
        "{directory} holds both sockets and modules ({files}); a sidecar and a WASM hook each need \
         a directory of their own"
    )]
    Mixed {
        /// Which.
        directory: PathBuf,
        /// What is in it.
        files: String,
    },
    /// The operator's policy is invalid. It is read even if no hook is expected.
    #[error("the operator's policy: {0}")]
    Policy(#[from] PolicyError),
    /// The directory of records cannot be used.
    #[error(transparent)]
    Record(#[from] crate::record::RecordError),
    /// Standing hooks were not compiled in time.
    #[error("the standing hooks in {directory} were not ready within {deadline:?}")]
    StandingDeadline {
        /// Where.
        directory: PathBuf,
        /// How long they had.
        deadline: Duration,
    },
    /// A standing hook and another one have the same name.
    #[error(
        "hook {hook} is both in {standing} and in {hooks_dir}; records and errors need different \
         names: rename one of the directories"
    )]
    SameName {
        /// The name.
        hook: String,
        /// The directory of standing hooks.
        standing: PathBuf,
        /// The directory of counted hooks.
        hooks_dir: PathBuf,
    },
    /// A hook that may not run, or not with what it declares, by the operator's policy or its `hook.yaml`.
    #[error("{0}")]
    Refused(String),
    /// A hook that can never become ready.
    #[error("{0}")]
    Unusable(String),
    /// The hooks directory cannot be read.
    #[error("the hooks directory cannot be read: {0}")]
    Scan(String),
}
