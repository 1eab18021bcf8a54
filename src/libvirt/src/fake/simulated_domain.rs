//! One simulated domain: its configurations, state, properties and running jobs.

use std::collections::{BTreeMap, BTreeSet};

use domain_xml::{Document, Element};

use super::Agent;
use super::dirty_rate_state::DirtyRateState;
use super::errors::{operation_invalid, qemu_error, xml_error};
use super::running_jobs::{RunningBackup, RunningDump, RunningMigration};
use crate::domain::{
    BlockInfo, DiskFault, LaunchSecret, LaunchSecurityInfo, RebootMode, Screenshot, ShutdownMode,
    StartOptions,
};
use crate::domain_jobs::{CompletedJob, JobType};
use crate::domain_state::{DomainState, Reason, State};
use crate::error::{Result, code};
use crate::event::{Detail, Event, LifecycleEvent};
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

/// The UUID that libvirt takes if the domain has no `<uuid>`.
const SMBIOS_UUID: &str = "sysinfo/system/entry[@name='uuid']";
/// The target of the guest agent's channel.
const AGENT_CHANNEL_TARGET: &str = "devices/channel/target[@name='org.qemu.guest_agent.0']";

/// One configuration of a domain.
#[derive(Clone)]
pub(super) struct DefinitionXml {
    document: Document,
    pub(super) name: String,
    pub(super) uuid: Option<String>,
}

impl DefinitionXml {
    pub(super) fn parse(xml: &str) -> Result<Self> {
        let document = Document::parse(xml).map_err(|error| xml_error(&error.to_string()))?;
        let root = document.root();
        if !root.is("domain") {
            return Err(xml_error("unexpected root element, expecting <domain>"));
        }
        let text = |name| root.child(name).map(|child| child.text().trim().to_owned());
        let name = text("name").filter(|name| !name.is_empty());
        Ok(DefinitionXml {
            name: name.ok_or_else(|| xml_error("missing domain name"))?,
            uuid: text("uuid")
                .or_else(|| document.value(SMBIOS_UUID).ok().flatten())
                .map(|uuid| uuid.to_lowercase()),
            document,
        })
    }

    /// Sets the domain's UUID. A new element is inserted after the name, where libvirt writes it.
    pub(super) fn set_uuid(&mut self, uuid: &str) {
        let root = self.document.root_mut();
        if root.child("uuid").is_none() {
            root.insert_after("name", Element::new("uuid"));
        }
        root.ensure_child("uuid").set_text(uuid);
        self.uuid = Some(uuid.to_owned());
    }

    pub(super) fn devices(&self) -> impl Iterator<Item = &Element> {
        let devices = self.document.root().child("devices");
        devices.into_iter().flat_map(Element::children)
    }

    pub(super) fn devices_mut(&mut self) -> &mut Element {
        self.document.root_mut().ensure_child("devices")
    }

    /// Sets the current number of virtual CPUs. The error is the domain's maximum, if that is lower.
    pub(super) fn set_vcpus(&mut self, count: u32) -> std::result::Result<(), u32> {
        let vcpu = self.document.root_mut().ensure_child("vcpu");
        let maximum = vcpu.text().trim().parse().unwrap_or(1);
        if count > maximum {
            return Err(maximum);
        }
        vcpu.set_attr("current", count.to_string());
        Ok(())
    }

    /// The ids of the IO threads: those that are listed, or else all from 1 up to their number.
    pub(super) fn io_threads(&self) -> BTreeSet<u32> {
        let root = self.document.root();
        if let Some(listed) = root.child("iothreadids") {
            let ids = listed.children_named("iothread");
            return ids
                .filter_map(|thread| thread.attr("id")?.parse().ok())
                .collect();
        }
        let count = root.child("iothreads").map(Element::text);
        let count = count.and_then(|count| count.trim().parse().ok());
        (1..=count.unwrap_or(0)).collect()
    }

    /// Adds an IO thread. Returns whether there was none with this id.
    pub(super) fn add_io_thread(&mut self, id: u32) -> bool {
        let mut ids = self.io_threads();
        let is_new = ids.insert(id);
        let root = self.document.root_mut();
        root.remove_child("iothreadids");
        root.ensure_child("iothreads")
            .set_text(ids.len().to_string());
        let listed = root.ensure_child("iothreadids");
        for id in ids {
            listed.append(Element::new("iothread").with_attr("id", id.to_string()));
        }
        is_new
    }

    pub(super) fn render(&self) -> String {
        self.document.render()
    }

    /// The XML of the running domain: with its id, and the state of the guest agent's channel.
    pub(super) fn render_active(&self, id: u32, agent_connected: bool) -> String {
        let mut document = self.document.clone();
        document.root_mut().set_attr("id", id.to_string());
        // A domain without a channel for the agent gets none.
        if let Ok(Some(target)) = document.find_mut(AGENT_CHANNEL_TARGET) {
            let state = match agent_connected {
                true => "connected",
                false => "disconnected",
            };
            target.set_attr("state", state);
        }
        document.render()
    }
}
