//! The tokio runtime of all verbs.

use anyhow::Context;
use tokio::runtime::Runtime;

use crate::verb_failure::Failure;

/// A single-threaded runtime: hooks run one after the other.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")
        .map_err(Failure::Internal)
}
