//! KubeVirt's names of reasons, and the snapshot of a missing domain.

use super::*;

#[test]
fn reasons_have_kubevirts_names() {
    let name = |state, reason| lifecycle_reason(State::new(state, reason));
    assert_eq!(name(DomainState::Running, Reason::Booted), "Unknown");
    assert_eq!(name(DomainState::Paused, Reason::StartingUp), "StartingUp");
    assert_eq!(name(DomainState::Paused, Reason::User), "User");
    assert_eq!(name(DomainState::Shutdown, Reason::User), "User");
    assert_eq!(name(DomainState::Crashed, Reason::Panicked), "Panicked");
    assert_eq!(name(DomainState::Shutoff, Reason::Daemon), "");
    assert_eq!(name(DomainState::Shutoff, Reason::Destroyed), "Destroyed");
    assert_eq!(name(DomainState::Shutoff, Reason::Crashed), "Crashed");
}

#[test]
fn missing_domain_has_only_name_and_uid() {
    let metadata = KubeVirtMetadata::default();
    let domain = DomainSnapshot::GONE.domain("default", "vm1", "1234", metadata);
    assert_eq!(domain.metadata.uid, "1234");
    assert_eq!(domain.spec.metadata.kubevirt.uid, "1234");
    assert_eq!(domain.status.reason, "NonExistent");
    assert_eq!(DomainSnapshot::GONE.presence(), Presence::Absent);
}
