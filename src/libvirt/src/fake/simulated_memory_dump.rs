//! The course of a simulated memory dump: it pauses a running guest, lasts as long as configured, and resumes the
//! guest.
//!
//! ```text
//!   [idle] ── core_dump_memory ──▶ [dumping] ── time over, failure, QEMU's end ──▶ [idle]
//! ```

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::connection_handle::FakeConnection;
use super::errors::{domain_ended_during_job, domain_not_found, operation_invalid, qemu_error};
use super::running_jobs::RunningDump;
use super::simulated_domain::SimulatedDomain;
use crate::domain_jobs::JobStats;
use crate::domain_state::{DomainState, Reason, State};
use crate::error::{Error, Result, code};
use crate::event::{Detail, Event, LifecycleEvent};

const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Pauses the guest, waits for the dump's end and resumes the guest.
pub(super) fn run(
    connection: &FakeConnection,
    name: &str,
    path: &str,
    failure: Option<Error>,
) -> Result<()> {
    let daemon = &connection.daemon;
    let duration = daemon.controls(|controls| controls.dump_duration);
    daemon.change(name, |domain| begin(domain, duration, failure))?;
    let mut result = create_file(path);
    while result.is_ok() && daemon.with_domain(name, |domain| is_running(domain)) == Some(true) {
        thread::sleep(POLL_INTERVAL);
        // The next daemon resumes the guest of a dump that ended with the previous daemon.
        result = connection.must_be_open();
    }
    let mut dump_result = Err(domain_not_found(name));
    let change_result = daemon.change(name, |domain| {
        let events;
        (dump_result, events) = end(domain);
        Ok(events)
    });
    result = result.and(change_result).and(dump_result);
    if result.is_err() {
        // Like libvirt, which removes an incomplete file.
        let _ = fs::remove_file(path);
    }
    result
}

fn begin(
    domain: &mut SimulatedDomain,
    duration: Duration,
    failure: Option<Error>,
) -> Result<Vec<Event>> {
    domain.must_run()?;
    domain.must_be_idle()?;
    let resumes_guest = domain.state.state == DomainState::Running;
    domain.dump = Some(RunningDump {
        started: Instant::now(),
        duration,
        resumes_guest,
        failure,
    });
    if !resumes_guest {
        return Ok(Vec::new());
    }
    domain.state = State::new(DomainState::Paused, Reason::Dump);
    Ok(vec![
        domain.lifecycle(LifecycleEvent::Suspended, Detail::Paused),
    ])
}

fn create_file(path: &str) -> Result<()> {
    fs::write(path, b"\x7fELF").map_err(|error| {
        qemu_error(
            code::SYSTEM_ERROR,
            format!("Failed to create file '{path}': {}", c_library_text(&error)),
        )
    })
}

/// The C library's text, without Rust's error number.
fn c_library_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

fn is_running(domain: &SimulatedDomain) -> bool {
    let dump = domain.dump.as_ref();
    dump.is_some_and(|dump| dump.failure.is_none() && dump.progress() < 1.0)
}

/// Ends the dump. Returns its result, and the events that follow.
fn end(domain: &mut SimulatedDomain) -> (Result<()>, Vec<Event>) {
    let Some(dump) = domain.dump.take() else {
        return (Err(domain_ended_during_job()), Vec::new());
    };
    let result = dump.failure.map_or(Ok(()), Err);
    let paused = domain.state == State::new(DomainState::Paused, Reason::Dump);
    if !(dump.resumes_guest && paused) {
        return (result, Vec::new());
    }
    domain.state = State::new(DomainState::Running, Reason::Unpaused);
    let resumed = domain.lifecycle(LifecycleEvent::Resumed, Detail::Unpaused);
    (result, vec![resumed])
}

/// libvirt's error for a request to abort a memory dump, or no job at all.
pub(super) fn refuse_abort(domain: &SimulatedDomain) -> Result<()> {
    domain.must_run()?;
    Err(operation_invalid(match domain.dump {
        Some(_) => "cannot abort memory-only dump",
        None => "no job is active on the domain",
    }))
}

/// The progress of the memory dump; default values if none runs.
pub(super) fn stats(domain: &SimulatedDomain) -> Result<JobStats> {
    domain.must_run()?;
    if domain.is_incoming {
        return Err(operation_invalid(
            "migration statistics are available only on the source host",
        ));
    }
    Ok(domain
        .dump
        .as_ref()
        .map(RunningDump::stats)
        .unwrap_or_default())
}
