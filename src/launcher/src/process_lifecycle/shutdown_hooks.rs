//! Runs the shutdown hooks once, whoever asks first: the lifetime driver, or the end of a launcher that failed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hook_host::Reason;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::hooks_trait::Hooks;
use crate::manager::Identity;
use crate::supervised_tasks::panic_message;

/// Timeout of the shutdown hooks, longer than those of any VM take. The hook host limits every hook; this is for a
/// fault of the hook host itself.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The shutdown hooks of one launcher. Clones share the run.
#[derive(Clone)]
pub(super) struct ShutdownHooks {
    hooks: Arc<dyn Hooks>,
    identity: Identity,
    timeout: Duration,
    /// Set when the run has started. The value becomes true when the run has ended.
    run: Arc<OnceLock<watch::Receiver<bool>>>,
}

impl ShutdownHooks {
    pub(super) fn new(hooks: Arc<dyn Hooks>, identity: Identity) -> ShutdownHooks {
        ShutdownHooks {
            hooks,
            identity,
            timeout: TIMEOUT,
            run: Arc::default(),
        }
    }

    /// Runs the hooks concurrently with everything else, unless they run already or have run.
    pub(super) fn start(&self) {
        self.run.get_or_init(|| self.spawn());
    }

    /// Waits until the hooks have run, have panicked or have used up their time.
    pub(super) async fn finish(&self) {
        let mut run = self.run.get_or_init(|| self.spawn()).clone();
        let _ = run.wait_for(|has_ended| *has_ended).await;
    }

    fn spawn(&self) -> watch::Receiver<bool> {
        let (sender, receiver) = watch::channel(false);
        let (hooks, identity) = (Arc::clone(&self.hooks), self.identity.clone());
        let timeout = self.timeout;
        let run = async move {
            hooks.shutdown(&identity.invocation(Reason::Shutdown)).await;
            hooks.log_calls("ended");
        };
        tokio::spawn(async move {
            // A task of its own, so that a panic is reported with its text.
            let run = AbortOnDropHandle::new(tokio::spawn(run));
            match tokio::time::timeout(timeout, run).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::error!(reason = panic_message(error), "running the shutdown hooks");
                }
                Err(_) => tracing::error!("the shutdown hooks did not end within {timeout:?}"),
            }
            sender.send_replace(true);
        });
        receiver
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;
    use hook_host::{Invocation, Run};

    use super::*;

    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        NeverReturns,
        Panics,
    }

    struct FaultyHooks {
        fault: Fault,
        runs: AtomicUsize,
    }

    #[tonic::async_trait]
    impl Hooks for FaultyHooks {
        async fn shutdown(&self, _: &Invocation) -> Vec<Run> {
            self.runs.fetch_add(1, Ordering::SeqCst);
            assert!(self.fault == Fault::NeverReturns, "no chain");
            std::future::pending().await
        }
    }

    /// Waits for faulty hooks as the launcher does: the lifetime driver starts the run and waits for it, and the end of
    /// the launcher waits again. Returns the log.
    async fn log_of_a_run_with(fault: Fault) -> String {
        let log = tempfile::NamedTempFile::new().unwrap();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(log.reopen().unwrap());
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        let runs = AtomicUsize::new(0);
        let hooks = Arc::new(FaultyHooks { fault, runs });
        let shutdown_hooks = ShutdownHooks {
            timeout: Duration::from_millis(50),
            ..ShutdownHooks::new(hooks.clone(), Identity::new("default", "vm1", "1234"))
        };
        shutdown_hooks.start();
        shutdown_hooks.finish().await;
        let second = shutdown_hooks.clone().finish().now_or_never();
        assert!(second.is_some(), "waits a second time");
        assert_eq!(hooks.runs.load(Ordering::SeqCst), 1);
        std::fs::read_to_string(log.path()).unwrap()
    }

    #[tokio::test]
    async fn hooks_that_never_return_are_waited_for_and_reported_once() {
        let log = log_of_a_run_with(Fault::NeverReturns).await;
        assert_eq!(log.matches("did not end within 50ms").count(), 1, "{log}");
        assert_eq!(log.lines().count(), 1, "{log}");
    }

    #[tokio::test]
    async fn panic_of_the_hook_host_is_reported_once_with_its_text() {
        let log = log_of_a_run_with(Fault::Panics).await;
        assert_eq!(log.matches("it panicked: no chain").count(), 1, "{log}");
        assert_eq!(log.lines().count(), 1, "{log}");
    }
}
