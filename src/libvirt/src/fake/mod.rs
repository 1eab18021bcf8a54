//! A libvirt daemon in memory: stateful, in the words and the order of libvirt's QEMU driver.
//!
//! ```
//! use libvirt::{Start, fake::{Call, Fake}};
//!
//! let daemon = Fake::new();
//! let hypervisor = daemon.connect()?;
//! let guest = hypervisor.define("<domain type='kvm'><name>default_vm</name></domain>")?;
//! guest.start(Start::RUNNING)?;
//! daemon.kill_qemu("default_vm");
//! assert!(guest.state()?.is_down());
//!
//! daemon.fail_next(Call::Start, Fake::error(1, 10, "internal error: no"));
//! assert_eq!(guest.start(Start::RUNNING).unwrap_err().code, 1);
//! # Ok::<(), libvirt::Error>(())
//! ```
//! Events are delivered on the thread of the call that causes them, before it returns. The same
//! story is told to this, to libvirt's test driver and to real QEMU (`tests/`), so that the three
//! cannot drift apart.

mod connection;
mod definition;
mod domain;
mod guest;
mod world;

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::event::{CloseReason, Detail, Event, LifecycleEvent};
use crate::hypervisor::{BlockInfo, Hypervisor};
use crate::state::{DomainState, Reason, State};
use crate::stats::GuestStats;
use connection::FakeConnection;
use world::World;

/// Answers the guest agent's commands: JSON in, JSON out.
pub type Agent = Arc<dyn Fn(&str) -> Result<String> + Send + Sync>;

/// What can be made to fail or to take its time, and is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the method of its name")]
pub enum Call {
    Connect,
    Subscribe,
    Lookup,
    Define,
    State,
    Stats,
    Xml,
    Metadata,
    SetMetadata,
    Start,
    Suspend,
    Resume,
    Reset,
    Reboot,
    Shutdown,
    Destroy,
    Undefine,
    Agent,
    AssociateFds,
    BlockInfo,
    ResizeBlock,
}

/// The daemon, its QEMUs and their guests, seen from behind. Clones are the same daemon.
#[derive(Clone, Default)]
pub struct Fake {
    world: Arc<World>,
}

impl Fake {
    /// A daemon without domains.
    pub fn new() -> Self {
        Fake::default()
    }

    /// A connection to it.
    pub fn connect(&self) -> Result<Arc<dyn Hypervisor>> {
        Ok(Arc::new(FakeConnection::open(&self.world)?))
    }

    /// An error as libvirt would give it.
    pub fn error(code: i32, domain: i32, message: &str) -> Error {
        Error {
            code,
            domain,
            message: message.to_owned(),
        }
    }

    /// The next such call fails; several wait in line.
    pub fn fail_next(&self, call: Call, error: Error) {
        self.world
            .control(|control| control.failures.push_back((call, error)));
    }

    /// Every such call takes this much longer; zero ends it.
    pub fn slow(&self, call: Call, by: Duration) {
        self.world.control(|control| {
            control.delays.insert(call, by);
        });
    }

    /// How often it was called, failures included.
    pub fn count(&self, call: Call) -> usize {
        self.world
            .control(|control| control.calls.iter().filter(|&&made| made == call).count())
    }

    /// Every call so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.world.control(|control| control.calls.clone())
    }

    /// Whether the guest powers off when asked to; it does until told otherwise.
    pub fn obey_shutdown(&self, obey: bool) {
        self.world.control(|control| control.disobedient = !obey);
    }

    /// The domain's state, whatever becomes of connections.
    pub fn state(&self, domain: &str) -> Option<State> {
        self.world.domain(domain, |domain| domain.state)
    }

    /// What `Guest::stats` will tell while the domain runs (its name and UUID are filled in).
    pub fn set_stats(&self, domain: &str, stats: GuestStats) {
        self.world.domain(domain, |domain| domain.stats = stats);
    }

    /// How many open files of a group the domain was lent.
    pub fn lent(&self, domain: &str, group: &str) -> usize {
        let lent = |domain: &mut domain::Domain| domain.lent.get(group).copied();
        self.world
            .domain(domain, lent)
            .flatten()
            .unwrap_or_default()
    }

    /// The domain has a disk of this size.
    pub fn set_block(&self, domain: &str, disk: &str, info: BlockInfo) {
        self.world.domain(domain, |domain| {
            domain.blocks.insert(disk.to_owned(), info);
        });
    }

    /// How large a disk of the domain is.
    pub fn block(&self, domain: &str, disk: &str) -> Option<BlockInfo> {
        let block = |domain: &mut domain::Domain| domain.blocks.get(disk).copied();
        self.world.domain(domain, block).flatten()
    }

    /// The guest powers itself off.
    pub fn power_off(&self, domain: &str) {
        self.world.change(domain, |domain| domain.power_off());
    }

    /// QEMU dies.
    pub fn kill_qemu(&self, domain: &str) {
        self.world.change(domain, |domain| {
            domain.ended(Reason::Crashed, Detail::Failed)
        });
    }

    /// The guest's kernel panics, with a panic device and `on_crash` destroy.
    pub fn panic(&self, domain: &str) {
        self.world.change(domain, |domain| {
            let panicked = domain.lifecycle(LifecycleEvent::Crashed, Detail::Panicked);
            let mut events = vec![panicked];
            events.extend(domain.ended(Reason::Crashed, Detail::Crashed));
            events
        });
    }

    /// A disk error stops the guest.
    pub fn io_error(&self, domain: &str, alias: &str) {
        self.world.change(domain, |domain| {
            domain.state = State::new(DomainState::Paused, Reason::IOError);
            let error = Event::IoError {
                domain: domain.name.clone(),
                alias: alias.to_owned(),
                path: String::new(),
                reason: "enospc".to_owned(),
            };
            vec![
                error,
                domain.lifecycle(LifecycleEvent::Suspended, Detail::IoError),
            ]
        });
    }

    /// The guest reboots by itself.
    pub fn reboot(&self, domain: &str) {
        self.world.change(domain, |domain| domain.rebooted());
    }

    /// The guest's agent connects, or goes away.
    pub fn agent(&self, domain: &str, agent: Option<Agent>) {
        self.world.change(domain, |domain| {
            let connected = agent.is_some();
            domain.agent = agent;
            vec![Event::AgentLifecycle {
                domain: domain.name.clone(),
                connected,
            }]
        });
    }

    /// Any event.
    pub fn emit(&self, event: &Event) {
        self.world.tell(event);
    }

    /// The daemon goes away: connections end, new ones are refused. Domains live on.
    pub fn stop_daemon(&self, reason: CloseReason) {
        self.world.stop(reason);
    }

    /// The daemon is back. Old connections stay dead.
    pub fn start_daemon(&self) {
        self.world.control(|control| control.down = false);
    }
}
