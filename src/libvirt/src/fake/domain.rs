//! One domain: what each request makes of its state, and the events that tell it.
//!
//! ```text
//!            start                 suspend
//! Shutoff ──────────▶ Running ◀──────────────▶ Paused
//!    ▲                   │         resume         │
//!    └─ shutdown, destroy, QEMU's death ──────────┘
//! ```

use std::collections::BTreeMap;

use super::Agent;
use super::definition::Definition;
use crate::error::{Error, Result, code, origin};
use crate::event::{Detail, Event, LifecycleEvent};
use crate::hypervisor::{BlockInfo, RebootMode, ShutdownMode, Start};
use crate::state::{DomainState, Reason, State};
use crate::stats::GuestStats;

pub(super) struct Domain {
    pub(super) name: String,
    pub(super) uuid: String,
    /// The persistent configuration; none for a transient domain.
    pub(super) inactive: Option<Definition>,
    /// The running configuration.
    pub(super) active: Option<Definition>,
    pub(super) id: u32,
    pub(super) state: State,
    pub(super) stats: GuestStats,
    pub(super) agent: Option<Agent>,
    /// How many open files were lent, by group.
    pub(super) lent: BTreeMap<String, usize>,
    pub(super) blocks: BTreeMap<String, BlockInfo>,
}

type Events = Vec<Event>;

impl Domain {
    pub(super) fn new(definition: Definition, uuid: String) -> Self {
        Domain {
            name: definition.name.clone(),
            uuid,
            inactive: Some(definition),
            active: None,
            id: 0,
            state: State::new(DomainState::Shutoff, Reason::Unknown),
            stats: GuestStats::default(),
            agent: None,
            lent: BTreeMap::new(),
            blocks: BTreeMap::new(),
        }
    }

    pub(super) fn block(&mut self, disk: &str) -> Result<&mut BlockInfo> {
        self.blocks.get_mut(disk).ok_or_else(|| Error {
            code: code::INVALID_ARG,
            domain: origin::QEMU,
            message: format!("invalid argument: invalid path '{disk}' not assigned to domain"),
        })
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.is_some()
    }

    /// Nothing is left of it.
    pub(super) fn is_gone(&self) -> bool {
        self.active.is_none() && self.inactive.is_none()
    }

    pub(super) fn lifecycle(&self, event: LifecycleEvent, detail: Detail) -> Event {
        Event::Lifecycle {
            domain: self.name.clone(),
            event,
            detail,
        }
    }

    pub(super) fn must_run(&self) -> Result<()> {
        if self.is_active() {
            return Ok(());
        }
        Err(invalid("domain is not running"))
    }

    pub(super) fn start(&mut self, how: Start, id: u32) -> Result<Events> {
        if self.is_active() {
            return Err(invalid("domain is already running"));
        }
        self.active.clone_from(&self.inactive);
        self.id = id;
        let started = self.lifecycle(LifecycleEvent::Started, Detail::Booted);
        if how.paused {
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
        self.state = State::new(DomainState::Paused, Reason::User);
        Ok(vec![
            self.lifecycle(LifecycleEvent::Suspended, Detail::Paused),
        ])
    }

    pub(super) fn resume(&mut self) -> Result<Events> {
        self.must_run()?;
        if self.state.state == DomainState::Running {
            return Err(invalid("domain is already running"));
        }
        self.state = State::new(DomainState::Running, Reason::Unpaused);
        Ok(vec![
            self.lifecycle(LifecycleEvent::Resumed, Detail::Unpaused),
        ])
    }

    pub(super) fn reset(&mut self) -> Result<Events> {
        self.must_run()?;
        Ok(self.rebooted())
    }

    pub(super) fn reboot(&mut self, by: RebootMode) -> Result<Events> {
        self.must_run()?;
        if by == RebootMode::Agent {
            self.must_have_agent()?;
        }
        Ok(self.rebooted())
    }

    /// libvirt tells of every reboot twice.
    pub(super) fn rebooted(&self) -> Events {
        let reboot = Event::Reboot {
            domain: self.name.clone(),
        };
        vec![reboot.clone(), reboot]
    }

    pub(super) fn shutdown(&mut self, by: ShutdownMode, obey: bool) -> Result<Events> {
        self.must_run()?;
        if by == ShutdownMode::Agent {
            self.must_have_agent()?;
        }
        // A paused guest cannot react.
        if !obey || self.state.state != DomainState::Running {
            return Ok(Vec::new());
        }
        Ok(self.power_off())
    }

    pub(super) fn power_off(&mut self) -> Events {
        let mut events = vec![self.lifecycle(LifecycleEvent::Shutdown, Detail::Guest)];
        events.extend(self.ended(Reason::Shutdown, Detail::Shutdown));
        events
    }

    pub(super) fn destroy(&mut self) -> Result<Events> {
        self.must_run()?;
        let mut events = vec![self.lifecycle(LifecycleEvent::Shutdown, Detail::Host)];
        events.extend(self.ended(Reason::Destroyed, Detail::Destroyed));
        Ok(events)
    }

    /// There is no QEMU process any more.
    pub(super) fn ended(&mut self, reason: Reason, detail: Detail) -> Events {
        self.state = State::new(DomainState::Shutoff, reason);
        self.active = None;
        self.agent = None;
        vec![self.lifecycle(LifecycleEvent::Stopped, detail)]
    }

    pub(super) fn undefine(&mut self) -> Result<Events> {
        if self.inactive.take().is_none() {
            return Err(invalid("cannot undefine transient domain"));
        }
        Ok(vec![
            self.lifecycle(LifecycleEvent::Undefined, Detail::Removed),
        ])
    }

    /// The agent, or libvirt's error for its absence.
    pub(super) fn must_have_agent(&self) -> Result<Agent> {
        self.must_run()?;
        self.agent.clone().ok_or_else(|| Error {
            code: code::AGENT_UNRESPONSIVE,
            domain: origin::QEMU,
            message: "Guest agent is not responding: QEMU guest agent is not connected".into(),
        })
    }
}

/// libvirt's refusal of what a state does not allow.
pub(super) fn invalid(why: &str) -> Error {
    Error {
        code: code::OPERATION_INVALID,
        domain: origin::QEMU,
        message: format!("Requested operation is not valid: {why}"),
    }
}
