//! Asks both libvirt daemons where the guest is after a migrate call has broken off, until [`decide`] knows it.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{DestroyMode, Domain, DomainState, JobType, Reason, State};
use tokio::time::Instant;

use super::blocking_query::BlockingQuery;
use super::guest_location_decision::{
    GuestLocation, MigrationHistory, NextStep, SourceView, TargetView, decide, target_view,
};
use crate::jobs::{JobConnection, JobContext};
use crate::libvirt_client::Connect;

/// The pause between two queries.
const QUERY_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of one query, after which the daemon is asked again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for an answer of the target, where the wait is limited. Its daemon may be starting, too.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a log line says that the guest's location is still unknown.
const REMINDER_INTERVAL: Duration = Duration::from_secs(60);

/// The target's daemon, and the name of the domain there.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) uri: String,
    pub(super) domain: String,
}

/// The query about one migration.
pub(super) struct GuestLocationQuery<'a> {
    context: &'a JobContext,
    target: Target,
    /// Whether the guest was paused before the migration.
    was_paused: bool,
    /// Whether the monitor had suspended the guest, which libvirt reports in the same way as the switch.
    was_suspended: bool,
    source: BlockingQuery<libvirt::Result<SourceReply>>,
    target_state: BlockingQuery<libvirt::Result<Option<State>>>,
    /// The connection to the source's next daemon, once there is one.
    pub(super) connection: Option<JobConnection>,
}

/// The answer of the source's daemon, and its connection.
struct SourceReply {
    connection: Option<JobConnection>,
    view: SourceView,
}

impl<'a> GuestLocationQuery<'a> {
    pub(super) fn new(
        context: &'a JobContext,
        target: Target,
        was_paused: bool,
        was_suspended: bool,
    ) -> Self {
        GuestLocationQuery {
            context,
            target,
            was_paused,
            was_suspended,
            source: BlockingQuery::default(),
            target_state: BlockingQuery::default(),
            connection: None,
        }
    }

    /// Asks until the guest's location is known. There is no timeout, because a guest that may run on the target must
    /// neither be resumed nor ended here.
    pub(super) async fn run(&mut self) -> GuestLocation {
        let mut silent_since = None;
        let mut last_reminder = Instant::now();
        loop {
            if let Some(location) = self.attempt(&mut silent_since).await {
                return location;
            }
            if last_reminder.elapsed() >= REMINDER_INTERVAL {
                last_reminder = Instant::now();
                tracing::error!(
                    "libvirt's daemon died during a migration, and it is still unknown whether the target has the guest: \
                     the guest is neither resumed nor ended here"
                );
            }
            tokio::time::sleep(QUERY_INTERVAL).await;
        }
    }

    /// Asks both daemons once; `None` if the location is not known yet.
    async fn attempt(&mut self, silent_since: &mut Option<Instant>) -> Option<GuestLocation> {
        let view = self.ask_source().await?;
        let history = MigrationHistory {
            is_stopped_for_switch: self.context.job_events.is_stopped_for_switch()
                && !self.was_suspended,
            was_paused: self.was_paused,
        };
        let (absent, silent) = match decide(view, history) {
            NextStep::Wait => return None,
            NextStep::Known(location) => return Some(location),
            NextStep::AskTarget { absent, silent } => (absent, silent),
        };
        match self.ask_target().await {
            TargetView::HasGuest if view.state.is_down() => {
                self.context.report_guest_left().await;
                Some(GuestLocation::OnTarget)
            }
            TargetView::HasGuest => self
                .end_source_guest()
                .await
                .then_some(GuestLocation::OnTarget),
            TargetView::Absent if absent.is_some() => absent,
            TargetView::Absent | TargetView::Undecided => {
                let since = silent_since.get_or_insert_with(Instant::now);
                let location = silent.filter(|_| since.elapsed() >= SILENCE_TIMEOUT)?;
                if location == GuestLocation::OnTarget {
                    self.context.report_guest_left().await;
                }
                Some(location)
            }
        }
    }

    async fn ask_source(&mut self) -> Option<SourceView> {
        let (connect, name) = (
            Arc::clone(&self.context.connect),
            self.context.domain.clone(),
        );
        let connection = &mut self.connection;
        let query = || {
            let connection = connection.take();
            move || query_source(&connect, &name, connection)
        };
        match self.source.run(ANSWER_TIMEOUT, query).await? {
            Ok(reply) => {
                self.connection = reply.connection;
                Some(reply.view)
            }
            Err(error) => {
                tracing::debug!(reason = %error, "libvirt's daemon does not tell how the migration ended");
                None
            }
        }
    }

    async fn ask_target(&mut self) -> TargetView {
        let (connect, target) = (
            Arc::clone(&self.context.connect_target),
            self.target.clone(),
        );
        let query = || {
            move || match connect(&target.uri)?.lookup(&target.domain)? {
                Some(domain) => domain.state().map(Some),
                None => Ok(None),
            }
        };
        match self.target_state.run(ANSWER_TIMEOUT, query).await {
            Some(Ok(state)) => target_view(state),
            Some(Err(error)) => {
                tracing::debug!(reason = %error, "the target does not tell whether it has the guest");
                TargetView::Undecided
            }
            None => TargetView::Undecided,
        }
    }

    /// Ends the guest here, because the target has it. Returns false if that failed.
    async fn end_source_guest(&mut self) -> bool {
        let Some(connection) = &self.connection else {
            return false;
        };
        tracing::warn!("libvirt's daemon died when the guest was on the target: it ends here");
        self.context.report_guest_left().await;
        let domain = Arc::clone(&connection.domain);
        let mut destroy = BlockingQuery::default();
        let ended = destroy
            .run(ANSWER_TIMEOUT, || move || destroy_paused(&*domain))
            .await;
        if !matches!(ended, Some(Ok(true))) {
            tracing::error!(?ended, "the guest that has left stays paused");
        }
        matches!(ended, Some(Ok(true)))
    }
}

/// Destroys the domain if its guest is paused. Returns whether the domain is off. Blocking.
fn destroy_paused(domain: &dyn Domain) -> libvirt::Result<bool> {
    let state = domain.state()?;
    match state.state {
        DomainState::Paused => domain.destroy(DestroyMode::Forceful).map(|()| true),
        _ => Ok(state.is_down()),
    }
}

/// Asks the source's daemon, on `connection` if that is still open. Blocking.
fn query_source(
    connect: &Connect,
    name: &str,
    connection: Option<JobConnection>,
) -> libvirt::Result<SourceReply> {
    let open = connection.filter(|connection| connection.domain.is_connected());
    let connection = match open {
        Some(connection) => Some(connection),
        None => JobConnection::open(connect, name)?,
    };
    let Some(connection) = connection else {
        return Ok(SourceReply {
            connection: None,
            view: SourceView {
                state: State::new(DomainState::Shutoff, Reason::Unknown),
                has_job: false,
            },
        });
    };
    // libvirt answers this call only after the daemon's recovery. Before that, the state is still that of the daemon
    // that died: Paused/Migration for a guest that is about to be resumed.
    let has_job = match connection.domain.job_stats() {
        Ok(stats) => matches!(
            stats.job_type,
            JobType::Bounded | JobType::Unbounded | JobType::Other
        ),
        // The domain does not run.
        Err(error) if error.is_operation_invalid() => false,
        Err(error) => return Err(error),
    };
    let state = connection.domain.state()?;
    Ok(SourceReply {
        connection: Some(connection),
        view: SourceView { state, has_job },
    })
}
