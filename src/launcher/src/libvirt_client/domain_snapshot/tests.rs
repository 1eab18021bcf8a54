use super::*;

#[test]
fn states_have_kubevirts_names() {
    let words = |state, reason| why(State::new(state, reason));
    assert_eq!(words(DomainState::Running, Reason::Booted), "Unknown");
    assert_eq!(words(DomainState::Paused, Reason::StartingUp), "StartingUp");
    assert_eq!(words(DomainState::Paused, Reason::User), "User");
    assert_eq!(words(DomainState::Shutdown, Reason::User), "User");
    assert_eq!(words(DomainState::Crashed, Reason::Panicked), "Panicked");
    assert_eq!(words(DomainState::Shutoff, Reason::Daemon), "");
    assert_eq!(words(DomainState::Shutoff, Reason::Destroyed), "Destroyed");
    assert_eq!(words(DomainState::Shutoff, Reason::Crashed), "Crashed");
}

#[test]
fn gone_domain_has_only_name_and_uid() {
    let metadata = KubeVirtMetadata::default();
    let domain = DomainSnapshot::GONE.domain("default", "vm1", "1234", metadata);
    assert_eq!(domain.metadata.uid, "1234");
    assert_eq!(domain.spec.metadata.kubevirt.uid, "1234");
    assert_eq!(domain.status.reason, "NonExistent");
    assert_eq!(DomainSnapshot::GONE.presence(), Presence::Nothing);
}
