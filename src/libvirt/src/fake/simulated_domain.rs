//! One simulated domain: how each request changes its state, and the events that follow.
//!
//! ```text
//!            start                 suspend
//! Shutoff ──────────▶ Running ◀──────────────▶ Paused
//!    ▲                   │         resume         │
//!    └─ shutdown, destroy, QEMU's death ──────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};

use domain_xml::Element;

use super::backup_progress::RunningBackup;
use super::definition_xml::DefinitionXml;
use super::dirty_rate_state::DirtyRateState;
use super::dump_progress::RunningDump;
use super::invalid_operation::invalid;
use super::running_migration::RunningMigration;
use super::{Agent, FakeDaemon};
use crate::disks::{BlockInfo, DiskFault};
use crate::domain_jobs::{CompletedJob, JobType};
use crate::domain_state::{DomainState, Reason, State};
use crate::error::{Error, Result, code, origin};
use crate::event::{Detail, Event, LifecycleEvent};
use crate::launch_security::{LaunchSecret, LaunchSecurityInfo};
use crate::screenshot::Screenshot;
use crate::start_pause_stop::{RebootMode, ShutdownMode, StartOptions};
use crate::stats::DomainStats;

/// The launch security of a domain.
#[derive(Default)]
pub(super) struct LaunchSecurityState {
    /// What a test gives the domain. `None` for a domain without launch security.
    pub(super) info: Option<LaunchSecurityInfo>,
    /// The secret that the domain received.
    pub(super) secret: Option<LaunchSecret>,
}

pub(super) struct SimulatedDomain {
    pub(super) name: String,
    pub(super) uuid: String,
    /// The persistent configuration; none for a transient domain.
    pub(super) inactive: Option<DefinitionXml>,
    /// The running configuration.
    pub(super) active: Option<DefinitionXml>,
    pub(super) id: u32,
    pub(super) state: State,
    pub(super) stats: DomainStats,
    pub(super) agent: Option<Agent>,
    /// The number of file descriptors associated with the domain, by group.
    pub(super) associated_fds: BTreeMap<String, usize>,
    pub(super) blocks: BTreeMap<String, BlockInfo>,
    pub(super) disk_errors: BTreeMap<String, DiskFault>,
    /// The guest ignores requests to let go of a device.
    pub(super) keeps_devices: bool,
    /// The devices that the guest was asked to let go of and has kept.
    pub(super) kept_devices: Vec<Element>,
    /// The pinned processors: of QEMU's own threads under `None`.
    pub(super) pins: BTreeMap<Option<u32>, Vec<u32>>,
    pub(super) screenshot: Option<Screenshot>,
    pub(super) dirty_rate: DirtyRateState,
    pub(super) launch_security: LaunchSecurityState,
    /// The running memory dump; there is one job at a time.
    pub(super) dump: Option<RunningDump>,
    /// The running migration.
    pub(super) migration: Option<RunningMigration>,
    /// The daemon recovers the job of the daemon that died.
    pub(super) recovers: bool,
    /// The job of a migration to this daemon runs.
    pub(super) incoming: bool,
    pub(super) backup: Option<RunningBackup>,
    /// The job that ended last.
    pub(super) completed_job: CompletedJob,
    /// The checkpoints that the daemon knows of.
    pub(super) checkpoints: Vec<String>,
    /// The bitmaps of the images, by path.
    pub(super) bitmaps: BTreeMap<String, Vec<String>>,
    /// The ids of devices that QEMU has and the daemon does not know.
    pub(super) leftover_devices: BTreeSet<String>,
}

pub(super) type Events = Vec<Event>;

impl SimulatedDomain {
    pub(super) fn new(definition: DefinitionXml, uuid: String) -> Self {
        SimulatedDomain {
            name: definition.name.clone(),
            uuid,
            inactive: Some(definition),
            active: None,
            id: 0,
            state: State::new(DomainState::Shutoff, Reason::Unknown),
            stats: DomainStats::default(),
            agent: None,
            associated_fds: BTreeMap::new(),
            blocks: BTreeMap::new(),
            disk_errors: BTreeMap::new(),
            keeps_devices: false,
            kept_devices: Vec::new(),
            pins: BTreeMap::new(),
            screenshot: None,
            dirty_rate: DirtyRateState::default(),
            launch_security: LaunchSecurityState::default(),
            dump: None,
            migration: None,
            recovers: false,
            incoming: false,
            backup: None,
            completed_job: CompletedJob::default(),
            checkpoints: Vec::new(),
            bitmaps: BTreeMap::new(),
            leftover_devices: BTreeSet::new(),
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

    /// Neither configuration is left.
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

    /// Fails while a job runs: libvirt's calls that change a domain wait for the job for 30 s, then fail so.
    pub(super) fn must_be_idle(&self) -> Result<()> {
        let held_by = match (&self.dump, &self.migration) {
            (None, None) => return Ok(()),
            (Some(_), _) => "CoreDumpWithFormat",
            (None, Some(_)) => "MigratePerform3Params",
        };
        Err(Error {
            code: code::OPERATION_TIMEOUT,
            domain: origin::QEMU,
            message: format!(
                "Timed out during operation: cannot acquire state change lock (held by \
                 monitor=remoteDispatchDomain{held_by})"
            ),
        })
    }

    pub(super) fn start(&mut self, how: StartOptions, id: u32) -> Result<Events> {
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
        if self.migration.is_some() {
            return Ok(self.stopped_by_migration());
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

    /// libvirt sends two events for each reboot.
    pub(super) fn rebooted(&self) -> Events {
        let reboot = Event::Reboot {
            domain: self.name.clone(),
        };
        vec![reboot.clone(), reboot]
    }

    pub(super) fn shutdown(&mut self, by: ShutdownMode, obey: bool) -> Result<Events> {
        self.must_run()?;
        self.must_be_idle()?;
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

    /// Sets the state after QEMU has ended.
    pub(super) fn ended(&mut self, reason: Reason, detail: Detail) -> Events {
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
            return Err(invalid("cannot undefine transient domain"));
        }
        Ok(vec![
            self.lifecycle(LifecycleEvent::Undefined, Detail::Removed),
        ])
    }

    /// The agent, or libvirt's error when none is connected.
    pub(super) fn must_have_agent(&self) -> Result<Agent> {
        self.must_run()?;
        self.agent.clone().ok_or_else(|| Error {
            code: code::AGENT_UNRESPONSIVE,
            domain: origin::QEMU,
            message: "Guest agent is not responding: QEMU guest agent is not connected".into(),
        })
    }
}

impl FakeDaemon {
    /// The inactive XML of the domain.
    pub fn inactive_xml(&self, domain: &str) -> Option<String> {
        let xml =
            |domain: &mut SimulatedDomain| domain.inactive.as_ref().map(DefinitionXml::render);
        self.daemon.with_domain(domain, xml).flatten()
    }
}
