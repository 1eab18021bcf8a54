//! The course of a simulated migration on its source: it lasts as planned, pauses the guest at its end, and leaves the
//! definition behind.
//!
//! ```text
//!   [idle] ── migrate ──▶ [prepare] ──▶ [transfer] ── all of it ──▶ Paused/Migration ──▶ Shutoff/Migrated
//!                             └─────────────┴── abort, failure ──▶ [idle], the guest runs on
//! ```

use std::thread;
use std::time::Duration;

use super::connection_handle::FakeConnection;
use super::errors::{domain_ended_during_job, domain_not_found, operation_invalid};
use super::running_jobs::{RunningMigration, SentMigration};
use super::simulated_domain::{Events, SimulatedDomain};
use crate::domain_jobs::MigrationRequest;
use crate::domain_state::{DomainState, Reason, State};
use crate::error::{Error, Result};
use crate::event::{Detail, LifecycleEvent};

const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Starts the migration and waits for its end.
pub(super) fn run(
    connection: &FakeConnection,
    name: &str,
    destination: &str,
    request: &MigrationRequest,
    failure: Option<Error>,
) -> Result<()> {
    let daemon = &connection.daemon;
    let plan = daemon.controls(|controls| {
        controls.sent_migrations.push(SentMigration {
            destination: destination.to_owned(),
            request: request.clone(),
        });
        controls.migration_plan.clone()
    });
    daemon.change(name, |domain| {
        domain.must_run()?;
        domain.must_be_idle()?;
        let resumes_guest = domain.state.state == DomainState::Running;
        let migration = RunningMigration::new(plan, request.flags, resumes_guest, failure);
        domain.migration = Some(migration);
        Ok(Vec::new())
    })?;
    loop {
        let result = daemon.with_domain(name, |domain| match &domain.migration {
            Some(migration) => migration.result(),
            None => Some(Err(domain_ended_during_job())),
        });
        match result {
            None => return Err(domain_not_found(name)),
            Some(Some(result)) => return end(connection, name, result),
            Some(None) => thread::sleep(POLL_INTERVAL),
        }
        if let Err(closed) = connection.must_be_open() {
            return handle_daemon_end(connection, name, closed);
        }
    }
}

/// The running migration. Fails if none runs.
pub(super) fn running(domain: &mut SimulatedDomain) -> Result<&mut RunningMigration> {
    domain.must_run()?;
    domain
        .migration
        .as_mut()
        .ok_or_else(|| operation_invalid("domain is not being migrated"))
}

/// Switches to post-copy: the guest continues on the target. Returns the events.
pub(super) fn switch_to_post_copy(domain: &mut SimulatedDomain) -> Events {
    let mut events = domain.pause_for_migration();
    domain.state = State::new(DomainState::Paused, Reason::Postcopy);
    events.push(domain.lifecycle(LifecycleEvent::Suspended, Detail::Postcopy));
    events
}

fn end(connection: &FakeConnection, name: &str, result: Result<()>) -> Result<()> {
    let daemon = &connection.daemon;
    if result.is_ok() {
        daemon.change(name, |domain| Ok(domain.pause_for_migration()))?;
    }
    let change = daemon.change(name, |domain| {
        let Some(migration) = domain.migration.take() else {
            return Ok(Vec::new());
        };
        match &result {
            Ok(()) => Ok(domain.end_qemu(Reason::Migrated, Detail::Migrated)),
            Err(_) => Ok(domain.resume_after_migration(&migration)),
        }
    });
    result.and(change)
}

/// The daemon dies. The next daemon resumes the guest after the recovery, unless the target may run it.
fn handle_daemon_end(connection: &FakeConnection, name: &str, closed: Error) -> Result<()> {
    let mut recovery = Duration::ZERO;
    connection.daemon.change(name, |domain| {
        if let Some(migration) = &domain.migration {
            recovery = migration.plan.recovery;
        }
        domain.recovers_job = !recovery.is_zero();
        let handed_over = domain
            .migration
            .take_if(|migration| migration.plan.handed_over);
        if handed_over.is_some() {
            domain.state = State::new(DomainState::Paused, Reason::Migration);
        }
        Ok(Vec::new())
    })?;
    if recovery.is_zero() {
        return end(connection, name, Err(closed));
    }
    let (connection, name, error) = (connection.clone(), name.to_owned(), closed.clone());
    thread::spawn(move || {
        thread::sleep(recovery);
        let _ = end(&connection, &name, Err(error));
        connection
            .daemon
            .with_domain(&name, |domain| domain.recovers_job = false);
    });
    Err(closed)
}

impl SimulatedDomain {
    /// Pauses the guest for the migration. Returns the events.
    pub(super) fn pause_for_migration(&mut self) -> Events {
        if let Some(migration) = &mut self.migration {
            migration.let_converge();
        }
        if self.state.state != DomainState::Running {
            return Vec::new();
        }
        self.state = State::new(DomainState::Paused, Reason::Migration);
        vec![self.lifecycle(LifecycleEvent::Suspended, Detail::Migrated)]
    }

    /// Resumes the guest after a failed migration, unless it runs on the target. Returns the events.
    fn resume_after_migration(&mut self, migration: &RunningMigration) -> Events {
        if !migration.resumes_guest || self.state.state == DomainState::Running {
            return Vec::new();
        }
        if migration.is_post_copy {
            self.state = State::new(DomainState::Paused, Reason::PostcopyFailed);
            return vec![self.lifecycle(LifecycleEvent::Suspended, Detail::PostcopyFailed)];
        }
        self.state = State::new(DomainState::Running, Reason::MigrationCanceled);
        vec![self.lifecycle(LifecycleEvent::Resumed, Detail::Migrated)]
    }
}
