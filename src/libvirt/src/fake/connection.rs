//! A connection to the fake daemon.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Call;
use super::definition::Definition;
use super::guest::FakeGuest;
use super::world::{Line, World};
use crate::error::{Error, Result, code, origin};
use crate::event::{EventSink, Subscription};
use crate::hypervisor::{DomainKind, Guest, Hypervisor, Version};

#[derive(Clone)]
pub(super) struct FakeConnection {
    pub(super) world: Arc<World>,
    line: Arc<Line>,
}

impl FakeConnection {
    pub(super) fn open(world: &Arc<World>) -> Result<Self> {
        Ok(FakeConnection {
            world: Arc::clone(world),
            line: world.open()?,
        })
    }

    /// Every call begins here.
    pub(super) fn enter(&self, call: Call) -> Result<()> {
        self.world.enter(call)?;
        if self.is_alive() {
            return Ok(());
        }
        Err(Error {
            code: code::INTERNAL_ERROR,
            domain: origin::RPC,
            message: "internal error: client socket is closed".into(),
        })
    }

    fn guest(&self, name: &str, uuid: String) -> Arc<dyn Guest> {
        Arc::new(FakeGuest::new(self.clone(), name.to_owned(), uuid))
    }
}

impl Hypervisor for FakeConnection {
    fn lookup(&self, name: &str) -> Result<Option<Arc<dyn Guest>>> {
        self.enter(Call::Lookup)?;
        let uuid = self.world.domain(name, |domain| domain.uuid.clone());
        Ok(uuid.map(|uuid| self.guest(name, uuid)))
    }

    fn define(&self, xml: &str) -> Result<Arc<dyn Guest>> {
        self.enter(Call::Define)?;
        let definition = Definition::parse(xml)?;
        let name = definition.name.clone();
        let uuid = self.world.define(definition)?;
        Ok(self.guest(&name, uuid))
    }

    fn subscribe(&self, sink: EventSink) -> Result<Subscription> {
        self.enter(Call::Subscribe)?;
        let line = Arc::clone(&self.line);
        let sink = line.sinks.add(sink);
        Ok(Subscription::new(move || drop((sink, line))))
    }

    fn is_alive(&self) -> bool {
        !self.line.dead.load(Ordering::SeqCst)
    }

    fn version(&self) -> Result<Version> {
        Ok(Version(11_003_000))
    }

    fn qemu_version(&self) -> Result<Version> {
        Ok(Version(10_000_002))
    }

    fn capabilities_xml(&self) -> Result<String> {
        Ok("<capabilities>\n  <host/>\n</capabilities>\n".into())
    }

    fn domain_capabilities_xml(&self, _of: DomainKind<'_>) -> Result<String> {
        Ok("<domainCapabilities/>\n".into())
    }
}
