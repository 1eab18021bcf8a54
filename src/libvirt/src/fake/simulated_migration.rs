//! A migration: it lasts as planned, stops the guest at its end, and leaves the definition behind.
//!
//! ```text
//!   [idle] ── migrate ──▶ [prepare] ──▶ [transfer] ── all of it ──▶ Paused/Migration ──▶ Shutoff/Migrated
//!                             └─────────────┴── abort, failure ──▶ [idle], the guest runs on
//! ```

use std::thread;
use std::time::Duration;

use super::FakeDaemon;
use super::daemon::no_domain;
use super::fake_connection::FakeConnection;
use super::invalid_operation::invalid;
use super::migration_plan::SentMigration;
use super::running_migration::RunningMigration;
use super::simulated_domain::{Events, SimulatedDomain};
use crate::domain_state::{DomainState, Reason, State};
use crate::error::{Error, Result, code, origin};
use crate::event::{Detail, LifecycleEvent};
use crate::migration::MigrationRequest;

const POLL: Duration = Duration::from_millis(2);

/// Migrates, and waits for the end.
pub(super) fn run(
    connection: &FakeConnection,
    name: &str,
    destination: &str,
    request: &MigrationRequest,
    failure: Option<Error>,
) -> Result<()> {
    let daemon = &connection.daemon;
    let plan = daemon.controls(|controls| {
        controls.migrations.push(SentMigration {
            destination: destination.to_owned(),
            request: request.clone(),
        });
        controls.migration.clone()
    });
    daemon.change(name, |domain| {
        domain.must_run()?;
        domain.must_be_idle()?;
        let resume = domain.state.state == DomainState::Running;
        let migration = RunningMigration::new(plan, request.flags, resume, failure);
        domain.migration = Some(migration);
        Ok(Vec::new())
    })?;
    loop {
        let result = daemon.with_domain(name, |domain| match &domain.migration {
            Some(migration) => migration.result(),
            None => Some(Err(ended_early())),
        });
        match result {
            None => return Err(no_domain(name)),
            Some(Some(result)) => return end(connection, name, result),
            Some(None) => thread::sleep(POLL),
        }
        if let Err(closed) = connection.must_be_open() {
            return lose_daemon(connection, name, closed);
        }
    }
}

/// The running migration.
pub(super) fn of(domain: &mut SimulatedDomain) -> Result<&mut RunningMigration> {
    domain.must_run()?;
    domain
        .migration
        .as_mut()
        .ok_or_else(|| invalid("domain is not being migrated"))
}

/// The events of the switch to post-copy: the guest continues on the target.
pub(super) fn post_copy_began(domain: &mut SimulatedDomain) -> Events {
    let mut events = domain.stopped_by_migration();
    domain.state = State::new(DomainState::Paused, Reason::Postcopy);
    events.push(domain.lifecycle(LifecycleEvent::Suspended, Detail::Postcopy));
    events
}

fn end(connection: &FakeConnection, name: &str, result: Result<()>) -> Result<()> {
    let daemon = &connection.daemon;
    if result.is_ok() {
        daemon.change(name, |domain| Ok(domain.stopped_by_migration()))?;
    }
    let change = daemon.change(name, |domain| {
        let Some(migration) = domain.migration.take() else {
            return Ok(Vec::new());
        };
        match &result {
            Ok(()) => Ok(domain.ended(Reason::Migrated, Detail::Migrated)),
            Err(_) => Ok(domain.resumed_after(&migration)),
        }
    });
    result.and(change)
}

/// The next daemon resumes the guest after its recovery, unless the target may run it.
fn lose_daemon(connection: &FakeConnection, name: &str, closed: Error) -> Result<()> {
    let mut recovery = Duration::ZERO;
    connection.daemon.change(name, |domain| {
        if let Some(migration) = &domain.migration {
            recovery = migration.plan.recovery;
        }
        domain.recovers = !recovery.is_zero();
        let handed_over = domain.migration.take_if(|one| one.plan.handed_over);
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
            .with_domain(&name, |domain| domain.recovers = false);
    });
    Err(closed)
}

fn ended_early() -> Error {
    Error {
        code: code::OPERATION_FAILED,
        domain: origin::QEMU,
        message: "operation failed: domain is not running".into(),
    }
}

impl FakeDaemon {
    /// The abort that hangs by the migration's plan takes effect.
    pub fn finish_hung_abort(&self, domain: &str) {
        self.daemon.with_domain(domain, |domain| {
            if let Some(migration) = &mut domain.migration {
                migration.plan.abort_hangs = false;
            }
        });
    }

    /// The source pauses the guest for the switchover.
    pub fn pause_for_switchover(&self, domain: &str) {
        let _ = self
            .daemon
            .change(domain, |domain| Ok(domain.stopped_by_migration()));
    }
}

impl SimulatedDomain {
    /// The guest is stopped for the migration's end.
    pub(super) fn stopped_by_migration(&mut self) -> Events {
        if let Some(migration) = &mut self.migration {
            migration.assist();
        }
        if self.state.state != DomainState::Running {
            return Vec::new();
        }
        self.state = State::new(DomainState::Paused, Reason::Migration);
        vec![self.lifecycle(LifecycleEvent::Suspended, Detail::Migrated)]
    }

    fn resumed_after(&mut self, migration: &RunningMigration) -> Events {
        if !migration.resume || self.state.state == DomainState::Running {
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
