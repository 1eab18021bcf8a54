//! A row of the fault matrix: its phase, steps and expectation.

use std::time::Duration;

use crate::fault_row_calls::Call;
use crate::notify_proxy::ProxyMode;

/// A row: `steps` are applied in `phase`, and then `expect` must hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) phase: Phase,
    pub(crate) steps: &'static [Step],
    pub(crate) expect: Expect,
    pub(crate) setup: Setup,
    /// Whether `make test` runs the row.
    pub(crate) quick: bool,
}

/// The phase of launcher and VM at the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The pod's process 1 was started this long ago, in milliseconds.
    Spawned(u64),
    /// The launcher has renamed its command socket to the final name; there is no domain.
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
    /// The launcher's user is 107, the grace period [`GRACE_SECONDS`].
    Plain,
    /// As [`Setup::Plain`], with root as the launcher's user.
    Root,
    /// A grace period of [`SHORT_GRACE_SECONDS`].
    ShortGrace,
    /// As [`Setup::ShortGrace`], with a guest that ignores the power button, since it has no kernel.
    IgnoresPowerButton,
    /// The file system of libvirt's and QEMU's logs is full.
    FullLogs,
    /// The VM has a disk whose changed blocks are tracked.
    TrackedDisk,
    /// The VM has a permanent volume: without one, a sync would not detach a hotplugged volume.
    Hotplug,
}

/// `--grace-period-seconds`, also in the VMI.
pub(crate) const GRACE_SECONDS: u32 = 20;
pub(crate) const SHORT_GRACE_SECONDS: u32 = 5;

impl Setup {
    pub(crate) fn grace_seconds(self) -> u32 {
        match self {
            Setup::ShortGrace | Setup::IgnoresPowerButton => SHORT_GRACE_SECONDS,
            Setup::Plain | Setup::Root | Setup::FullLogs | Setup::TrackedDisk | Setup::Hotplug => {
                GRACE_SECONDS
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
    /// Nothing happens for these milliseconds.
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
    /// The proxy before virt-handler's notification server changes its mode.
    Notify(ProxyMode),
    /// virt-handler ends, and another one starts half a second later.
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
    /// A client of the running backup's NBD server asks for data and does not read them. The connection stays open
    /// until the row ends.
    StalledNbdClient,
    /// Since the last `Reported` step, or without one since the row's start, virt-handler was not notified of this state.
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
    /// This many connections to the command socket send no HTTP/2.
    Garbage(usize),
}

impl Step {
    /// Whether the times of the expectation count from this step.
    pub(crate) fn is_disturbance(self) -> bool {
        match self {
            // The times of an expectation count from the call that ends the VM.
            Step::Ask(Call::Kill | Call::Shutdown) => true,
            Step::Wait(_)
            | Step::Ask(_)
            | Step::AnswerWithin(..)
            | Step::Refused(_)
            | Step::AskUntil(..)
            | Step::Poll(_)
            | Step::Reported(..)
            | Step::EventReported(..)
            | Step::BackupEnded(..)
            | Step::BackupEndedAnyhow(_)
            | Step::DumpFailed(..)
            | Step::NotReported(_)
            | Step::ConsoleLogged(..) => false,
            Step::Kill(_)
            | Step::Stop(_)
            | Step::Continue(_)
            | Step::Terminate(_)
            | Step::Sigterm
            | Step::Send(_)
            | Step::Cancel(..)
            | Step::Notify(_)
            | Step::RestartHandler
            | Step::StalledNbdClient
            | Step::Type(_)
            | Step::Remove(_)
            | Step::SecondLauncher
            | Step::StartAgain
            | Step::Clients(..)
            | Step::ForeignAuthority
            | Step::Garbage(_) => true,
        }
    }
}

/// The expectation after the steps. Times count from the last step that begins or ends a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// The QEMU process still runs in the state that it had before the row, commands work, and no end was notified.
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

/// A row with a plain pod that `make test` does not run.
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
