//! A look at the domain: what it is and how it is doing, in KubeVirt's words.

use domain::metadata::KubeVirtMetadata;
use domain::spec::DomainSpec;
use domain::state::{LifeCycle, reason};
use domain::wire::Domain;
use libvirt::{DomainState, Guest, Hypervisor, Reason, State, XmlKind};

use super::Identity;
use super::state::Sight;

/// What was seen.
#[derive(Debug, Clone)]
pub struct Look {
    /// Its state.
    pub status: LifeCycle,
    /// Why.
    pub reason: &'static str,
    /// Its description; `None` when libvirt has none to give.
    pub spec: Option<DomainSpec>,
}

/// The domain could not be looked at.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LookError {
    /// libvirt refused.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
    /// What libvirt describes is not understood.
    #[error("reading libvirt's description of domain {domain}: {message}")]
    Spec {
        /// The domain.
        domain: String,
        /// What is wrong with the description.
        message: String,
    },
}

/// Looks at a domain; blocking.
pub fn look(hypervisor: &dyn Hypervisor, domain: &str) -> Result<Look, LookError> {
    let Some(guest) = hypervisor.lookup(domain)? else {
        return Ok(Look::GONE);
    };
    let state = match guest.state() {
        Ok(state) => state,
        Err(error) if error.is_no_domain() => return Ok(Look::GONE),
        Err(error) => return Err(error.into()),
    };
    Ok(Look {
        status: life_cycle(state.state),
        reason: why(state),
        spec: spec(&*guest)?,
    })
}

fn spec(guest: &dyn Guest) -> Result<Option<DomainSpec>, LookError> {
    match guest.xml(XmlKind::Active) {
        Ok(xml) => domain::parse::parse(&xml)
            .map(Some)
            .map_err(|error| LookError::Spec {
                domain: guest.name().to_owned(),
                message: error.to_string(),
            }),
        Err(error) if error.is_no_domain() || error.is_operation_invalid() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Look {
    const GONE: Look = Look {
        status: LifeCycle::NoState,
        reason: reason::NON_EXISTENT,
        spec: None,
    };

    /// Whether there is no such domain.
    pub fn is_gone(&self) -> bool {
        self.status == LifeCycle::NoState && self.reason == reason::NON_EXISTENT
    }

    /// What it means for the state of the VM.
    pub fn sight(&self) -> Sight {
        match self.status {
            LifeCycle::NoState if self.is_gone() => Sight::Nothing,
            LifeCycle::NoState | LifeCycle::Shutoff | LifeCycle::Crashed => Sight::Off,
            _ => Sight::On,
        }
    }

    /// The domain as it was when its start had made its QEMU process; `None` when that has ended.
    pub fn starting_up(self) -> Option<Look> {
        (self.sight() == Sight::On).then_some(Look {
            status: LifeCycle::Paused,
            reason: reason::STARTING_UP,
            spec: self.spec,
        })
    }

    /// The domain as virt-handler is told of it. One that is gone is a name and a UID.
    pub fn domain(self, identity: &Identity, metadata: KubeVirtMetadata) -> Domain {
        let Identity {
            namespace,
            name,
            uid,
            ..
        } = identity;
        match self.spec {
            Some(spec) => Domain::new(namespace, name, spec, metadata, self.status, self.reason),
            None => {
                let mut domain =
                    Domain::reference(namespace, name).with_status(self.status, self.reason);
                domain.metadata.uid.clone_from(uid);
                domain
            }
        }
    }
}

fn life_cycle(state: DomainState) -> LifeCycle {
    match state {
        DomainState::NoState => LifeCycle::NoState,
        DomainState::Running => LifeCycle::Running,
        DomainState::Blocked => LifeCycle::Blocked,
        DomainState::Paused => LifeCycle::Paused,
        DomainState::Shutdown => LifeCycle::Shutdown,
        DomainState::Shutoff => LifeCycle::Shutoff,
        DomainState::Crashed => LifeCycle::Crashed,
        DomainState::PmSuspended => LifeCycle::PmSuspended,
    }
}

/// KubeVirt has reasons for these four states only.
fn why(state: State) -> &'static str {
    match state.state {
        DomainState::Paused
        | DomainState::Shutoff
        | DomainState::Shutdown
        | DomainState::Crashed => word(state.reason),
        _ => reason::UNKNOWN,
    }
}

fn word(why: Reason) -> &'static str {
    match why {
        Reason::User => reason::USER,
        Reason::Migration => reason::MIGRATION,
        Reason::Save => "Save",
        Reason::Dump => reason::DUMP,
        Reason::IOError => reason::IO_ERROR,
        Reason::Watchdog => "Watchdog",
        Reason::FromSnapshot => "FromSnapshot",
        Reason::ShuttingDown => "ShuttingDown",
        Reason::Snapshot => "Snapshot",
        Reason::Crashed => reason::CRASHED,
        Reason::StartingUp => reason::STARTING_UP,
        Reason::Postcopy => "Postcopy",
        Reason::PostcopyFailed => "PostcopyFailed",
        Reason::Shutdown => reason::SHUTDOWN,
        Reason::Destroyed => reason::DESTROYED,
        Reason::Migrated => reason::MIGRATED,
        Reason::Saved => "Saved",
        Reason::Failed => "Failed",
        Reason::Panicked => "Panicked",
        // KubeVirt has no word for what came to libvirt later.
        Reason::ApiError | Reason::Daemon => "",
        _ => reason::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_in_kubevirts_words() {
        let words = |state, reason| why(State::new(state, reason));
        assert_eq!(words(DomainState::Running, Reason::Booted), "Unknown");
        assert_eq!(words(DomainState::Paused, Reason::StartingUp), "StartingUp");
        assert_eq!(words(DomainState::Shutoff, Reason::Destroyed), "Destroyed");
        assert_eq!(words(DomainState::Shutoff, Reason::Crashed), "Crashed");
    }

    #[test]
    fn a_start_is_told_of_only_while_qemu_is_there() {
        let on = Look {
            status: LifeCycle::Running,
            reason: reason::UNKNOWN,
            spec: None,
        };
        let told = on
            .clone()
            .starting_up()
            .map(|told| (told.status, told.reason));
        assert_eq!(told, Some((LifeCycle::Paused, "StartingUp")));
        let off = Look {
            status: LifeCycle::Shutoff,
            ..on
        };
        assert!(off.starting_up().is_none());
        assert!(Look::GONE.starting_up().is_none());
    }

    #[test]
    fn what_is_gone_is_a_name_and_a_uid() {
        let identity = Identity::new("default", "vm1", "1234");
        let domain = Look::GONE.domain(&identity, KubeVirtMetadata::default());
        assert_eq!(domain.metadata.uid, "1234");
        assert_eq!(domain.status.reason, "NonExistent");
        assert_eq!(Look::GONE.sight(), Sight::Nothing);
    }
}
