//! A memory dump: it pauses a running guest, lasts as long as configured, and resumes the guest.
//!
//! ```text
//!   [idle] ── core_dump_memory ──▶ [dumping] ── time over, failure, QEMU's end ──▶ [idle]
//! ```

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::daemon::no_domain;
use super::dump_progress::RunningDump;
use super::fake_connection::FakeConnection;
use super::invalid_operation::invalid;
use super::simulated_domain::SimulatedDomain;
use crate::domain_jobs::JobStats;
use crate::domain_state::{DomainState, Reason, State};
use crate::error::{Error, Result, code, origin};
use crate::event::{Detail, Event, LifecycleEvent};

const POLL: Duration = Duration::from_millis(2);

/// Pauses the guest, waits for the dump's end and resumes the guest.
pub(super) fn run(
    connection: &FakeConnection,
    name: &str,
    path: &str,
    failure: Option<Error>,
) -> Result<()> {
    let daemon = &connection.daemon;
    let lasts = daemon.controls(|controls| controls.dump_duration);
    daemon.change(name, |domain| begin(domain, lasts, failure))?;
    let mut result = create(path);
    while result.is_ok() && daemon.with_domain(name, |domain| is_under_way(domain)) == Some(true) {
        thread::sleep(POLL);
        // The next daemon resumes a guest whose dump ended with the one before.
        result = connection.must_be_open();
    }
    let mut ended = Err(no_domain(name));
    let known = daemon.change(name, |domain| {
        let events;
        (ended, events) = end(domain);
        Ok(events)
    });
    result = result.and(known).and(ended);
    if result.is_err() {
        // libvirt leaves no incomplete file either.
        let _ = fs::remove_file(path);
    }
    result
}

fn begin(
    domain: &mut SimulatedDomain,
    lasts: Duration,
    failure: Option<Error>,
) -> Result<Vec<Event>> {
    domain.must_run()?;
    domain.must_be_idle()?;
    let resume = domain.state.state == DomainState::Running;
    domain.dump = Some(RunningDump {
        started: Instant::now(),
        lasts,
        resume,
        failure,
    });
    if !resume {
        return Ok(Vec::new());
    }
    domain.state = State::new(DomainState::Paused, Reason::Dump);
    Ok(vec![
        domain.lifecycle(LifecycleEvent::Suspended, Detail::Paused),
    ])
}

fn create(path: &str) -> Result<()> {
    fs::write(path, b"\x7fELF").map_err(|error| Error {
        code: code::SYSTEM_ERROR,
        domain: origin::QEMU,
        message: format!("Failed to create file '{path}': {}", reason(&error)),
    })
}

/// The C library's text, without Rust's error number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

fn is_under_way(domain: &SimulatedDomain) -> bool {
    let dump = domain.dump.as_ref();
    dump.is_some_and(|dump| dump.failure.is_none() && dump.share() < 1.0)
}

/// The dump's result, and the events that follow.
fn end(domain: &mut SimulatedDomain) -> (Result<()>, Vec<Event>) {
    let Some(dump) = domain.dump.take() else {
        return (Err(ended_early()), Vec::new());
    };
    let result = dump.failure.map_or(Ok(()), Err);
    let paused = domain.state == State::new(DomainState::Paused, Reason::Dump);
    if !(dump.resume && paused) {
        return (result, Vec::new());
    }
    domain.state = State::new(DomainState::Running, Reason::Unpaused);
    let resumed = domain.lifecycle(LifecycleEvent::Resumed, Detail::Unpaused);
    (result, vec![resumed])
}

/// QEMU ended before the dump was complete.
fn ended_early() -> Error {
    Error {
        code: code::OPERATION_FAILED,
        domain: origin::QEMU,
        message: "operation failed: domain is not running".into(),
    }
}

/// What libvirt answers to a request to abort.
pub(super) fn abort(domain: &SimulatedDomain) -> Result<()> {
    domain.must_run()?;
    Err(invalid(match domain.dump {
        Some(_) => "cannot abort memory-only dump",
        None => "no job is active on the domain",
    }))
}

pub(super) fn stats(domain: &SimulatedDomain) -> Result<JobStats> {
    domain.must_run()?;
    if domain.incoming {
        return Err(invalid(
            "migration statistics are available only on the source host",
        ));
    }
    Ok(domain
        .dump
        .as_ref()
        .map(RunningDump::stats)
        .unwrap_or_default())
}
