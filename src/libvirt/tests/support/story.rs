//! The story: define, start, pause, resume, metadata, shutdown, start again, destroy, undefine.

use libvirt::{
    Affect, Destroy, DomainState, Event, Hypervisor, Metadata, Reason, ShutdownMode, Start, State,
    Undefine, XmlKind, code,
};

use super::{AGuest, Recorder, eventually};

pub(crate) const NAME: &str = "default_vm";
pub(crate) const URI: &str = "http://kubevirt.io";

/// What a driver does differently; everything else must be the same.
pub(crate) struct Driver {
    /// The domain to define.
    pub(crate) xml: String,
    /// Starting paused is possible.
    pub(crate) start_paused: bool,
    /// A shutdown request alone powers the guest off, as the test driver's guests do.
    pub(crate) obedient: bool,
    /// Codes it refuses calls with that the domain's state does not allow.
    pub(crate) refusals: &'static [i32],
    /// Lifecycle events of each chapter.
    pub(crate) events: Events,
}

pub(crate) struct Events {
    pub(crate) start: &'static [&'static str],
    pub(crate) start_paused: &'static [&'static str],
    pub(crate) destroy: &'static [&'static str],
    pub(crate) shutdown: &'static [&'static str],
}

/// As libvirt's QEMU driver tells it.
pub(crate) const QEMU: Events = Events {
    start: &["Resumed Unpaused", "Started Booted"],
    start_paused: &["Started Booted", "Suspended Paused"],
    destroy: &["Shutdown Host", "Stopped Destroyed"],
    shutdown: &["Shutdown Guest", "Stopped Shutdown"],
};

/// As libvirt's in-process test driver tells it.
pub(crate) const TEST: Events = Events {
    start: &["Started Booted"],
    start_paused: &[],
    destroy: &["Stopped Destroyed"],
    shutdown: &["Stopped Shutdown"],
};

const RUNNING: DomainState = DomainState::Running;
const PAUSED_BY_USER: State = State::new(DomainState::Paused, Reason::User);
const NEVER_STARTED: State = State::new(DomainState::Shutoff, Reason::Unknown);

pub(crate) fn tell(hypervisor: &dyn Hypervisor, driver: &Driver) {
    let recorder = Recorder::on(hypervisor, NAME);
    let guest = defined(hypervisor, driver, &recorder);
    described(hypervisor, &guest);
    not_running_yet(&guest, driver);
    started(&guest, driver, &recorder);
    paused_and_resumed(&guest, driver, &recorder);
    annotated(&guest, &recorder);
    measured(&guest);
    without_an_agent(&guest, driver);
    if driver.obedient {
        shut_down(&guest, driver, &recorder);
        started(&guest, driver, &recorder);
    }
    destroyed(&guest, driver, &recorder);
    if driver.start_paused {
        started_paused(&guest, driver, &recorder);
        destroyed(&guest, driver, &recorder);
    }
    undefined(hypervisor, &guest, &recorder);
}

fn expect(recorder: &Recorder, expected: &[&str]) {
    assert_eq!(recorder.lifecycle(expected.len()), expected);
}

fn defined(hypervisor: &dyn Hypervisor, driver: &Driver, recorder: &Recorder) -> AGuest {
    assert!(hypervisor.lookup(NAME).unwrap().is_none());
    let guest = hypervisor.define(&driver.xml).unwrap();
    expect(recorder, &["Defined Added"]);
    let again = hypervisor
        .define(&guest.xml(XmlKind::Inactive).unwrap())
        .unwrap();
    expect(recorder, &["Defined Updated"]);
    assert_eq!(guest.uuid(), again.uuid());
    guest
}

fn described(hypervisor: &dyn Hypervisor, guest: &AGuest) {
    assert_eq!(guest.name(), NAME);
    assert_eq!(guest.uuid().len(), 36);
    let found = hypervisor.lookup(NAME).unwrap().unwrap();
    assert_eq!(found.uuid(), guest.uuid());
    let xml = guest.xml(XmlKind::Inactive).unwrap();
    assert!(xml.contains(&format!("<name>{NAME}</name>")), "{xml}");
    assert!(xml.contains(guest.uuid()), "{xml}");
    assert!(hypervisor.is_alive());
}

fn not_running_yet(guest: &AGuest, driver: &Driver) {
    assert_eq!(guest.state().unwrap(), NEVER_STARTED);
    assert_eq!(guest.stats().unwrap(), None);
    for refused in [
        guest.suspend(),
        guest.resume(),
        guest.destroy(Destroy::Forceful),
        guest.shutdown(ShutdownMode::Default),
    ] {
        let error = refused.unwrap_err();
        assert!(driver.refusals.contains(&error.code), "{error}");
    }
}

