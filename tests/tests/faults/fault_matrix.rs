//! The fault matrix. Each row has a name, the phase of the VM, steps, and an expectation.

use crate::fault_row::Expect::{Ends, Exits, LastReported, Starts, Unharmed};
use crate::fault_row::Phase::{
    Defined, Off, Paused, Ready, Running, ShuttingDown, Spawned, Starting,
};
use crate::fault_row::Program::{Daemon, Launcher, Monitor, Qemu, Virtlogd};
use crate::fault_row::Setup::{
    FullLogs, Hotplug, IgnoresPowerButton, Root, ShortGrace, TrackedDisk,
};
use crate::fault_row::Step::{
    AnswerWithin, Ask, AskUntil, BackupEnded, BackupEndedAnyhow, Cancel, Clients, ConsoleLogged,
    Continue, DumpFailed, EventReported, ForeignAuthority, Garbage, Kill, NotReported, Notify,
    Poll, Refused, Remove, Reported, RestartHandler, SecondLauncher, Send, Sigterm,
    StalledNbdClient, StartAgain, Stop, Terminate, Type, Wait,
};
use crate::fault_row::{Row, Step, millis, row, secs};
use crate::fault_row_calls::Call::{
    AbortBackup, AttachDisk, AttachForeignImages, AttachUnusableDisks, Delete, DetachDisk,
    DetachKeptDisk, ExecFlood, Freeze, GetDomain, GetDomainStats, GetGuestInfo, GetQemuVersion,
    GuestPing, Kill as KillVm, MemoryDump, MemoryDumpToFullDisk, Pause, Ping, PullBackup,
    PushBackup, PushBackupToFullDisk, Reset, Shutdown, Sync, Unfreeze, Unpause,
};
use crate::notify_proxy::ProxyMode::{Away, Hung, Open, Slow};

const CRASHED: &str = "Shutoff/Crashed";
const SHUTDOWN: &str = "Shutoff/Shutdown";
const DESTROYED: &str = "Shutoff/Destroyed";
const ANY_END: &str = "Shutoff/";

/// All queries, which must be answered within virt-handler's deadline of 5 s.
const QUERIES: [Step; 4] = [
    AnswerWithin(Ping, 5000),
    AnswerWithin(GetDomain, 5000),
    AnswerWithin(GetDomainStats, 5000),
    AnswerWithin(GetQemuVersion, 5000),
];

/// A command that replaces the guest agent by a program that floods its port. The guest's init restarts the program
/// when it ends.
const FLOODING_AGENT: &str = r#"cp /sbin/qemu-ga /sbin/ga; printf '#!/bin/sh\nyes "{\\"return\\": {}}" >/dev/virtio-ports/org.qemu.guest_agent.0\n' >/sbin/new; chmod +x /sbin/new; mv /sbin/new /sbin/qemu-ga; killall -KILL qemu-ga"#;
/// A command that replaces the guest agent by a program that answers libvirt's synchronisation, and sends nonsense for
/// all else.
const NONSENSE_AGENT: &str = r#"cp /sbin/qemu-ga /sbin/ga; printf '#!/bin/sh\nexec <>/dev/virtio-ports/org.qemu.guest_agent.0 >&0\nwhile read -r l; do case $l in *guest-sync*) i=${l##*\\"id\\":}; printf "\\377{\\"return\\": ${i%%%%[!0-9-]*}}\\n";; *) echo "{\\"return\\": [{\\"name\\": 7, \\"x\\": [[[[{}]]]]}]}";; esac; done\n' >/sbin/new; chmod +x /sbin/new; mv /sbin/new /sbin/qemu-ga; killall -KILL qemu-ga"#;
/// A command that replaces the guest agent by a program that answers each command twice.
const REPEATING_AGENT: &str = r#"cp /sbin/qemu-ga /sbin/ga; printf '#!/bin/sh\nexec <>/dev/virtio-ports/org.qemu.guest_agent.0 >&0\nwhile read -r l; do case $l in *guest-sync*) i=${l##*\\"id\\":}; i=${i%%%%[!0-9-]*};; *) i={};; esac; for k in 1 2; do printf "\\377{\\"return\\": $i}\\n"; done; done\n' >/sbin/new; chmod +x /sbin/new; mv /sbin/new /sbin/qemu-ga; killall -KILL qemu-ga"#;
/// A command that restores the real guest agent.
const REAL_AGENT: &str = "mv /sbin/ga /sbin/new; mv /sbin/new /sbin/qemu-ga; killall -KILL qemu-ga";
/// A command that restores the real guest agent after a flood. It also kills the process that writes the flood: while
/// that process has the port open, no other process can open it.
const REAL_AGENT_AFTER_FLOOD: &str =
    "mv /sbin/ga /sbin/new; mv /sbin/new /sbin/qemu-ga; killall -KILL qemu-ga yes";
