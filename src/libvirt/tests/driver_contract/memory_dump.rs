//! The contract of memory dumps, by libvirt's QEMU driver: the states, errors and events of the fake and of real QEMU
//! must not differ.

use std::path::Path;
use std::thread;

use libvirt::{
    DestroyMode, Domain, DomainState, HypervisorConnection, JobOperation, JobType, Reason,
    ShutdownMode, StartOptions, State, UndefineOptions, code,
};

use super::domain_lifecycle::NAME;
use super::{EventRecorder, SharedDomain, wait_until};

const DUMPING: State = State::new(DomainState::Paused, Reason::Dump);
const RESUMED: State = State::new(DomainState::Running, Reason::Unpaused);
const START_EVENTS: [&str; 3] = ["Defined Added", "Resumed Unpaused", "Started Booted"];
const DUMP_EVENTS: [&str; 2] = ["Suspended Paused", "Resumed Unpaused"];

/// Checks the contract. `slow_dumps` makes dumps last long enough for calls during one; the daemon can write to
/// `directory`.
pub(crate) fn check(
    hypervisor: &dyn HypervisorConnection,
    xml: &str,
    directory: &Path,
    slow_dumps: impl Fn(),
) {
    let recorder = EventRecorder::subscribe(hypervisor, NAME);
    let domain = hypervisor.define(xml).unwrap();
    let error = domain.core_dump_memory("/tmp/x.dump").unwrap_err();
    assert_eq!(error.code, code::OPERATION_INVALID, "{error}");
    domain.start(StartOptions::RUNNING).unwrap();
    assert_eq!(recorder.lifecycle(3), START_EVENTS);
    check_no_job(&*domain);
    check_complete_dump(&*domain, directory, &recorder);
    check_missing_directory(&*domain, &recorder);
    check_paused_guest(&*domain, directory, &recorder);
    slow_dumps();
    check_destroy_during_dump(hypervisor, &domain, directory, &recorder);
    domain.undefine(UndefineOptions::KEEP).unwrap();
    assert_eq!(recorder.lifecycle(1), ["Undefined Removed"]);
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).to_str().unwrap().to_owned()
}

fn check_no_job(domain: &dyn Domain) {
    assert_eq!(domain.job_stats().unwrap().job_type, JobType::None);
    let error = domain.abort_job().unwrap_err();
    assert_eq!(
        error.to_string(),
        "virError(Code=55, Domain=10, Message='Requested operation is not valid: no job is active \
         on the domain')"
    );
}

fn check_complete_dump(domain: &dyn Domain, directory: &Path, recorder: &EventRecorder) {
    let file = path(directory, "complete.memory.dump");
    domain.core_dump_memory(&file).unwrap();
    assert_eq!(recorder.lifecycle(2), DUMP_EVENTS);
    assert_eq!(domain.state().unwrap(), RESUMED);
    assert_eq!(&std::fs::read(&file).unwrap()[..4], b"\x7fELF");
}

fn check_missing_directory(domain: &dyn Domain, recorder: &EventRecorder) {
    let error = domain.core_dump_memory("/nonexistent/x.dump").unwrap_err();
    assert_eq!(
        error.to_string(),
        "virError(Code=38, Domain=10, Message='Failed to create file '/nonexistent/x.dump': No such \
         file or directory')"
    );
    assert_eq!(recorder.lifecycle(2), DUMP_EVENTS);
    assert_eq!(domain.state().unwrap(), RESUMED);
}

fn check_paused_guest(domain: &dyn Domain, directory: &Path, recorder: &EventRecorder) {
    domain.suspend().unwrap();
    let paused = domain.state().unwrap();
    domain
        .core_dump_memory(&path(directory, "paused.memory.dump"))
        .unwrap();
    assert_eq!(domain.state().unwrap(), paused);
    domain.resume().unwrap();
    assert_eq!(recorder.lifecycle(2), DUMP_EVENTS);
}

fn check_destroy_during_dump(
    hypervisor: &dyn HypervisorConnection,
    domain: &SharedDomain,
    directory: &Path,
    recorder: &EventRecorder,
) {
    let file = path(directory, "interrupted.memory.dump");
    let (dumped_domain, path) = (domain.clone(), file.clone());
    let dump = thread::spawn(move || dumped_domain.core_dump_memory(&path));
    wait_until("the dump runs", || {
        domain.state().unwrap() == DUMPING
            && domain.job_stats().unwrap().operation == JobOperation::Dump
    });
    let stats = domain.job_stats().unwrap();
    assert_eq!(stats.job_type, JobType::Unbounded);
    assert!(stats.memory_percent().is_some(), "{stats:?}");
    let error = domain.abort_job().unwrap_err();
    assert_eq!(
        error.to_string(),
        "virError(Code=55, Domain=10, Message='Requested operation is not valid: cannot abort \
         memory-only dump')"
    );
    assert!(hypervisor.lookup(NAME).unwrap().is_some());
    domain.destroy(DestroyMode::Forceful).unwrap();
    let error = dump.join().unwrap().unwrap_err();
    assert_eq!(error.code, code::OPERATION_FAILED, "{error}");
    // The message, and whether libvirt still tries to resume the domain and fails, depend on whether libvirt was
    // executing a QEMU command when QEMU ended.
    assert!(
        [
            "operation failed: domain is not running",
            "operation failed: domain is no longer running",
        ]
        .contains(&error.message.as_str()),
        "{error}"
    );
    assert!(!Path::new(&file).exists());
    let mut events = recorder.lifecycle(3);
    if events.iter().any(|event| event == "Suspended ApiError") {
        events.retain(|event| event != "Suspended ApiError");
        events.extend(recorder.lifecycle(3 - events.len()));
    }
    assert_eq!(
        events,
        ["Suspended Paused", "Shutdown Host", "Stopped Destroyed"]
    );
    let error = domain.shutdown(ShutdownMode::Acpi).unwrap_err();
    assert_eq!(error.code, code::OPERATION_INVALID);
}
