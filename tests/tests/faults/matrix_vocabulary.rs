//! The vocabulary of the matrix: a row, its phase, steps and expectation.

use std::time::Duration;

/// One row: in `phase`, `steps` are applied, and then `expect` must hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) phase: Phase,
    pub(crate) steps: &'static [Step],
    pub(crate) expect: Expect,
    pub(crate) setup: Setup,
    /// Also part of `make test`.
    pub(crate) quick: bool,
}

/// The phase of launcher and VM at the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The pod's process 1 was started this long ago, in milliseconds.
    Spawned(u64),
    /// The command socket has its ready name; there is no domain.
    Ready,
    /// A sync is running, and virt-handler was notified of a domain.
    Defined,
    /// A sync is running, and QEMU's process exists.
    Starting,
    /// The guest has booted.
    Running,
    /// The user has paused the running guest.
    Paused,
    /// The running guest was asked to shut down.
    ShuttingDown,
    /// The guest has powered itself off; virt-handler has not deleted the domain yet.
    Off,
}

/// How the pod differs from a plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Setup {
    /// uid 107, a grace period of [`GRACE`].
    Plain,
    /// As [`Setup::Plain`], as root.
    Root,
    /// A grace period of [`SHORT_GRACE`].
    ShortGrace,
    /// The same, with a guest that ignores the power button: it has no kernel.
    DeafGuest,
    /// The file system of libvirt's and QEMU's logs is full.
    FullLogs,
    /// The VM has a disk whose changed blocks are tracked.
    TrackedDisk,
    /// The VM has a volume beside its hotplugged one, as a sync needs it to detach that one.
    Hotplug,
}

/// `--grace-period-seconds`, the VMI's too.
pub(crate) const GRACE: u32 = 20;
pub(crate) const SHORT_GRACE: u32 = 5;

impl Setup {
    pub(crate) fn grace(self) -> u32 {
        match self {
            Setup::ShortGrace | Setup::DeafGuest => SHORT_GRACE,
            Setup::Plain | Setup::Root | Setup::FullLogs | Setup::TrackedDisk | Setup::Hotplug => {
                GRACE
            }
        }
    }
}

/// A program of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Monitor,
    Launcher,
    /// virtqemud, or libvirtd in its place.
    Daemon,
    Virtlogd,
    Qemu,
}

/// A command or query, with virt-handler's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Ping,
    Sync,
    Pause,
    Unpause,
    /// With a safety thaw after 2 s.
    Freeze,
    Unfreeze,
    /// To a new file.
    MemoryDump,
    /// The same, into a directory without enough space.
    MemoryDumpToFullDisk,
    /// A sync with a hotplugged disk, after which the domain has it.
    AttachDisk,
    /// A sync without it, after which the domain has it no more.
    DetachDisk,
    /// The same, of a guest that keeps it: the sync succeeds, and the domain has the disk still.
    DetachKeptDisk,
    /// A sync with a hotplugged image in a format of its own, which is attached as raw data, and one with a disk whose overlay
    /// is not an image, which is refused.
    AttachForeignImage,
    /// A sync with hotplugged disks whose images are missing, no raw image, and used by another disk, one each.
    AttachUnusableDisks,
    /// A command in the guest that prints 100 MB.
    ExecFlood,
    /// A new backup in push mode.
    PushBackup,
    /// The same, into a directory without enough space.
    PushBackupToFullDisk,
    /// A new backup in pull mode.
    PullBackup,
    /// Of the backup that was started last.
    AbortBackup,
    Reset,
    Shutdown,
    Kill,
    Delete,
    GetDomain,
    GetDomainStats,
    GetQemuVersion,
    GetGuestInfo,
    GuestPing,
}

/// The state of the proxy before virt-handler's notification server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyMode {
    /// It answers.
    Open,
    /// It answers each notification only after this many milliseconds.
    Slow(u64),
    /// It accepts connections and never answers.
    Hung,
    /// Its socket does not exist.
    Away,
}

