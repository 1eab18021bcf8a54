//! The reasons to abort a job, and the signal that carries them.

use tokio::sync::watch;

/// Why a job is aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AbortReason {
    /// The guest is asked to power off, which a guest that is paused for a job cannot do.
    #[error("the virtual machine is being shut down")]
    Shutdown,
    /// QEMU is being killed.
    #[error("the virtual machine is being ended")]
    Kill,
    /// virt-handler requested the abort.
    #[error("it was aborted on request")]
    Requested,
    /// The launcher exits, and the VM ends with it.
    #[error("the launcher is exiting")]
    Exit,
}

/// The reason to abort the job, once there is one.
pub(super) type AbortSignal = watch::Receiver<Option<AbortReason>>;

/// Waits until the job is to be aborted.
pub(super) async fn wait_for_abort(aborted: &mut AbortSignal) -> AbortReason {
    match aborted
        .wait_for(Option::is_some)
        .await
        .map(|reason| *reason)
    {
        Ok(Some(reason)) => reason,
        // The job runner is gone, so that nothing can abort the job.
        _ => std::future::pending().await,
    }
}
