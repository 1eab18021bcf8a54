//! The contract of a domain's lifecycle: define, start, pause, resume, shutdown, destroy, undefine.

use libvirt::{
    DestroyMode, DomainState, HypervisorConnection, Reason, ShutdownMode, StartOptions, State,
    UndefineOptions, XmlKind, code,
};

use super::{EventRecorder, SharedDomain, wait_until};

pub(crate) const NAME: &str = "default_vm";

/// The properties in which drivers differ; everything else must be the same.
pub(crate) struct Driver {
    /// The domain to define.
    pub(crate) xml: String,
    /// The driver can start a domain paused.
    pub(crate) starts_paused: bool,
    /// The guest powers off on a shutdown request.
    pub(crate) obeys_shutdown: bool,
    /// Error codes of calls that the domain's state does not allow.
    pub(crate) state_error_codes: &'static [i32],
    /// Lifecycle events of each step.
    pub(crate) events: Events,
}

/// Lifecycle events of each step, as `EVENT DETAIL`.
pub(crate) struct Events {
    pub(crate) start: &'static [&'static str],
    pub(crate) start_paused: &'static [&'static str],
    pub(crate) destroy: &'static [&'static str],
    pub(crate) shutdown: &'static [&'static str],
}

/// The events of libvirt's QEMU driver.
pub(crate) const QEMU_EVENTS: Events = Events {
    start: &["Resumed Unpaused", "Started Booted"],
    start_paused: &["Started Booted", "Suspended Paused"],
    destroy: &["Shutdown Host", "Stopped Destroyed"],
    shutdown: &["Shutdown Guest", "Stopped Shutdown"],
};

/// The events of libvirt's in-process test driver.
pub(crate) const TEST_DRIVER_EVENTS: Events = Events {
    start: &["Started Booted"],
    start_paused: &[],
    destroy: &["Stopped Destroyed"],
    shutdown: &[],
};

const RUNNING: DomainState = DomainState::Running;
const PAUSED_BY_USER: State = State::new(DomainState::Paused, Reason::User);
const NEVER_STARTED: State = State::new(DomainState::Shutoff, Reason::Unknown);

/// Checks the contract.
pub(crate) fn check(hypervisor: &dyn HypervisorConnection, driver: &Driver) {
    let recorder = EventRecorder::subscribe(hypervisor, NAME);
    let domain = check_define(hypervisor, driver, &recorder);
    check_identity(hypervisor, &domain);
    check_errors_before_start(&domain, driver);
    check_start(&domain, driver, &recorder);
    check_pause_and_resume(&domain, driver, &recorder);
    check_stats(&domain);
    check_missing_agent(&domain, driver);
    if driver.obeys_shutdown {
        check_shutdown(&domain, driver, &recorder);
        check_start(&domain, driver, &recorder);
    }
    check_destroy(&domain, driver, &recorder);
    if driver.starts_paused {
        check_start_paused(&domain, driver, &recorder);
        check_destroy(&domain, driver, &recorder);
    }
    check_undefine(hypervisor, &domain, &recorder);
}

fn expect_lifecycle(recorder: &EventRecorder, expected: &[&str]) {
    assert_eq!(recorder.lifecycle(expected.len()), expected);
}

fn check_define(
    hypervisor: &dyn HypervisorConnection,
    driver: &Driver,
    recorder: &EventRecorder,
) -> SharedDomain {
    assert!(hypervisor.lookup(NAME).unwrap().is_none());
    let domain = hypervisor.define(&driver.xml).unwrap();
    expect_lifecycle(recorder, &["Defined Added"]);
    let repeated = hypervisor
        .define(&domain.xml(XmlKind::Inactive).unwrap())
        .unwrap();
    expect_lifecycle(recorder, &["Defined Updated"]);
    assert_eq!(domain.uuid(), repeated.uuid());
    domain
}

