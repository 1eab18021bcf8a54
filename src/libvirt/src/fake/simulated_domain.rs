//! One simulated domain: its configurations, state, properties and running jobs.

use std::collections::{BTreeMap, BTreeSet};

use domain_xml::Element;

use super::Agent;
use super::definition_xml::DefinitionXml;
use super::dirty_rate_state::DirtyRateState;
use super::errors::{operation_invalid, qemu_error};
use super::running_backup::RunningBackup;
use super::running_dump::RunningDump;
use super::running_migration::RunningMigration;
use crate::disk_sizes_and_errors::{BlockInfo, DiskFault};
use crate::domain_jobs::CompletedJob;
use crate::domain_state::{DomainState, State};
use crate::error::{Result, code};
use crate::event::{Detail, Event, LifecycleEvent};
use crate::launch_security::{LaunchSecret, LaunchSecurityInfo};
use crate::screenshot::Screenshot;
use crate::state_reason::Reason;
use crate::stats::DomainStats;

/// The launch security of a domain.
#[derive(Default)]
pub(super) struct LaunchSecurityState {
    /// The properties that a test has set; `None` for a domain without launch security.
    pub(super) info: Option<LaunchSecurityInfo>,
    /// The secret that the domain received.
    pub(super) secret: Option<LaunchSecret>,
}

/// A domain of the fake daemon.
pub(super) struct SimulatedDomain {
    pub(super) name: String,
    pub(super) uuid: String,
    /// The persistent configuration; `None` for a transient domain.
    pub(super) inactive: Option<DefinitionXml>,
    /// The running configuration; `None` while the domain does not run.
    pub(super) active: Option<DefinitionXml>,
    /// The number of the QEMU process.
    pub(super) id: u32,
    pub(super) state: State,
    pub(super) stats: DomainStats,
    pub(super) agent: Option<Agent>,
    /// The number of file descriptors associated with the domain, by group.
    pub(super) associated_fds: BTreeMap<String, usize>,
    pub(super) blocks: BTreeMap<String, BlockInfo>,
    pub(super) disk_errors: BTreeMap<String, DiskFault>,
    /// The guest ignores requests to release a device.
    pub(super) keeps_devices: bool,
    /// The devices that the guest was asked to release and has kept.
    pub(super) kept_devices: Vec<Element>,
    /// The host CPUs that virtual CPUs are pinned to; the key `None` stands for QEMU's own threads.
    pub(super) pins: BTreeMap<Option<u32>, Vec<u32>>,
    pub(super) screenshot: Option<Screenshot>,
    pub(super) dirty_rate: DirtyRateState,
    pub(super) launch_security: LaunchSecurityState,
    /// The running memory dump. A domain has one job at a time.
    pub(super) dump: Option<RunningDump>,
    /// The running migration.
    pub(super) migration: Option<RunningMigration>,
    /// The daemon is recovering a job after the previous daemon died.
    pub(super) recovers_job: bool,
    /// The domain arrives by a migration whose job has not ended.
    pub(super) is_incoming: bool,
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

/// The events of a change, in the order in which libvirt sends them.
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
            recovers_job: false,
            is_incoming: false,
            backup: None,
            completed_job: CompletedJob::default(),
            checkpoints: Vec::new(),
            bitmaps: BTreeMap::new(),
            leftover_devices: BTreeSet::new(),
        }
    }

    pub(super) fn block(&mut self, disk: &str) -> Result<&mut BlockInfo> {
        self.blocks.get_mut(disk).ok_or_else(|| {
            qemu_error(
                code::INVALID_ARG,
                format!("invalid argument: invalid path '{disk}' not assigned to domain"),
            )
        })
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.is_some()
    }

    /// Whether the domain has neither configuration, and no longer exists.
    pub(super) fn is_gone(&self) -> bool {
        self.active.is_none() && self.inactive.is_none()
    }

    /// A lifecycle event of this domain.
    pub(super) fn lifecycle(&self, event: LifecycleEvent, detail: Detail) -> Event {
        Event::Lifecycle {
            domain: self.name.clone(),
            event,
            detail,
        }
    }

    /// Fails if the domain does not run.
    pub(super) fn must_run(&self) -> Result<()> {
        if self.is_active() {
            return Ok(());
        }
        Err(operation_invalid("domain is not running"))
    }

    /// Fails while a job runs, with the error of libvirt's calls that wait 30 s for the job's end (here without the
    /// wait).
    pub(super) fn must_be_idle(&self) -> Result<()> {
        let held_by = match (&self.dump, &self.migration) {
            (None, None) => return Ok(()),
            (Some(_), _) => "CoreDumpWithFormat",
            (None, Some(_)) => "MigratePerform3Params",
        };
        Err(qemu_error(
            code::OPERATION_TIMEOUT,
            format!(
                "Timed out during operation: cannot acquire state change lock (held by \
                 monitor=remoteDispatchDomain{held_by})"
            ),
        ))
    }

    /// The guest agent. Fails with libvirt's error if none is connected.
    pub(super) fn must_have_agent(&self) -> Result<Agent> {
        self.must_run()?;
        self.agent.clone().ok_or_else(|| {
            qemu_error(
                code::AGENT_UNRESPONSIVE,
                "Guest agent is not responding: QEMU guest agent is not connected",
            )
        })
    }
}
