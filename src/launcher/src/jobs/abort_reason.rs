//! Why a job is aborted.

/// Why a job is to end before its work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AbortReason {
    /// A guest that is paused for a job cannot power off.
    #[error("the virtual machine is being shut down")]
    Shutdown,
    /// QEMU is being ended.
    #[error("the virtual machine is being ended")]
    Kill,
    /// Somebody asked for it.
    #[error("it was aborted on request")]
    Requested,
    /// The launcher ends, and the virtual machine with it.
    #[error("the launcher is exiting")]
    Exit,
}
