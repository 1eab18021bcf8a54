//! Starting, pausing and stopping one simulated domain: the change of its state, and the events that follow.
//!
//! ```text
//!            start                 suspend
//! Shutoff ──────────▶ Running ◀──────────────▶ Paused
//!    ▲                   │         resume         │
//!    └─ shutdown, destroy, QEMU's death ──────────┘
//! ```

use super::errors::operation_invalid;
use super::simulated_domain::{Events, SimulatedDomain};
use crate::domain_jobs::JobType;
use crate::domain_state::{DomainState, State};
use crate::error::Result;
use crate::event::{Detail, Event, LifecycleEvent};
use crate::start_pause_stop::{RebootMode, ShutdownMode, StartOptions};
use crate::state_reason::Reason;

impl SimulatedDomain {
    pub(super) fn start(&mut self, options: StartOptions, id: u32) -> Result<Events> {
        if self.is_active() {
            return Err(operation_invalid("domain is already running"));
        }
        self.active.clone_from(&self.inactive);
        self.id = id;
        let started = self.lifecycle(LifecycleEvent::Started, Detail::Booted);
        if options.paused {
            self.state = State::new(DomainState::Paused, Reason::User);
            let paused = self.lifecycle(LifecycleEvent::Suspended, Detail::Paused);
            return Ok(vec![started, paused]);
        }
        self.state = State::new(DomainState::Running, Reason::Booted);
        let resumed = self.lifecycle(LifecycleEvent::Resumed, Detail::Unpaused);
        Ok(vec![resumed, started])
    }

    pub(super) fn suspend(&mut self) -> Result<Events> {
        self.must_run()?;
        if self.state.state == DomainState::Paused {
            return Ok(Vec::new());
        }
        if self.migration.is_some() {
            return Ok(self.pause_for_migration());
        }
        self.state = State::new(DomainState::Paused, Reason::User);
        Ok(vec![
            self.lifecycle(LifecycleEvent::Suspended, Detail::Paused),
        ])
    }

    pub(super) fn resume(&mut self) -> Result<Events> {
        self.must_run()?;
        self.must_be_idle()?;
        if self.state.state == DomainState::Running {
            return Err(operation_invalid("domain is already running"));
        }
        self.state = State::new(DomainState::Running, Reason::Unpaused);
        Ok(vec![
            self.lifecycle(LifecycleEvent::Resumed, Detail::Unpaused),
        ])
    }

    pub(super) fn reset(&mut self) -> Result<Events> {
        self.must_run()?;
        Ok(self.reboot_events())
    }

    pub(super) fn reboot(&mut self, mode: RebootMode) -> Result<Events> {
        self.must_run()?;
        if mode == RebootMode::Agent {
            self.must_have_agent()?;
        }
        Ok(self.reboot_events())
    }

    /// The events of a reboot. libvirt sends two.
    fn reboot_events(&self) -> Events {
        let reboot = Event::Reboot {
            domain: self.name.clone(),
        };
        vec![reboot.clone(), reboot]
    }

    pub(super) fn shutdown(&mut self, mode: ShutdownMode, obeys: bool) -> Result<Events> {
        self.must_run()?;
        self.must_be_idle()?;
        if mode == ShutdownMode::Agent {
            self.must_have_agent()?;
        }
        // A paused guest does not react to the request.
        if !obeys || self.state.state != DomainState::Running {
            return Ok(Vec::new());
        }
        Ok(self.power_off())
    }

    pub(super) fn power_off(&mut self) -> Events {
        let mut events = vec![self.lifecycle(LifecycleEvent::Shutdown, Detail::Guest)];
        events.extend(self.end_qemu(Reason::Shutdown, Detail::Shutdown));
        events
    }

    pub(super) fn destroy(&mut self) -> Result<Events> {
        self.must_run()?;
        let mut events = vec![self.lifecycle(LifecycleEvent::Shutdown, Detail::Host)];
        events.extend(self.end_qemu(Reason::Destroyed, Detail::Destroyed));
        Ok(events)
    }

    /// Ends the domain's QEMU process: sets the state, and ends its jobs.
    pub(super) fn end_qemu(&mut self, reason: Reason, detail: Detail) -> Events {
        self.state = State::new(DomainState::Shutoff, reason);
        self.active = None;
        self.agent = None;
        self.dump = None;
        self.migration = None;
        self.checkpoints.clear();
        let mut events = self.end_backup(JobType::Cancelled, None);
        events.push(self.lifecycle(LifecycleEvent::Stopped, detail));
        events
    }

    pub(super) fn undefine(&mut self) -> Result<Events> {
        if self.inactive.take().is_none() {
            return Err(operation_invalid("cannot undefine transient domain"));
        }
        Ok(vec![
            self.lifecycle(LifecycleEvent::Undefined, Detail::Removed),
        ])
    }
}
