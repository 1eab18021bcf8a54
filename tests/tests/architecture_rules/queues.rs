//! Every queue of the programs that run in a pod has a bound. A new one needs a row here.

use std::collections::BTreeSet;

use tests::binaries::workspace;

use crate::source_rules::sources;

/// Who adds to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Producer {
    /// The guest, through QEMU, libvirt or a console.
    Guest,
    /// Whoever connects to a socket: virt-handler, other launchers, sidecars.
    Peer,
    /// The launcher, as often as it does something of its own.
    Launcher,
}

/// What limits a queue.
#[derive(Debug)]
enum Bound {
    /// A constant of the file.
    Constant(&'static str),
    /// Something else, in words. Not for a queue of the guest.
    Because(&'static str),
}

use Bound::{Because, Constant};
use Producer::{Guest, Launcher, Peer};

/// The files with queues: their number in the file, who adds to them, and their bound.
const QUEUES: [(&str, usize, Producer, Bound); 20] = [
    (
        "src/hook-host/src/collect/counted_hooks_collection.rs",
        1,
        Peer,
        Because("one probe for each of the sidecars that --hook-sidecars counts"),
    ),
    (
        "src/bounded-listener/src/byte_listener.rs",
        1,
        Peer,
        Because("Limits::connections tasks; those above are closed"),
    ),
    (
        "src/launcher/src/blocking.rs",
        1,
        Peer,
        Constant("MAX_WAITING"),
    ),
    (
        "src/launcher/src/command_server.rs",
        1,
        Launcher,
        Because("one"),
    ),
    (
        "src/launcher/src/guest_agent/freeze.rs",
        1,
        Peer,
        Because("one for each freeze or thaw, of which `operation` lets one run at a time"),
    ),
    (
        "src/launcher/src/jobs/migration_source/monitor_calls.rs",
        1,
        Guest,
        Constant("MAX_QUEUED_EVENTS"),
    ),
    (
        "src/launcher/src/jobs/migration_source/monitor/stall_detector.rs",
        1,
        Launcher,
        Because(
            "iterations of a migration in a window of time, each with less to copy than the one before",
        ),
    ),
    (
        "src/launcher/src/jobs/migration_source.rs",
        1,
        Peer,
        Because("one: a cancellation that waits already is enough"),
    ),
    (
        "src/launcher/src/libvirt_client/connection.rs",
        1,
        Launcher,
        Because("one for each session with libvirt's daemon that is lost"),
    ),
    (
        "src/launcher/src/libvirt_daemons/qemu_log.rs",
        1,
        Launcher,
        Because("one task for each log file of QEMU"),
    ),
    (
        "src/launcher/src/libvirt_daemons/supervised_daemon.rs",
        1,
        Guest,
        Constant("KEPT_LOG_LINES"),
    ),
    (
        "src/launcher/src/manager/command_driver.rs",
        1,
        Peer,
        Because("the commands that run, which the queue of commands limits"),
    ),
    (
        "src/launcher/src/manager.rs",
        1,
        Peer,
        Constant("INBOX_CAPACITY"),
    ),
    (
        "src/launcher/src/nbd/nbd_grpc_service.rs",
        1,
        Peer,
        Constant("MAX_QUEUED_MESSAGES"),
    ),
    (
        "src/launcher/src/notify.rs",
        1,
        Guest,
        Constant("MAX_QUEUED"),
    ),
    (
        "src/launcher/src/notify/send_task.rs",
        1,
        Guest,
        Constant("MAX_QUEUED"),
    ),
    (
        "src/launcher/src/supervised_tasks.rs",
        2,
        Launcher,
        Because("MAX_ENDS_IN_WINDOW ends of a task, and one task for each that is given up"),
    ),
    (
        "src/launcher/src/vm_boot/image_volumes.rs",
        1,
        Peer,
        Constant("MAX_LINKS"),
    ),
    (
        "src/launcher/src/vm_events.rs",
        1,
        Guest,
        Constant("MAX_WAITING"),
    ),
    (
        "src/stderr-lines/src/lib.rs",
        1,
        Guest,
        Constant("MAX_WAITING_BYTES"),
    ),
];

/// The crates of the programs in a pod.
const CRATES: [&str; 5] = [
    "bounded-listener",
    "hook-host",
    "launcher",
    "monitor",
    "stderr-lines",
];

/// How a queue begins in the sources.
const QUEUE_TYPES: [&str; 6] = [
    ": VecDeque<",
    "(VecDeque<",
    "mpsc::channel(",
    "mpsc::sync_channel(",
    "mpsc::unbounded_channel(",
    "JoinSet::new()",
];

#[test]
fn every_queue_has_a_bound() {
    let mut found = Vec::new();
    for name in CRATES {
        for (file, source) in sources(&workspace().join("src").join(name).join("src")) {
            let count = count_queues(&source);
            if count > 0 && !file.ends_with("tests.rs") {
                let file = file.strip_prefix(workspace()).unwrap();
                found.push((file.to_str().unwrap().to_owned(), count));
            }
        }
    }
    let found: BTreeSet<_> = found.into_iter().collect();
    let listed: BTreeSet<_> = QUEUES
        .iter()
        .map(|(file, count, ..)| ((*file).to_owned(), *count))
        .collect();
    let unlisted: Vec<_> = found.difference(&listed).collect();
    assert!(unlisted.is_empty(), "without a row: {unlisted:#?}");
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(gone.is_empty(), "rows without a queue: {gone:#?}");
}

#[test]
fn bounds_are_in_the_code() {
    for (file, _, producer, bound) in &QUEUES {
        match bound {
            Constant(name) => {
                let file = workspace().join(file);
                let mut sources = sources(file.parent().unwrap());
                // What is in the module's file or below it.
                sources
                    .retain(|(path, _)| path.starts_with(file.with_extension("")) || *path == file);
                let definition = format!("const {name}: ");
                let is_defined = sources
                    .iter()
                    .any(|(_, source)| source.contains(&definition));
                assert!(is_defined, "{}: no constant {name}", file.display());
            }
            Because(reason) => {
                assert_ne!(*producer, Guest, "{file}: {reason} is not enough");
            }
        }
    }
}

/// The queues outside of modules of tests.
fn count_queues(source: &str) -> usize {
    let lines: Vec<&str> = source.lines().collect();
    let begins_tests = |lines: &[&str]| lines[0] == "#[cfg(test)]" && lines[1].ends_with('{');
    let end = lines.windows(2).position(begins_tests);
    let code = lines[..end.unwrap_or(lines.len())].iter();
    code.filter(|line| !line.trim_start().starts_with("//"))
        .filter(|line| QUEUE_TYPES.iter().any(|begin| line.contains(begin)))
        .count()
}