fn check_identity(hypervisor: &dyn HypervisorConnection, domain: &SharedDomain) {
    assert_eq!(domain.name(), NAME);
    assert_eq!(domain.uuid().len(), 36);
    let same_domain = hypervisor.lookup(NAME).unwrap().unwrap();
    assert_eq!(same_domain.uuid(), domain.uuid());
    let xml = domain.xml(XmlKind::Inactive).unwrap();
    assert!(xml.contains(&format!("<name>{NAME}</name>")), "{xml}");
    assert!(xml.contains(domain.uuid()), "{xml}");
    assert!(hypervisor.is_alive());
}

fn check_errors_before_start(domain: &SharedDomain, driver: &Driver) {
    assert_eq!(domain.state().unwrap(), NEVER_STARTED);
    assert_eq!(domain.stats().unwrap(), None);
    for result in [
        domain.suspend(),
        domain.resume(),
        domain.destroy(DestroyMode::Forceful),
        domain.shutdown(ShutdownMode::Acpi),
    ] {
        let error = result.unwrap_err();
        assert!(driver.state_error_codes.contains(&error.code), "{error}");
    }
}

fn check_start(domain: &SharedDomain, driver: &Driver, recorder: &EventRecorder) {
    domain.start(StartOptions::RUNNING).unwrap();
    assert_eq!(domain.state().unwrap().state, RUNNING);
    expect_lifecycle(recorder, driver.events.start);
    let error = domain.start(StartOptions::RUNNING).unwrap_err();
    assert!(driver.state_error_codes.contains(&error.code), "{error}");
}

fn check_start_paused(domain: &SharedDomain, driver: &Driver, recorder: &EventRecorder) {
    domain.start(StartOptions::PAUSED).unwrap();
    assert_eq!(domain.state().unwrap(), PAUSED_BY_USER);
    expect_lifecycle(recorder, driver.events.start_paused);
}

fn check_pause_and_resume(domain: &SharedDomain, driver: &Driver, recorder: &EventRecorder) {
    domain.suspend().unwrap();
    assert_eq!(domain.state().unwrap(), PAUSED_BY_USER);
    expect_lifecycle(recorder, &["Suspended Paused"]);
    check_repeated_suspend(domain.suspend(), driver);
    domain.resume().unwrap();
    assert_eq!(
        domain.state().unwrap(),
        State::new(RUNNING, Reason::Unpaused)
    );
    expect_lifecycle(recorder, &["Resumed Unpaused"]);
    let error = domain.resume().unwrap_err();
    assert!(driver.state_error_codes.contains(&error.code), "{error}");
    expect_lifecycle(recorder, &[]);
}

/// Suspending a paused domain succeeds with the QEMU driver, and fails with the test driver.
fn check_repeated_suspend(repeated: libvirt::Result<()>, driver: &Driver) {
    if let Err(error) = repeated {
        assert!(!driver.starts_paused, "{error}");
        assert!(driver.state_error_codes.contains(&error.code), "{error}");
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
    if !driver.starts_paused {
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

fn check_shutdown(domain: &SharedDomain, driver: &Driver, recorder: &EventRecorder) {
    domain.shutdown(ShutdownMode::Acpi).unwrap();
    wait_until("the guest is off", || domain.state().unwrap().is_down());
    assert_eq!(
        domain.state().unwrap(),
        State::new(DomainState::Shutoff, Reason::Shutdown)
    );
    expect_lifecycle(recorder, driver.events.shutdown);
}

fn check_destroy(domain: &SharedDomain, driver: &Driver, recorder: &EventRecorder) {
    domain.destroy(DestroyMode::Forceful).unwrap();
    assert_eq!(
        domain.state().unwrap(),
        State::new(DomainState::Shutoff, Reason::Destroyed)
    );
    expect_lifecycle(recorder, driver.events.destroy);
}

fn check_undefine(
    hypervisor: &dyn HypervisorConnection,
    domain: &SharedDomain,
    recorder: &EventRecorder,
) {
    domain.undefine(UndefineOptions::KEEP).unwrap();
    expect_lifecycle(recorder, &["Undefined Removed"]);
    assert!(hypervisor.lookup(NAME).unwrap().is_none());
    assert!(domain.state().unwrap_err().is_no_domain());
}
