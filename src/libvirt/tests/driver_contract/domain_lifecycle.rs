//! What every driver does alike: define, start, pause, resume, shutdown, destroy, undefine.

use libvirt::{
    DestroyMode, DomainState, HypervisorConnection, Reason, ShutdownMode, StartOptions, State,
    UndefineOptions, XmlKind, code,
};

use super::{Recorder, SharedDomain, wait_until};

pub(crate) const NAME: &str = "default_vm";

/// How drivers differ; everything else must be the same.
pub(crate) struct Driver {
    /// The domain to define.
    pub(crate) xml: String,
    /// Starting paused is possible.
    pub(crate) start_paused: bool,
    /// A shutdown request alone powers the guest off.
    pub(crate) obeys_shutdown: bool,
    /// Error codes of calls that the domain's state does not allow.
    pub(crate) refusals: &'static [i32],
    /// Lifecycle events of each step.
    pub(crate) events: Events,
}

pub(crate) struct Events {
    pub(crate) start: &'static [&'static str],
    pub(crate) start_paused: &'static [&'static str],
    pub(crate) destroy: &'static [&'static str],
    pub(crate) shutdown: &'static [&'static str],
}

/// The events of libvirt's QEMU driver.
pub(crate) const QEMU: Events = Events {
    start: &["Resumed Unpaused", "Started Booted"],
    start_paused: &["Started Booted", "Suspended Paused"],
    destroy: &["Shutdown Host", "Stopped Destroyed"],
    shutdown: &["Shutdown Guest", "Stopped Shutdown"],
};

/// The events of libvirt's in-process test driver.
pub(crate) const TEST: Events = Events {
    start: &["Started Booted"],
    start_paused: &[],
    destroy: &["Stopped Destroyed"],
    shutdown: &[],
};

const RUNNING: DomainState = DomainState::Running;
const PAUSED_BY_USER: State = State::new(DomainState::Paused, Reason::User);
const NEVER_STARTED: State = State::new(DomainState::Shutoff, Reason::Unknown);

pub(crate) fn check(hypervisor: &dyn HypervisorConnection, driver: &Driver) {
    let recorder = Recorder::on(hypervisor, NAME);
    let domain = check_define(hypervisor, driver, &recorder);
    check_identity(hypervisor, &domain);
    check_refusals_before_start(&domain, driver);
    check_start(&domain, driver, &recorder);
    check_pause_and_resume(&domain, driver, &recorder);
    check_stats(&domain);
    check_missing_agent(&domain, driver);
    if driver.obeys_shutdown {
        check_shutdown(&domain, driver, &recorder);
        check_start(&domain, driver, &recorder);
    }
    check_destroy(&domain, driver, &recorder);
    if driver.start_paused {
        check_start_paused(&domain, driver, &recorder);
        check_destroy(&domain, driver, &recorder);
    }
    check_undefine(hypervisor, &domain, &recorder);
}

fn expect(recorder: &Recorder, expected: &[&str]) {
    assert_eq!(recorder.lifecycle(expected.len()), expected);
}

fn check_define(
    hypervisor: &dyn HypervisorConnection,
    driver: &Driver,
    recorder: &Recorder,
) -> SharedDomain {
    assert!(hypervisor.lookup(NAME).unwrap().is_none());
    let domain = hypervisor.define(&driver.xml).unwrap();
    expect(recorder, &["Defined Added"]);
    let repeated = hypervisor
        .define(&domain.xml(XmlKind::Inactive).unwrap())
        .unwrap();
    expect(recorder, &["Defined Updated"]);
    assert_eq!(domain.uuid(), repeated.uuid());
    domain
}

fn check_identity(hypervisor: &dyn HypervisorConnection, domain: &SharedDomain) {
    assert_eq!(domain.name(), NAME);
    assert_eq!(domain.uuid().len(), 36);
    let found = hypervisor.lookup(NAME).unwrap().unwrap();
    assert_eq!(found.uuid(), domain.uuid());
    let xml = domain.xml(XmlKind::Inactive).unwrap();
    assert!(xml.contains(&format!("<name>{NAME}</name>")), "{xml}");
    assert!(xml.contains(domain.uuid()), "{xml}");
    assert!(hypervisor.is_alive());
}

