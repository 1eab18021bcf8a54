//! The task that polls the guest agent, one command at a time, and fills the cache.

mod run_poll;
mod schedule;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use schedule::AgentLink;
pub use schedule::PollIntervals;

use super::guest_info_cache::GuestInfoCache;
use crate::libvirt_client::Client;
use schedule::Schedule;

/// Polls the guest agent. Clones have schedules of their own and share the cache.
#[derive(Clone)]
pub(crate) struct Poller {
    pub(crate) client: Client,
    pub(crate) cache: Arc<GuestInfoCache>,
    /// Whether the agent can be polled.
    pub(crate) link: watch::Receiver<AgentLink>,
    pub(crate) intervals: PollIntervals,
}

impl Poller {
    /// Polls the agent; never ends by itself.
    pub(crate) async fn run(mut self) {
        let begin = Instant::now();
        let mut schedule = Schedule::new(self.intervals);
        let mut frozen = self.cache.frozen();
        loop {
            schedule.observe_link(*self.link.borrow_and_update(), begin.elapsed());
            schedule.observe_frozen(*frozen.borrow_and_update());
            let next = schedule.next();
            tokio::select! {
                biased;
                changed = self.link.changed() => if changed.is_err() {
                    // The sender is gone: the launcher ends.
                    std::future::pending::<()>().await;
                },
                // Cannot fail: the cache holds the sender.
                _ = frozen.changed() => {}
                () = wait_until(begin, next.map(|(at, _)| at)) => if let Some((_, poll)) = next {
                    let outcome = run_poll::ask(&self.client, &self.cache, poll).await;
                    schedule.observe_outcome(poll, outcome, begin.elapsed());
                },
            }
        }
    }
}

async fn wait_until(begin: Instant, at: Option<Duration>) {
    match at {
        Some(at) => tokio::time::sleep_until(begin + at).await,
        None => std::future::pending().await,
    }
}