/// A disturbance, a call or a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Kill(Program),
    /// SIGSTOP.
    Stop(Program),
    /// SIGCONT.
    Continue(Program),
    /// SIGTERM to one program of the pod.
    Terminate(Program),
    /// SIGTERM to the pod, as the kubelet ends it.
    Sigterm,
    /// Milliseconds.
    Wait(u64),
    /// The call succeeds within virt-handler's deadline.
    Ask(Call),
    /// The call does not succeed.
    Refused(Call),
    /// The call is answered within milliseconds, with success or without.
    AnswerWithin(Call, u64),
    /// The call is repeated until it succeeds, for these milliseconds.
    AskUntil(Call, u64),
    /// The call is sent without waiting for its answer.
    Send(Call),
    /// The call is sent and cancelled after milliseconds.
    Cancel(Call, u64),
    /// Separate clients repeat the call until the row ends.
    Poll(Call),
    /// virt-handler's notification server.
    Notify(ProxyMode),
    /// virt-handler ends, and another one comes half a second later.
    RestartHandler,
    /// virt-handler is notified of this state (a prefix of `Status/Reason`) within milliseconds.
    Reported(&'static str, u64),
    /// There were this many Kubernetes events of this reason in this row.
    EventReported(&'static str, usize),
    /// virt-handler is notified of the end of a backup within milliseconds: complete (""), or failed with this text.
    BackupEnded(&'static str, u64),
    /// virt-handler is notified of the end of a backup, failed or not, within milliseconds.
    BackupEndedAnyhow(u64),
    /// virt-handler is notified of the failure of a memory dump with this text, within milliseconds.
    DumpFailed(&'static str, u64),
    /// A client of the running backup's NBD server asks for data and does not read them. The connection stays open until the
    /// row ends.
    StalledNbdClient,
    /// virt-handler has not been notified of this state in this row, or since the state that the row waited for last.
    NotReported(&'static str),
    /// A line is typed into the guest's shell.
    Type(&'static str),
    /// The serial console's log has this text within milliseconds, or an event names the console.
    ConsoleLogged(&'static str, u64),
    /// Files of the pod are removed; at least one must exist.
    Remove(&'static [&'static str]),
    /// A second launcher on the pod's directories ends with an error.
    SecondLauncher,
    /// After the pod's end its launcher is started again on the same directories.
    StartAgain,
    /// This many clients send this many commands each, and all succeed.
    Clients(usize, usize),
    /// A call by another gRPC library, whose `:authority` is the socket's path.
    ForeignAuthority,
    /// Connections to the command socket that send no HTTP/2.
    Garbage(usize),
}

/// The expectation after the steps. Times count from the last step that begins or ends a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// The same QEMU runs on in the same state, commands work, and no end was notified.
    Unharmed(Duration),
    /// Syncs, repeated as virt-handler does, bring the VM to Running.
    Starts(Duration),
    /// virt-handler is notified of this end (a prefix of `Status/Reason`), then at most that the domain is gone.
    /// The pod ends with exit code 0 within the second duration.
    Ends(&'static str, Duration, Duration),
    /// The pod ends with exit code 0, and the last notification is this state or that the domain is gone.
    LastReported(&'static str, Duration),
    /// The pod ends with this exit code, or with any. No notification is expected.
    Exits(Option<i32>, Duration),
}

/// A row.
pub(crate) const fn row(
    name: &'static str,
    phase: Phase,
    steps: &'static [Step],
    expect: Expect,
) -> Row {
    Row {
        name,
        phase,
        steps,
        expect,
        setup: Setup::Plain,
        quick: false,
    }
}

impl Row {
    pub(crate) const fn in_pod(mut self, setup: Setup) -> Row {
        self.setup = setup;
        self
    }

    pub(crate) const fn quick(mut self) -> Row {
        self.quick = true;
        self
    }

    /// Whether the next row can use the same pod.
    pub(crate) fn spares_the_pod(&self) -> bool {
        matches!(self.expect, Expect::Unharmed(_))
    }
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A bound with slack for a busy machine: three times as much, at most 4 s more.
pub(crate) fn with_slack(bound: Duration) -> Duration {
    bound + (bound * 2).min(secs(4))
}