fn check_refusals_before_start(domain: &SharedDomain, driver: &Driver) {
    assert_eq!(domain.state().unwrap(), NEVER_STARTED);
    assert_eq!(domain.stats().unwrap(), None);
    for refused in [
        domain.suspend(),
        domain.resume(),
        domain.destroy(DestroyMode::Forceful),
        domain.shutdown(ShutdownMode::Acpi),
    ] {
        let error = refused.unwrap_err();
        assert!(driver.refusals.contains(&error.code), "{error}");
    }
}

fn check_start(domain: &SharedDomain, driver: &Driver, recorder: &Recorder) {
    domain.start(StartOptions::RUNNING).unwrap();
    assert_eq!(domain.state().unwrap().state, RUNNING);
    expect(recorder, driver.events.start);
    let error = domain.start(StartOptions::RUNNING).unwrap_err();
    assert!(driver.refusals.contains(&error.code), "{error}");
}

fn check_start_paused(domain: &SharedDomain, driver: &Driver, recorder: &Recorder) {
    domain.start(StartOptions::PAUSED).unwrap();
    assert_eq!(domain.state().unwrap(), PAUSED_BY_USER);
    expect(recorder, driver.events.start_paused);
}

fn check_pause_and_resume(domain: &SharedDomain, driver: &Driver, recorder: &Recorder) {
    domain.suspend().unwrap();
    assert_eq!(domain.state().unwrap(), PAUSED_BY_USER);
    expect(recorder, &["Suspended Paused"]);
    check_repeated_suspend(domain.suspend(), driver);
    domain.resume().unwrap();
    assert_eq!(
        domain.state().unwrap(),
        State::new(RUNNING, Reason::Unpaused)
    );
    expect(recorder, &["Resumed Unpaused"]);
    let error = domain.resume().unwrap_err();
    assert!(driver.refusals.contains(&error.code), "{error}");
    expect(recorder, &[]);
}

/// Suspending a paused domain succeeds with the QEMU driver and fails with the test driver.
fn check_repeated_suspend(repeated: libvirt::Result<()>, driver: &Driver) {
    if let Err(error) = repeated {
        assert!(!driver.start_paused, "{error}");
        assert!(driver.refusals.contains(&error.code), "{error}");
    }
}

fn check_stats(domain: &SharedDomain) {
    let stats = domain.stats().unwrap().unwrap();
    assert_eq!(
        (stats.name.as_str(), stats.uuid.as_str()),
        (NAME, domain.uuid())
    );
}

fn check_missing_agent(domain: &SharedDomain, driver: &Driver) {
    if !driver.start_paused {
        return;
    }
    let second = std::time::Duration::from_secs(1);
    let error = domain
        .agent_command(r#"{"execute":"guest-ping"}"#, second)
        .unwrap_err();
    assert_eq!(error.code, code::AGENT_UNRESPONSIVE);
    assert_eq!(
        error.to_string(),
        "virError(Code=86, Domain=10, Message='Guest agent is not responding: QEMU guest agent is not connected')"
    );
}

fn check_shutdown(domain: &SharedDomain, driver: &Driver, recorder: &Recorder) {
    domain.shutdown(ShutdownMode::Acpi).unwrap();
    wait_until("the guest is off", || domain.state().unwrap().is_down());
    assert_eq!(
        domain.state().unwrap(),
        State::new(DomainState::Shutoff, Reason::Shutdown)
    );
    expect(recorder, driver.events.shutdown);
}

fn check_destroy(domain: &SharedDomain, driver: &Driver, recorder: &Recorder) {
    domain.destroy(DestroyMode::Forceful).unwrap();
    assert_eq!(
        domain.state().unwrap(),
        State::new(DomainState::Shutoff, Reason::Destroyed)
    );
    expect(recorder, driver.events.destroy);
}

fn check_undefine(
    hypervisor: &dyn HypervisorConnection,
    domain: &SharedDomain,
    recorder: &Recorder,
) {
    domain.undefine(UndefineOptions::KEEP).unwrap();
    expect(recorder, &["Undefined Removed"]);
    assert!(hypervisor.lookup(NAME).unwrap().is_none());
    assert!(domain.state().unwrap_err().is_no_domain());
}