fn started(guest: &AGuest, driver: &Driver, recorder: &Recorder) {
    guest.start(Start::RUNNING).unwrap();
    assert_eq!(guest.state().unwrap().state, RUNNING);
    expect(recorder, driver.events.start);
    let error = guest.start(Start::RUNNING).unwrap_err();
    assert!(driver.refusals.contains(&error.code), "{error}");
}

fn started_paused(guest: &AGuest, driver: &Driver, recorder: &Recorder) {
    guest.start(Start::PAUSED).unwrap();
    assert_eq!(guest.state().unwrap(), PAUSED_BY_USER);
    expect(recorder, driver.events.start_paused);
}

fn paused_and_resumed(guest: &AGuest, driver: &Driver, recorder: &Recorder) {
    guest.suspend().unwrap();
    assert_eq!(guest.state().unwrap(), PAUSED_BY_USER);
    expect(recorder, &["Suspended Paused"]);
    harmless_if_qemu(guest.suspend(), driver);
    guest.resume().unwrap();
    assert_eq!(
        guest.state().unwrap(),
        State::new(RUNNING, Reason::Unpaused)
    );
    expect(recorder, &["Resumed Unpaused"]);
    let error = guest.resume().unwrap_err();
    assert!(driver.refusals.contains(&error.code), "{error}");
    expect(recorder, &[]);
}

/// QEMU's driver takes a repeated suspension for done, the test driver refuses it.
fn harmless_if_qemu(repeated: libvirt::Result<()>, driver: &Driver) {
    if let Err(error) = repeated {
        assert!(!driver.start_paused, "{error}");
        assert!(driver.refusals.contains(&error.code), "{error}");
    }
}

fn annotated(guest: &AGuest, recorder: &Recorder) {
    assert_eq!(
        guest.metadata("http://nobody", Affect::Current).unwrap(),
        None
    );
    let write = |xml| {
        let metadata = Metadata {
            uri: URI,
            prefix: "kubevirt",
            xml,
        };
        guest.set_metadata(metadata, Affect::LiveAndConfig).unwrap();
        let uri = recorder.first(|event| match event {
            Event::Metadata { uri, .. } => Some(uri.clone()),
            _ => None,
        });
        assert_eq!(uri, Some(Some(URI.to_owned())));
    };
    write(Some("<kubevirt><uid>u-1</uid></kubevirt>"));
    for of in [Affect::Live, Affect::Config] {
        let xml = guest.metadata(URI, of).unwrap().unwrap();
        assert!(xml.contains("<uid>u-1</uid>"), "{xml}");
    }
    let xml = guest.xml(XmlKind::Active).unwrap();
    assert!(xml.contains("u-1"), "{xml}");
    write(None);
    assert_eq!(guest.metadata(URI, Affect::Live).unwrap(), None);
    assert_eq!(guest.metadata(URI, Affect::Config).unwrap(), None);
}

fn measured(guest: &AGuest) {
    let stats = guest.stats().unwrap().unwrap();
    assert_eq!(
        (stats.name.as_str(), stats.uuid.as_str()),
        (NAME, guest.uuid())
    );
}

fn without_an_agent(guest: &AGuest, driver: &Driver) {
    if !driver.start_paused {
        return;
    }
    let second = std::time::Duration::from_secs(1);
    let error = guest
        .agent_command(r#"{"execute":"guest-ping"}"#, second)
        .unwrap_err();
    assert_eq!(error.code, code::AGENT_UNRESPONSIVE);
    assert_eq!(
        error.to_string(),
        "virError(Code=86, Domain=10, Message='Guest agent is not responding: QEMU guest agent is not connected')"
    );
}

fn shut_down(guest: &AGuest, driver: &Driver, recorder: &Recorder) {
    guest.shutdown(ShutdownMode::Default).unwrap();
    eventually("the guest is off", || guest.state().unwrap().is_down());
    assert_eq!(
        guest.state().unwrap(),
        State::new(DomainState::Shutoff, Reason::Shutdown)
    );
    expect(recorder, driver.events.shutdown);
}

fn destroyed(guest: &AGuest, driver: &Driver, recorder: &Recorder) {
    guest.destroy(Destroy::Forceful).unwrap();
    assert_eq!(
        guest.state().unwrap(),
        State::new(DomainState::Shutoff, Reason::Destroyed)
    );
    expect(recorder, driver.events.destroy);
}

fn undefined(hypervisor: &dyn Hypervisor, guest: &AGuest, recorder: &Recorder) {
    guest.undefine(Undefine::KEEP).unwrap();
    expect(recorder, &["Undefined Removed"]);
    assert!(hypervisor.lookup(NAME).unwrap().is_none());
    assert!(guest.state().unwrap_err().is_no_domain());
}