/// A command that restarts the agent three times. After a flood QEMU forwards nothing from the port until the host's
/// side is closed, which libvirt does when an agent ends to which it is connected. libvirt may be connected only later.
const RESTART_AGENT: &str = "for n in 1 2 3; do sleep 5; killall -KILL qemu-ga; done";
/// A command that disables the ACPI event with which QEMU's q35 machine notifies the guest of PCI hotplug: the guest
/// then receives no request to release a device.
const DISABLE_HOTPLUG_EVENTS: &str = "cd /sys/firmware/acpi/interrupts; echo disable >gpe01; cd /";
/// A command that enables this event again.
const ENABLE_HOTPLUG_EVENTS: &str = "cd /sys/firmware/acpi/interrupts; echo enable >gpe01; cd /";

#[rustfmt::skip]
pub(crate) const FAULTS: &[Row] = &[
    // ---- the daemon dies -------------------------------------------------------------------------------------------
    row("daemon killed, sync at once", Ready, &[Kill(Daemon), Ask(Sync)], Starts(secs(20))),
    row("daemon killed while it asks QEMU what it can do", Ready, &[Send(Sync), Wait(60), Kill(Daemon)], Starts(secs(20))),
    row("daemon killed", Defined, &[Kill(Daemon)], Starts(secs(20))),
    row("daemon killed", Starting, &[Kill(Daemon)], Starts(secs(20))),
    row("daemon killed, pause at once", Running, &[Kill(Daemon), Ask(Pause), Ask(Unpause)], Unharmed(secs(5))).quick(),
    row("daemon killed, pause 300 ms later", Running, &[Kill(Daemon), Wait(300), Ask(Pause), Ask(Unpause)], Unharmed(secs(5))),
    row("daemon killed, pause 1.3 s later", Running, &[Kill(Daemon), Wait(1300), Ask(Pause), Ask(Unpause)], Unharmed(secs(5))),
    row("daemon killed, queries at once", Running, &[Kill(Daemon), Ask(GetDomain), Ask(GetDomainStats), Ask(GetQemuVersion)], Unharmed(secs(5))),
    row("daemon killed three times", Running, &[Kill(Daemon), Wait(2500), Kill(Daemon), Wait(2500), Kill(Daemon)], Unharmed(secs(10))),
    row("daemon's socket file removed", Running, &[Remove(&["/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock"]), Ask(Pause), Ask(Unpause)], Unharmed(secs(5))),
    row("daemon killed", Paused, &[Kill(Daemon), Wait(2000), NotReported("Running/"), Ask(Sync), NotReported("Running/")], Unharmed(secs(5))),
    row("daemon killed", ShuttingDown, &[Kill(Daemon)], Ends(SHUTDOWN, secs(15), secs(20))),
    row("daemon killed", Off, &[Kill(Daemon)], Ends("NoState/", secs(10), secs(15))),
    row("daemon killed with SIGTERM", Running, &[Kill(Daemon), Sigterm], Ends(SHUTDOWN, secs(18), secs(20))),

    // ---- the daemon hangs ------------------------------------------------------------------------------------------
    row("daemon hung, queries", Running, &[Stop(Daemon), QUERIES[0], QUERIES[1], QUERIES[2], QUERIES[3], Continue(Daemon)], Unharmed(secs(5))),
    row("daemon hung 3 s during a pause", Running, &[Stop(Daemon), Send(Pause), Wait(3000), Continue(Daemon), Reported("Paused/User", 5000), AskUntil(Unpause, 5000)], Unharmed(secs(5))),
    row("daemon hung 3 s", Starting, &[Stop(Daemon), Wait(3000), Continue(Daemon)], Starts(secs(20))),
    row("daemon hung, sync, 4 s", Ready, &[Stop(Daemon), Send(Sync), Wait(4000), Continue(Daemon)], Starts(secs(20))),
    row("daemon hung, QEMU killed", Running, &[Stop(Daemon), Kill(Qemu)], Ends(CRASHED, millis(1200), secs(40))),
    row("daemon hung, SIGTERM", Running, &[Stop(Daemon), Sigterm], Ends(ANY_END, secs(8), secs(8))).in_pod(ShortGrace),

    // ---- QEMU dies or hangs ----------------------------------------------------------------------------------------
    row("QEMU killed", Starting, &[Kill(Qemu)], Starts(secs(20))),
    row("QEMU killed", Running, &[Kill(Qemu)], Ends(CRASHED, millis(1200), secs(10))).quick(),
    row("QEMU killed", Paused, &[Kill(Qemu)], Ends(CRASHED, millis(1200), secs(10))),
    row("QEMU killed", ShuttingDown, &[Kill(Qemu)], Ends(ANY_END, millis(1200), secs(10))).in_pod(IgnoresPowerButton),
    row("QEMU killed, its pid file removed", Running, &[Remove(&["/run/libvirt/qemu/run/default_fault.pid"]), Kill(Qemu)], Ends(CRASHED, secs(3), secs(10))),
    row("QEMU and daemon killed", Running, &[Kill(Daemon), Kill(Qemu)], Ends(CRASHED, secs(3), secs(20))),
    row("QEMU gets SIGTERM", Running, &[Terminate(Qemu)], Ends(ANY_END, secs(3), secs(10))),
    row("QEMU hung, queries", Running, &[Stop(Qemu), QUERIES[0], QUERIES[1], QUERIES[2], QUERIES[3], Continue(Qemu)], Unharmed(secs(5))),
    row("QEMU hung, statistics polled, kill", Running, &[Poll(GetDomainStats), Stop(Qemu), Wait(2000), Ask(KillVm)], Ends(ANY_END, secs(18), secs(30))),
    row("QEMU hung, kill", Paused, &[Stop(Qemu), Ask(KillVm)], Ends(ANY_END, secs(18), secs(30))),
    row("QEMU hung, statistics polled, SIGTERM", Running, &[Poll(GetDomainStats), Stop(Qemu), Sigterm], Ends(ANY_END, secs(23), secs(26))).in_pod(ShortGrace),
    row("QEMU hung, pause answered late, no-op sync", Running, &[Stop(Qemu), Cancel(Pause, 21_000), Continue(Qemu), Reported("Paused/", 10_000), Ask(Sync), Wait(1000), NotReported("Running/"), Ask(Unpause)], Unharmed(secs(5))),

    // ---- the guest agent -------------------------------------------------------------------------------------------
    row("guest agent hung, other calls", Running, &[Type("killall -STOP qemu-ga"), Refused(GuestPing), Send(GuestPing), Ask(GetDomain), Ask(Pause), Ask(Unpause), Ask(GetGuestInfo), Type("killall -CONT qemu-ga")], Unharmed(secs(5))),
    row("guest agent killed", Running, &[Type("killall -KILL qemu-ga"), AskUntil(GuestPing, 20000)], Unharmed(secs(5))),
    row("guest agent hung, shutdown", Running, &[Type("killall -STOP qemu-ga"), Wait(500), Send(Shutdown)], Ends(SHUTDOWN, secs(10), secs(20))),
    row("guest agent hung, ten pauses and unpauses", Running, &[
        Type("killall -STOP qemu-ga"), Wait(500), Ask(Pause), Ask(Unpause), Ask(Pause), Ask(Unpause), Ask(Pause), Ask(Unpause), Ask(Pause), Ask(Unpause),
        Ask(Pause), Ask(Unpause), Ask(Pause), Ask(Unpause), Ask(Pause), Ask(Unpause), Ask(Pause), Ask(Unpause), Ask(Pause), Ask(Unpause), Ask(Pause), Ask(Unpause),
        Type("killall -CONT qemu-ga"),
    ], Unharmed(secs(5))),

    row("guest agent hung twice, freeze refused", Running, &[
        Type("killall -STOP qemu-ga"), Refused(Freeze), QUERIES[1], Ask(GetGuestInfo), Type("killall -CONT qemu-ga"), AskUntil(GuestPing, 30_000),
        Type("killall -STOP qemu-ga"), Refused(Freeze), QUERIES[1], Ask(GetGuestInfo), Type("killall -CONT qemu-ga"), AskUntil(GuestPing, 30_000),
        AskUntil(Unfreeze, 20_000),
    ], Unharmed(secs(5))),
    row("daemon killed during a freeze", Running, &[Send(Freeze), Wait(20), Kill(Daemon), AskUntil(Unfreeze, 20_000), AskUntil(GuestPing, 20_000)], Unharmed(secs(5))),
    row("daemon killed while frozen", Running, &[AskUntil(Freeze, 20_000), Kill(Daemon), Wait(4000), AskUntil(Unfreeze, 20_000), AskUntil(GuestPing, 20_000)], Unharmed(secs(5))),
    row("daemon killed during a memory dump", Running, &[Ask(MemoryDump), Reported("Paused/Dump", 10_000), Kill(Daemon), Reported("Running/", 30_000)], Unharmed(secs(10))),

    row("guest agent floods", Running, &[Type(FLOODING_AGENT), Wait(2000), QUERIES[0], QUERIES[1], QUERIES[2], AnswerWithin(GetGuestInfo, 5000), Refused(GuestPing), Ask(Pause), Ask(Unpause), Ask(KillVm)], Ends(DESTROYED, secs(5), secs(15))),
    row("guest agent floods, then a real one is started twice", Running, &[
        Type(FLOODING_AGENT), Wait(2000), Refused(GuestPing), Type(REAL_AGENT_AFTER_FLOOD),
        Type(RESTART_AGENT), AskUntil(GuestPing, 60_000), Ask(GetGuestInfo),
    ], Unharmed(secs(5))),
    row("guest agent floods, then a real one, daemon killed", Running, &[
        Type(FLOODING_AGENT), Wait(2000), Refused(GuestPing), Type(REAL_AGENT_AFTER_FLOOD),
        Wait(5000), Kill(Daemon), AskUntil(GuestPing, 60_000),
    ], Unharmed(secs(5))),
    row("guest agent lies", Running, &[Type(NONSENSE_AGENT), Wait(3000), QUERIES[0], QUERIES[1], QUERIES[2], AnswerWithin(GetGuestInfo, 5000), Refused(Freeze), Ask(Pause), Ask(Unpause), Type(REAL_AGENT), AskUntil(GuestPing, 60_000)], Unharmed(secs(5))),
    row("guest agent answers twice", Running, &[Type(REPEATING_AGENT), Wait(3000), QUERIES[0], QUERIES[1], QUERIES[2], AnswerWithin(GetGuestInfo, 5000), Ask(Pause), Ask(Unpause), Type(REAL_AGENT), AskUntil(GuestPing, 60_000)], Unharmed(secs(5))),
    row("command in the guest prints 100 MB", Running, &[AnswerWithin(ExecFlood, 20_000), QUERIES[0], QUERIES[1], QUERIES[2], AskUntil(GuestPing, 60_000)], Unharmed(secs(5))),
    row("disk full during a memory dump, then another dump", Running, &[Ask(MemoryDumpToFullDisk), DumpFailed("", 30_000), Reported("Running/", 10_000), Ask(Pause), Ask(Unpause), Ask(MemoryDump)], Unharmed(secs(10))).in_pod(TrackedDisk),

    // ---- hotplug ---------------------------------------------------------------------------------------------------
    row("daemon killed during an attach", Running, &[
        Send(AttachDisk), Wait(4), Kill(Daemon), AskUntil(AttachDisk, 30_000), AskUntil(DetachDisk, 30_000),
        Send(AttachDisk), Wait(12), Kill(Daemon), AskUntil(AttachDisk, 30_000), AskUntil(DetachDisk, 30_000),
    ], Unharmed(secs(10))).in_pod(Hotplug),
    row("QEMU hung and daemon killed during an attach", Running, &[Stop(Qemu), Send(AttachDisk), Wait(500), Kill(Daemon), Continue(Qemu), AskUntil(AttachDisk, 30_000), AskUntil(DetachDisk, 30_000)], Unharmed(secs(10))).in_pod(Hotplug),
    row("daemon killed during a detach", Running, &[
        Ask(AttachDisk), Send(DetachDisk), Wait(4), Kill(Daemon), AskUntil(DetachDisk, 30_000),
        AskUntil(AttachDisk, 30_000), Stop(Qemu), Send(DetachDisk), Wait(500), Kill(Daemon), Continue(Qemu), AskUntil(DetachDisk, 30_000),
    ], Unharmed(secs(10))).in_pod(Hotplug),
    row("hotplug of missing, wrong and used images", Running, &[Ask(AttachUnusableDisks), Ask(AttachDisk), Ask(DetachDisk)], Unharmed(secs(5))).in_pod(Hotplug),
    row("hotplug of images in another format", Running, &[Ask(AttachForeignImages), Ask(AttachDisk), Ask(DetachDisk)], Unharmed(secs(5))).in_pod(Hotplug),
    row("guest refuses to let a disk go, then lets it go", Running, &[
        Ask(AttachDisk), Wait(1000), Type(DISABLE_HOTPLUG_EVENTS), Ask(DetachKeptDisk), Ask(DetachKeptDisk), EventReported("DeviceDetachPending", 1),
        QUERIES[0], QUERIES[1], QUERIES[2], Ask(Pause), Ask(Unpause), Type(ENABLE_HOTPLUG_EVENTS), AskUntil(DetachDisk, 30_000), Ask(AttachDisk), AskUntil(DetachDisk, 20_000),
    ], Unharmed(secs(5))).in_pod(Hotplug),
    row("guest does not release a disk", Running, &[Ask(AttachDisk), Stop(Qemu), Send(DetachDisk), Wait(1000), Continue(Qemu), AskUntil(DetachDisk, 20_000), Ask(AttachDisk), Ask(Pause), Send(DetachDisk), Wait(8000), Ask(Unpause), AskUntil(DetachDisk, 20_000)], Unharmed(secs(5))).in_pod(Hotplug),

    // ---- backups ---------------------------------------------------------------------------------------------------
    row("disk full during a backup, then another backup", Running, &[Ask(PushBackupToFullDisk), BackupEnded("No space left on device", 20_000), Ask(Pause), Ask(Unpause), Ask(PushBackup), BackupEnded("", 20_000)], Unharmed(secs(5))).in_pod(TrackedDisk),
    row("daemon killed at the start of a backup", Running, &[Send(PushBackup), Wait(30), Kill(Daemon), Wait(4000), AskUntil(GuestPing, 20_000), AskUntil(PullBackup, 20_000), AskUntil(AbortBackup, 20_000), BackupEndedAnyhow(20_000)], Unharmed(secs(10))).in_pod(TrackedDisk),
    row("daemon killed during a backup", Running, &[Ask(PullBackup), Kill(Daemon), Wait(3000), QUERIES[1], AskUntil(AbortBackup, 20_000), BackupEndedAnyhow(20_000), Ask(PushBackup), BackupEnded("", 20_000)], Unharmed(secs(10))).in_pod(TrackedDisk),
    row("daemon killed during a push", Running, &[Ask(PushBackup), Kill(Daemon), BackupEndedAnyhow(30_000)], Unharmed(secs(10))).in_pod(TrackedDisk),
    row("backup client stops reading", Running, &[Ask(PullBackup), StalledNbdClient, QUERIES[0], QUERIES[1], QUERIES[2], Ask(Sync), AskUntil(AbortBackup, 20_000), BackupEnded("", 20_000)], Unharmed(secs(5))).in_pod(TrackedDisk),
    row("daemon hung, backup aborted", Running, &[Ask(PullBackup), Stop(Daemon), Send(AbortBackup), Wait(3000), Continue(Daemon), BackupEnded("", 20_000)], Unharmed(secs(5))).in_pod(TrackedDisk),
    row("backup aborted while it starts", Running, &[Send(PullBackup), Wait(20), Send(AbortBackup), Wait(300), Cancel(AbortBackup, 10_000), AskUntil(PullBackup, 20_000), Ask(AbortBackup), BackupEndedAnyhow(10_000)], Unharmed(secs(5))).in_pod(TrackedDisk),
    row("guest agent hung, backup", Running, &[Type("killall -STOP qemu-ga"), Ask(PushBackup), BackupEnded("", 30_000), Type("killall -CONT qemu-ga"), AskUntil(GuestPing, 30_000)], Unharmed(secs(5))).in_pod(TrackedDisk),
    row("VM killed during a backup", Running, &[Ask(PullBackup), Ask(KillVm), BackupEnded("the virtual machine is being ended", 10_000)], Ends(DESTROYED, secs(5), secs(15))).in_pod(TrackedDisk),
    row("QEMU killed during a backup", Running, &[Ask(PullBackup), Kill(Qemu), BackupEndedAnyhow(10_000)], Ends(CRASHED, secs(5), secs(15))).in_pod(TrackedDisk),
    row("SIGTERM during a backup", Running, &[Ask(PullBackup), Sigterm], Ends(SHUTDOWN, secs(15), secs(20))).in_pod(TrackedDisk),

    // ---- logs ------------------------------------------------------------------------------------------------------
    row("virtlogd killed, then sync", Ready, &[Kill(Virtlogd), Ask(Sync), ConsoleLogged("GUEST READY", 60_000)], Starts(secs(20))),
    row("virtlogd killed", Running, &[Kill(Virtlogd), Wait(3000), Type("echo still logged"), ConsoleLogged("still logged", 15000)], Unharmed(secs(5))),
    row("virtlogd hung 3 s", Running, &[Stop(Virtlogd), Wait(3000), Ask(Pause), Ask(Unpause), Continue(Virtlogd)], Unharmed(secs(5))),
    row("virtlogd and daemon killed", Running, &[Kill(Virtlogd), Kill(Daemon), Ask(Pause), Ask(Unpause)], Unharmed(secs(10))),
    row("full disk for logs", Ready, &[Ask(Sync)], Starts(secs(20))).in_pod(FullLogs),
    row("full disk for logs, shutdown", Running, &[Ask(Shutdown)], Ends(SHUTDOWN, secs(15), secs(20))).in_pod(FullLogs),

    // ---- launcher and monitor --------------------------------------------------------------------------------------
    row("launcher killed", Starting, &[Kill(Launcher)], Exits(None, secs(15))),
    row("launcher killed", Running, &[Kill(Launcher)], Exits(None, secs(15))),
    row("launcher killed", Paused, &[Kill(Launcher)], Exits(None, secs(15))),
    row("launcher killed", Off, &[Kill(Launcher)], Exits(None, secs(15))),
    row("launcher hung 3 s", Running, &[Stop(Launcher), Wait(3000), Continue(Launcher), Ask(Pause), Ask(Unpause)], Unharmed(secs(5))),
    row("launcher hung while QEMU is killed", Running, &[Stop(Launcher), Kill(Qemu), Wait(2000), Continue(Launcher)], Ends(CRASHED, secs(2), secs(10))),
    row("monitor killed", Running, &[Kill(Monitor)], Exits(None, secs(5))),
    row("monitor hung 3 s", Running, &[Stop(Monitor), Wait(3000), Continue(Monitor)], Unharmed(secs(5))),
    row("second launcher on the same directories", Running, &[SecondLauncher, Ask(Pause), Ask(Unpause)], Unharmed(secs(5))).quick(),
    row("what a dead launcher has left", Running, &[Kill(Launcher), StartAgain], Starts(secs(20))),

    row("command socket removed, virt-handler restarted", Running, &[Remove(&["/var/run/kubevirt/sockets/launcher-sock"]), RestartHandler, Ask(Pause), Reported("Paused/User", 8000), Ask(Unpause)], Unharmed(secs(5))),

    // ---- end of the VM or pod --------------------------------------------------------------------------------------
    row("SIGTERM at once", Spawned(0), &[Sigterm], Exits(Some(0), secs(5))),
    row("SIGTERM after 10 ms", Spawned(10), &[Sigterm], Exits(Some(0), secs(5))),
    row("SIGTERM after 30 ms", Spawned(30), &[Sigterm], Exits(Some(0), secs(5))).quick(),
    row("SIGTERM after 100 ms", Spawned(100), &[Sigterm], Exits(Some(0), secs(10))),
    row("SIGTERM", Ready, &[Sigterm], Exits(Some(0), secs(5))),
    row("SIGTERM", Defined, &[Sigterm], LastReported(ANY_END, secs(27))),
    row("SIGTERM", Starting, &[Sigterm], LastReported(ANY_END, secs(27))).quick(),
    row("SIGTERM", Running, &[Sigterm], Ends(SHUTDOWN, secs(10), secs(15))),
    row("SIGTERM as root", Running, &[Sigterm], Ends(SHUTDOWN, secs(10), secs(15))).in_pod(Root),
    row("SIGTERM three times", Running, &[Sigterm, Wait(100), Sigterm, Wait(1000), Sigterm], Ends(SHUTDOWN, secs(10), secs(15))),
    row("SIGTERM while paused by the user", Paused, &[Sigterm], Ends(ANY_END, secs(10), secs(15))),
    row("SIGTERM", ShuttingDown, &[Sigterm], Ends(SHUTDOWN, secs(10), secs(15))),
    row("SIGTERM, the guest ignores the power button", Running, &[Sigterm], Ends(DESTROYED, secs(7), secs(12))).in_pod(IgnoresPowerButton),
    row("SIGTERM", Off, &[Sigterm], Ends(SHUTDOWN, secs(5), secs(10))),
    row("reset while shutting down", ShuttingDown, &[Send(Reset), Wait(500), Ask(KillVm)], Ends(ANY_END, secs(10), secs(15))).in_pod(IgnoresPowerButton),
    row("delete of a running VM", Running, &[Send(Delete), Wait(1000), Kill(Qemu)], Ends(CRASHED, secs(2), secs(10))),

    // ---- notifications -------------------------------------------------------------------------------------------
    row("notify socket away during the start", Ready, &[Notify(Away), Ask(Sync), Notify(Open)], Starts(secs(10))),
    row("notify server hung during the start", Ready, &[Notify(Hung), Ask(Sync), Notify(Open)], Starts(secs(10))),
    row("slow notify server, a whole start", Ready, &[Notify(Slow(500)), Ask(Sync)], Starts(secs(20))),
    row("slow notify server, pause and unpause", Running, &[Notify(Slow(500)), Ask(Pause), Reported("Paused/User", 5000), Ask(Unpause), Reported("Running/", 5000), Notify(Open)], Unharmed(secs(5))),
    row("notify socket away 10 s at the end", Running, &[Notify(Away), Ask(KillVm), Wait(10_000), Notify(Open)], Ends(DESTROYED, secs(3), secs(25))),
    row("notify socket away 25 s at the end", Running, &[Notify(Away), Ask(KillVm), Wait(25_000), Notify(Open)], Ends(DESTROYED, secs(15), secs(40))),
    row("notify socket away, QEMU killed", Running, &[Notify(Away), Kill(Qemu), Wait(3000), Notify(Open)], Ends(CRASHED, secs(3), secs(25))),
    row("notify server hung, queries", Running, &[Notify(Hung), QUERIES[0], QUERIES[1], QUERIES[2], QUERIES[3], Notify(Open)], Unharmed(secs(5))),
    row("virt-handler restarted", Starting, &[RestartHandler], Starts(secs(10))),
    row("virt-handler restarted", Running, &[RestartHandler, Ask(Sync), Ask(Pause), Reported("Paused/User", 8000), Ask(Unpause)], Unharmed(secs(5))).quick(),
    row("virt-handler restarted", ShuttingDown, &[RestartHandler], Ends(SHUTDOWN, secs(15), secs(20))),
    row("virt-handler restarted", Off, &[RestartHandler], Ends("NoState/", secs(10), secs(15))),

    // ---- clients ---------------------------------------------------------------------------------------------------
    row("sync cancelled after 50 ms", Ready, &[Cancel(Sync, 50), Ask(Sync)], Starts(secs(20))),
    row("five syncs cancelled", Ready, &[Cancel(Sync, 20), Cancel(Sync, 100), Cancel(Sync, 200), Cancel(Sync, 50), Cancel(Sync, 10)], Starts(secs(20))),
    row("pause cancelled at once", Running, &[Cancel(Pause, 1), Reported("Paused/User", 5000), Ask(Unpause)], Unharmed(secs(5))),
    row("100 clients, 2000 commands", Running, &[Clients(100, 20)], Unharmed(secs(5))),
    row("client with another :authority", Running, &[ForeignAuthority], Unharmed(secs(5))),
    row("clients that talk no HTTP/2", Running, &[Garbage(100)], Unharmed(secs(5))),
];
