//! The calls on a connection to the fake daemon.

use std::sync::Arc;

use super::Call;
use super::connection_handle::FakeConnection;
use super::domain_handle::FakeDomain;
use super::errors::qemu_error;
use super::simulated_domain::DefinitionXml;
use crate::domain::{Domain, SevInfo};
use crate::error::{Result, code};
use crate::event::{EventHandler, Subscription};
use crate::hypervisor_connection::{HypervisorConnection, Version};

fn domain(connection: &FakeConnection, name: &str, uuid: String) -> Arc<dyn Domain> {
    Arc::new(FakeDomain::new(connection.clone(), name.to_owned(), uuid))
}

impl HypervisorConnection for FakeConnection {
    fn lookup(&self, name: &str) -> Result<Option<Arc<dyn Domain>>> {
        self.begin_call(Call::Lookup)?;
        let uuid = self.daemon.with_domain(name, |domain| domain.uuid.clone());
        Ok(uuid.map(|uuid| domain(self, name, uuid)))
    }

    fn define(&self, xml: &str) -> Result<Arc<dyn Domain>> {
        self.begin_call(Call::Define)?;
        let definition = DefinitionXml::parse(xml)?;
        let name = definition.name.clone();
        let uuid = self.daemon.define(definition)?;
        Ok(domain(self, &name, uuid))
    }

    fn subscribe(&self, handler: EventHandler) -> Result<Subscription> {
        self.begin_call(Call::Subscribe)?;
        let state = Arc::clone(&self.state);
        let handler = state.handlers.add(handler);
        Ok(Subscription::new(move || drop((handler, state))))
    }

    fn is_alive(&self) -> bool {
        self.is_open()
    }

    fn version(&self) -> Result<Version> {
        Ok(Version(11_003_000))
    }

    fn qemu_version(&self) -> Result<Version> {
        Ok(Version(10_000_002))
    }

    fn sev_info(&self) -> Result<SevInfo> {
        self.begin_call(Call::SevInfo)?;
        let info = self.daemon.controls(|controls| controls.sev_info.clone());
        info.ok_or_else(|| {
            qemu_error(
                code::OPERATION_UNSUPPORTED,
                "Operation not supported: QEMU does not support SEV guest",
            )
        })
    }
}
