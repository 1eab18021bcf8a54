//! A handle to a domain of the fake daemon.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::Call;
use super::connection::FakeConnection;
use super::definition;
use super::domain::{Domain, invalid};
use super::world::no_domain;
use crate::error::{Error, Result, code, origin};
use crate::event::Event;
use crate::hypervisor::{
    Affect, BlockInfo, BlockSize, Blocks, Definition, Destroy, Guest, Metadata, Power, RebootMode,
    ShutdownMode, Start, Undefine, XmlKind,
};
use crate::state::State;
use crate::stats::GuestStats;

pub(super) struct FakeGuest {
    connection: FakeConnection,
    name: String,
    uuid: String,
}

impl FakeGuest {
    pub(super) fn new(connection: FakeConnection, name: String, uuid: String) -> Self {
        FakeGuest {
            connection,
            name,
            uuid,
        }
    }

    fn look<T>(&self, call: Call, with: impl FnOnce(&mut Domain) -> Result<T>) -> Result<T> {
        self.connection.enter(call)?;
        let looked = self.connection.world.domain(&self.name, with);
        looked.ok_or_else(|| no_domain(&self.name))?
    }

    fn change(
        &self,
        call: Call,
        make: impl FnOnce(&mut Domain) -> Result<Vec<Event>>,
    ) -> Result<()> {
        self.connection.enter(call)?;
        self.connection.world.request(&self.name, make)
    }
}

impl Guest for FakeGuest {
    fn name(&self) -> &str {
        &self.name
    }

    fn uuid(&self) -> &str {
        &self.uuid
    }

    fn state(&self) -> Result<State> {
        self.look(Call::State, |domain| Ok(domain.state))
    }

    fn stats(&self) -> Result<Option<GuestStats>> {
        self.look(Call::Stats, |domain| {
            Ok(domain.is_active().then(|| GuestStats {
                name: domain.name.clone(),
                uuid: domain.uuid.clone(),
                ..domain.stats.clone()
            }))
        })
    }

    fn agent_command(&self, json: &str, _timeout: Duration) -> Result<String> {
        let agent = self.look(Call::Agent, |domain| domain.must_have_agent())?;
        agent(json)
    }

    fn set_time(&self, now: Duration) -> Result<()> {
        let command = format!(
            r#"{{"execute":"guest-set-time","arguments":{{"time":{}}}}}"#,
            now.as_nanos()
        );
        self.agent_command(&command, Duration::ZERO).map(drop)
    }
}

impl Blocks for FakeGuest {
    fn block_info(&self, disk: &str) -> Result<BlockInfo> {
        self.look(Call::BlockInfo, |domain| domain.block(disk).copied())
    }

    fn resize_block(&self, disk: &str, to: BlockSize) -> Result<()> {
        self.look(Call::ResizeBlock, |domain| {
            domain.must_run()?;
            domain.block(disk).map(|block| {
                block.capacity = match to {
                    BlockSize::Bytes(bytes) => bytes,
                    BlockSize::Device => block.physical,
                };
            })
        })
    }
}

impl Power for FakeGuest {
    fn associate_fds(&self, group: &str, files: &[BorrowedFd<'_>]) -> Result<()> {
        self.look(Call::AssociateFds, |domain| {
            domain.lent.insert(group.to_owned(), files.len());
            Ok(())
        })
    }

    fn start(&self, how: Start) -> Result<()> {
        let id = self.connection.world.next();
        self.change(Call::Start, |domain| domain.start(how, id))
    }

    fn suspend(&self) -> Result<()> {
        self.change(Call::Suspend, Domain::suspend)
    }

    fn resume(&self) -> Result<()> {
        self.change(Call::Resume, Domain::resume)
    }

    fn reset(&self) -> Result<()> {
        self.change(Call::Reset, Domain::reset)
    }

    fn reboot(&self, by: RebootMode) -> Result<()> {
        self.change(Call::Reboot, |domain| domain.reboot(by))
    }

    fn shutdown(&self, by: ShutdownMode) -> Result<()> {
        let obey = !self.connection.world.control(|control| control.disobedient);
        self.change(Call::Shutdown, |domain| domain.shutdown(by, obey))
    }

    fn destroy(&self, _how: Destroy) -> Result<()> {
        self.change(Call::Destroy, Domain::destroy)
    }
}

impl Definition for FakeGuest {
    fn xml(&self, kind: XmlKind) -> Result<String> {
        self.look(Call::Xml, |domain| {
            let text = match (kind, &domain.active, &domain.inactive) {
                (XmlKind::Active, Some(active), _) => active.render_active(domain.id),
                (XmlKind::Migratable, Some(definition), _)
                | (_, _, Some(definition))
                | (_, Some(definition), None) => definition.render(),
                (_, None, None) => return Err(no_domain(&domain.name)),
            };
            Ok(text)
        })
    }

    fn undefine(&self, _what: Undefine) -> Result<()> {
        self.change(Call::Undefine, Domain::undefine)
    }

    fn metadata(&self, uri: &str, of: Affect) -> Result<Option<String>> {
        self.look(Call::Metadata, |domain| {
            if of == Affect::LiveAndConfig {
                return Err(invalid_flags());
            }
            let definition = affected(domain, of)?.into_iter().next();
            Ok(definition.and_then(|definition| definition.metadata(uri)))
        })
    }

    fn set_metadata(&self, metadata: Metadata<'_>, of: Affect) -> Result<()> {
        self.change(Call::SetMetadata, |domain| {
            for definition in affected(domain, of)? {
                definition.set_metadata(metadata)?;
            }
            Ok(vec![Event::Metadata {
                domain: domain.name.clone(),
                uri: Some(metadata.uri.to_owned()),
            }])
        })
    }
}

/// The configurations that are meant, which must be there.
fn affected(domain: &mut Domain, of: Affect) -> Result<Vec<&mut definition::Definition>> {
    let active = domain.is_active();
    let (live, config) = match of {
        Affect::Current => (active, !active),
        Affect::Live => (true, false),
        Affect::Config => (false, true),
        Affect::LiveAndConfig => (true, true),
    };
    if live && !active {
        return Err(invalid("domain is not running"));
    }
    if config && domain.inactive.is_none() {
        return Err(invalid(
            "transient domains do not have any persistent config",
        ));
    }
    let live = domain.active.as_mut().filter(|_| live);
    let config = domain.inactive.as_mut().filter(|_| config);
    Ok(live.into_iter().chain(config).collect())
}

fn invalid_flags() -> Error {
    Error {
        code: code::INVALID_ARG,
        domain: origin::QEMU,
        message: "Flags 'VIR_DOMAIN_AFFECT_LIVE' and 'VIR_DOMAIN_AFFECT_CONFIG' are mutually \
                  exclusive"
            .into(),
    }
}
