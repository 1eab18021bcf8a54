//! Runs the shutdown hooks once, whoever asks first: the lifetime driver, or the end of a launcher that failed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hook_host::Reason;
use tokio::sync::watch;

use crate::hooks_trait::Hooks;
use crate::manager::Identity;

/// Timeout of the shutdown hooks, longer than those of any VM take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The shutdown hooks of one launcher. Clones share the run.
#[derive(Clone)]
pub(super) struct ShutdownHooks {
    hooks: Arc<dyn Hooks>,
    identity: Identity,
    /// Set when the run has started. The value becomes true when the hooks have run.
    run: Arc<OnceLock<watch::Receiver<bool>>>,
}

impl ShutdownHooks {
    pub(super) fn new(hooks: Arc<dyn Hooks>, identity: Identity) -> ShutdownHooks {
        ShutdownHooks {
            hooks,
            identity,
            run: Arc::default(),
        }
    }

    /// Runs the hooks concurrently with everything else, unless they run already or have run.
    pub(super) fn start(&self) {
        self.run.get_or_init(|| self.spawn());
    }

    /// Waits until the hooks have run. The hook host limits every hook; the timeout is for a fault of the hook host
    /// itself.
    pub(super) async fn finish(&self) {
        let mut run = self.run.get_or_init(|| self.spawn()).clone();
        match tokio::time::timeout(TIMEOUT, run.wait_for(|is_finished| *is_finished)).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => tracing::error!("the shutdown hooks panicked"),
            Err(_) => tracing::error!("the shutdown hooks did not end within {TIMEOUT:?}"),
        }
    }

    fn spawn(&self) -> watch::Receiver<bool> {
        let (sender, receiver) = watch::channel(false);
        let (hooks, identity) = (Arc::clone(&self.hooks), self.identity.clone());
        tokio::spawn(async move {
            hooks.shutdown(&identity.invocation(Reason::Shutdown)).await;
            hooks.log_calls("ended");
            sender.send_replace(true);
        });
        receiver
    }
}
