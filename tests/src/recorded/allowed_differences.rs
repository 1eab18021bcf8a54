//! What may differ from the recordings, and why: values of the moment and of the machine, the contract's improvements,
//! and calls that are not made again.

use super::compare::{How, Rule};
use super::{Outcome, RecordedCall};

const fn rule(path: &'static str, how: How, reason: &'static str) -> Rule {
    Rule { path, how, reason }
}

const MOMENT: &str = "a value of the moment";
const MACHINE: &str = "a value of the machine, its QEMU or its guest";

/// Statistics of a domain, below `V` or `DomainStats`.
const STATISTICS: &[Rule] = &[
    rule("*.Cpu.Time", How::Unit, MOMENT),
    rule("*.Cpu.User", How::Unit, MOMENT),
    rule("*.Cpu.System", How::Unit, MOMENT),
    rule("*.Memory.Unused", How::Unit, MOMENT),
    rule("*.Memory.Cached", How::Unit, MOMENT),
    rule("*.Memory.Available", How::Unit, MACHINE),
    rule("*.Memory.RSS", How::Unit, MOMENT),
    rule("*.Memory.MajorFault", How::Type, MOMENT),
    rule("*.Memory.MinorFault", How::Type, MOMENT),
    rule("*.Memory.Usable", How::Unit, MOMENT),
    rule("*.Vcpu.0.State", How::Type, MOMENT),
    rule("*.Vcpu.0.Time", How::Unit, MOMENT),
    rule("*.Vcpu.0.Wait", How::Type, MOMENT),
    rule("*.Vcpu.0.Delay", How::Type, MOMENT),
    rule("*.Block.*.RdReqs", How::Type, MOMENT),
    rule("*.Block.*.RdBytes", How::Type, MOMENT),
    rule("*.Block.*.RdTimes", How::Type, MOMENT),
    rule("*.Block.*.WrReqs", How::Type, MOMENT),
    rule("*.Block.*.WrBytes", How::Type, MOMENT),
    rule("*.Block.*.WrTimes", How::Type, MOMENT),
    rule("*.Block.*.FlReqs", How::Type, MOMENT),
    rule("*.Block.*.FlTimes", How::Type, MOMENT),
    rule("*.Block.*.Allocation", How::Type, MOMENT),
    rule("*.Block.*.Physical", How::Type, MACHINE),
    rule("*.CPUMap", How::Elements, MACHINE),
];

const SLOTS: &str = "the played VM has another number of devices on PCI";

const DOMAIN: &[Rule] = &[
    rule("V.Spec.Devices.Ballooning.Address", How::Type, SLOTS),
    rule("V.Spec.Devices.Controllers.*.Address", How::Type, SLOTS),
    rule("V.Spec.Devices.Disks.*.Address", How::Type, SLOTS),
    rule("V.Spec.Devices.Controllers.pci_6", How::Any, SLOTS),
    rule("V.Spec.Devices.Controllers.pci_7", How::Any, SLOTS),
    rule("V.Spec.Devices.Controllers.pci_8", How::Any, SLOTS),
    rule("V.Spec.Devices.Controllers.pci_9", How::Any, SLOTS),
    rule("V.Spec.Devices.Controllers.pci_10", How::Any, SLOTS),
    rule("V.Spec.Devices.Controllers.pci_11", How::Any, SLOTS),
    rule("V.Spec.Devices.Controllers.pci-6", How::Any, SLOTS),
    rule("V.Spec.OS.Kernel", How::Type, MACHINE),
    rule("V.Spec.OS.Initrd", How::Type, MACHINE),
    rule("V.Spec.OS.KernelArgs", How::Type, MACHINE),
    rule("V.Spec.CPU.Model", How::Type, MACHINE),
    rule("V.Spec.CPU.Features", How::Elements, MACHINE),
    rule("V.Status.OSInfo.KernelRelease", How::Type, MACHINE),
    rule("V.Status.OSInfo.KernelVersion", How::Type, MACHINE),
    rule(
        "V.Spec.Metadata.KubeVirt.GracePeriod.DeletionTimestamp",
        How::Type,
        MOMENT,
    ),
];

const GUEST_INFO: &[Rule] = &[
    rule("supportedCommands", How::Elements, MACHINE),
    rule("os.kernelRelease", How::Type, MACHINE),
    rule("os.kernelVersion", How::Type, MACHINE),
    rule("guestAgentVersion", How::Type, MACHINE),
    rule("fsInfo.disks.*.usedBytes", How::Unit, MACHINE),
    rule("fsInfo.disks.*.totalBytes", How::Unit, MACHINE),
];

const VERSION: &[Rule] = &[rule("", How::Type, MACHINE)];
const DIRTY_RATE: &[Rule] = &[rule("", How::Type, MOMENT)];
const SCREENSHOT: &[Rule] = &[rule("bytes", How::Unit, MOMENT)];

const FILE_SYSTEMS: &[Rule] = &[
    rule("items.*.usedBytes", How::Unit, MACHINE),
    rule("items.*.totalBytes", How::Unit, MACHINE),
];

const VM_STATS: &[Rule] = &[
    rule("GuestAgentVersion", How::Type, MACHINE),
    rule("GuestGetCpuStats.return", How::Elements, MOMENT),
    rule("GuestGetDiskStats.return.*.stats", How::Type, MOMENT),
    rule("GuestGetTime.return", How::Unit, MOMENT),
    rule("GuestGetOsInfo.return.kernel-release", How::Type, MACHINE),
    rule("GuestGetOsInfo.return.kernel-version", How::Type, MACHINE),
    rule("GuestGetDisks.return", How::Elements, MACHINE),
    rule("GuestGetMemoryBlocks.return", How::Elements, MACHINE),
    rule(
        "GuestNetworkGetInterfaces.return.*.statistics",
        How::Type,
        MOMENT,
    ),
    rule(
        "GuestNetworkGetInterfaces.return.lo.ip-addresses",
        How::Any,
        LOOPBACK,
    ),
    rule(
        "GuestNetworkGetInterfaces.return.lo.statistics",
        How::Any,
        LOOPBACK,
    ),
    rule("GuestNetworkGetInterfaces.return.eth0", How::Any, NIC),
];

const LOOPBACK: &str = "the guest's loopback interface may be down";
const NIC: &str = "the recorded VM has an interface that a sidecar put into it";

/// The rules for a call.
pub fn rules(call: &RecordedCall) -> Vec<Rule> {
    let of_method: &[&[Rule]] = match call.method.as_str() {
        "getdomain" => &[DOMAIN],
        "getdomainstats" => &[STATISTICS],
        "guestinfo" => &[GUEST_INFO],
        "filesystems" => &[FILE_SYSTEMS],
        "vmstats" => &[VM_STATS, STATISTICS],
        "qemuversion" => &[VERSION],
        "dirtyrate" => &[DIRTY_RATE],
        "screenshot" => &[SCREENSHOT],
        _ => &[],
    };
    let of_call = DIFFERENCES.iter().filter(|one| one.call.is(call));
    let of_method = of_method.iter().flat_map(|rules| rules.iter().copied());
    of_method.chain(of_call.map(|one| one.rule)).collect()
}

/// Which calls an entry is about.
#[derive(Clone, Copy, Debug)]
struct Calls {
    topic: &'static str,
    method: &'static str,
    /// Part of the arguments, joined by spaces.
    args: &'static str,
}

impl Calls {
    fn is(&self, call: &RecordedCall) -> bool {
        (self.topic == "*" || self.topic == call.topic)
            && self.method == call.method
            && call.args.join(" ").contains(self.args)
    }
}

const fn calls(topic: &'static str, method: &'static str, args: &'static str) -> Calls {
    Calls {
        topic,
        method,
        args,
    }
}

/// An intended difference in the content of an answer.
struct Difference {
    call: Calls,
    rule: Rule,
}

const fn difference(call: Calls, path: &'static str, reason: &'static str) -> Difference {
    let rule = rule(path, How::Any, reason);
    Difference { call, rule }
}

const DIFFERENCES: &[Difference] = &[
    difference(
        calls("02-answers", "getdomain", ""),
        "V.Spec.Devices.Interfaces",
        NIC,
    ),
    difference(
        calls("02-answers", "getdomain", ""),
        "V.Status.Interfaces",
        NIC,
    ),
    difference(calls("02-answers", "getdomainstats", ""), "V.Net", NIC),
    difference(
        calls("02-vmstats", "vmstats", "domainStats"),
        "DomainStats.Net",
        NIC,
    ),
    difference(
        calls("02-answers", "exec", "kill -9"),
        "exitCode",
        "docs/commands.md: a signal counts as 128 plus its number, so that a probe whose command is killed fails",
    ),
    difference(calls("*", "exec", "/bin/date"), "stdout", MOMENT),
    difference(
        calls("04-pause", "getdomainstats", ""),
        "V.DirtyRate",
        ONE_VM,
    ),
    difference(
        calls("06-memorydump", "getdomain", ""),
        "V.Spec.Metadata.KubeVirt.Migration",
        "launcher.md, notifications: no bogus migration record after a pause",
    ),
    difference(
        calls("06-memorydump", "getdomain", ""),
        "V.Spec.Metadata.KubeVirt.MemoryDump.StartTimestamp",
        MOMENT,
    ),
    difference(
        calls("06-memorydump", "getdomain", ""),
        "V.Spec.Metadata.KubeVirt.MemoryDump.EndTimestamp",
        MOMENT,
    ),
    difference(
        calls("06-memorydump", "getdomain", ""),
        "V.Spec.Metadata.KubeVirt.MemoryDump.FailureReason",
        "docs/commands.md: a directory that is missing fails the dump without a pause",
    ),
    difference(
        calls("06-memorydump", "getdomain", ""),
        "V.Spec.Devices.Disks.data",
        ONE_VM,
    ),
    difference(
        calls("09-shutdown", "getdomain", ""),
        "V.Spec.Devices.Disks.data",
        ONE_VM,
    ),
    difference(
        calls("08-backup", "getdomain", ""),
        "V.Spec.Metadata.KubeVirt.MemoryDump",
        ONE_VM,
    ),
    difference(
        calls("09-shutdown", "getdomain", ""),
        "V.Spec.Metadata.KubeVirt.MemoryDump",
        ONE_VM,
    ),
    difference(
        calls("09-shutdown", "getdomain", ""),
        "V.Spec.Metadata.KubeVirt.Backup",
        ONE_VM,
    ),
    difference(
        calls("08-backup-pull", "getdomain", ""),
        "V.Spec.Metadata.KubeVirt.MemoryDump",
        ONE_VM,
    ),
    difference(
        calls("08-backup-pull", "getdomain", ""),
        "V.Spec.Metadata.KubeVirt.Backup.EndTimestamp",
        MOMENT,
    ),
];

const ONE_VM: &str = "the topics are played on one VM";

/// An intended difference in whether a call succeeds, or in the message of its refusal.
struct OtherOutcome {
    call: Calls,
    /// Whether ours may succeed.
    may_succeed: bool,
    /// Whether ours may be a refusal with this text in its message.
    refusal: Option<&'static str>,
    reason: &'static str,
}

const fn succeeds(call: Calls, reason: &'static str) -> OtherOutcome {
    OtherOutcome {
        call,
        may_succeed: true,
        refusal: None,
        reason,
    }
}

const fn fails(call: Calls, text: &'static str, reason: &'static str) -> OtherOutcome {
    OtherOutcome {
        call,
        may_succeed: false,
        refusal: Some(text),
        reason,
    }
}

const fn either(call: Calls, text: &'static str, reason: &'static str) -> OtherOutcome {
    OtherOutcome {
        call,
        may_succeed: true,
        refusal: Some(text),
        reason,
    }
}

const OTHER_OUTCOMES: &[OtherOutcome] = &[
    succeeds(
        calls("02-answers", "vmstats", "dirtyRate"),
        "running.md 6.3: the dirty rate is that of its own calculation, the first one included",
    ),
    succeeds(
        calls("02-answers", "exec", "head -c 200000"),
        "KubeVirt's launcher puts the arguments into the agent's command without escaping them",
    ),
    succeeds(
        calls("02-answers", "exec", "printf"),
        "KubeVirt's launcher puts the arguments into the agent's command without escaping them",
    ),
    succeeds(
        calls("04-pause", "guestping", ""),
        "running.md 3: a paused guest is forgiven, better than Code=55",
    ),
    either(
        calls("02-vmstats", "vmstats", "guestGetLoad"),
        "agent data guest-",
        "a newer agent knows the load",
    ),
    either(
        calls("02-vmstats", "vmstats", "guestNetworkGetRoute"),
        "agent data guest-",
        "a newer agent knows the routes",
    ),
    fails(
        calls("02-answers", "launchmeasurement", ""),
        "no SEV",
        "docs/commands.md: a guest without SEV is named, instead of a file without a name",
    ),
];

/// The differences between a recorded call and ours, one line each.
pub fn compare(call: &RecordedCall, ours: &Outcome) -> Vec<String> {
    let title = call.title();
    if let Some(other) = OTHER_OUTCOMES.iter().find(|one| one.call.is(call)) {
        let is_expected = match ours {
            Outcome::Answered(_) => other.may_succeed,
            Outcome::Refused(message, _) | Outcome::GrpcError(message) => {
                other.refusal.is_some_and(|text| message.contains(text))
            }
            Outcome::Lost(_) => false,
        };
        let problem = format!("{title}: {ours:?}, although {}", other.reason);
        return if is_expected {
            Vec::new()
        } else {
            vec![problem]
        };
    }
    let differences = |recorded, ours| super::compare::differences(recorded, ours, &rules(call));
    let found = match (&call.outcome, ours) {
        (Outcome::Answered(recorded), Outcome::Answered(ours)) => differences(recorded, ours),
        (Outcome::Refused(recorded, result), Outcome::Refused(message, ours)) => {
            let mut found = differences(result, ours);
            found.extend(other_message(recorded, message));
            found
        }
        (Outcome::GrpcError(recorded), Outcome::GrpcError(message)) => {
            other_message(recorded, message).into_iter().collect()
        }
        (recorded, ours) => vec![format!("recorded {recorded:?}, ours {ours:?}")],
    };
    found.iter().map(|one| format!("{title}: {one}")).collect()
}

/// The same of another VM: names, types and presence of the fields.
pub fn compare_shape(call: &RecordedCall, ours: &Outcome) -> Vec<String> {
    const OTHER_VM: &str = "another VM";
    let (Outcome::Answered(recorded), Outcome::Answered(ours)) = (&call.outcome, ours) else {
        return vec![format!("{}: no answer", call.title())];
    };
    let shape = [
        rule("V", How::Type, OTHER_VM),
        rule("V.Spec.Devices.*", How::Elements, OTHER_VM),
        rule("V.Spec.SysInfo.System", How::Elements, OTHER_VM),
        rule(
            "V.Spec.Resource",
            How::Any,
            "only a libvirt that runs as root has partitions",
        ),
    ];
    let rules: Vec<Rule> = rules(call).into_iter().chain(shape).collect();
    let found = super::compare::differences(recorded, ours, &rules);
    found
        .iter()
        .map(|one| format!("{}: {one}", call.title()))
        .collect()
}

/// Numbers in messages are those of processes of the guest.
fn other_message(recorded: &str, ours: &str) -> Option<String> {
    let without_pid = |text: &str| match text.split_once("guest pid [") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
            format!("{before}guest pid [{rest}")
        }
        None => text.to_owned(),
    };
    let differs = without_pid(recorded) != without_pid(ours);
    differs.then(|| format!("message: recorded {recorded}, ours {ours}"))
}

/// Calls of played topics that are not made again.
struct Skipped {
    call: Calls,
    reason: &'static str,
}

const SKIPPED: &[Skipped] = &[
    Skipped {
        call: calls("04-pause", "exec", "/bin/date"),
        reason: "whether the agent is back after the reboot is a matter of the moment",
    },
    Skipped {
        call: calls("08-backup", "exec", "mount"),
        reason: "the recorded disk has a file system",
    },
    Skipped {
        call: calls("08-backup", "backup", "bk4"),
        reason: "QEMU may bind its socket here, as in 08-backup-pull",
    },
];

/// Topics that are not played again, and where their answers are checked.
pub const ELSEWHERE: &[(&str, &str)] = &[
    ("01-boot-1", "e2e vm_lifecycle: the one call is a sync"),
    ("01-boot-2", "the same"),
    ("01-boot-3", "the same"),
    (
        "02-agent-killed",
        "how long calls block; the rows `guest agent hung` of the fault matrix, to do better",
    ),
    (
        "04-guesttime",
        "e2e guest_agent and tests of guest_time: the guest's clock, not answers",
    ),
    ("04-guesttime-hwclock", "the same"),
    ("04-guesttime-long", "the same"),
    ("05-reboot", "e2e vm_lifecycle: the answers are successes"),
    ("05-softreboot-agent", "the same"),
    (
        "07-cpuhotplug",
        "e2e cpu_and_memory: the answers are successes, and the recorded refusals",
    ),
    (
        "07-memhotplug-slots4",
        "e2e cpu_and_memory, with the shape of the recorded domain",
    ),
    (
        "08-hotplug-slots4",
        "e2e hotplug_volumes, with the shape of the recorded domain",
    ),
    (
        "09-guestpoweroff",
        "e2e vm_lifecycle; the message is that of 03-freeze",
    ),
    (
        "09-shutdown-noacpi",
        "rows `the guest is deaf` of the fault matrix",
    ),
    (
        "09-shutdown-nodelete",
        "e2e vm_lifecycle: the one answer is a success",
    ),
    ("10-sigterm", "rows `SIGTERM` of the fault matrix"),
    ("10-sigterm-handler", "the same"),
    (
        "11-kill-virtqemud",
        "rows `daemon killed` of the fault matrix: a query during the restart succeeds",
    ),
    (
        "12-notify-missing",
        "rows `notify socket away` of the fault matrix",
    ),
    ("12-notify-missing-shutdown", "the same"),
    ("20-latency", "scripts/measure"),
];

/// Why a call of a played topic is not made.
pub fn skipped(call: &RecordedCall) -> Option<&'static str> {
    if matches!(call.outcome, Outcome::Lost(_)) {
        return Some("no answer was recorded");
    }
    let skipped = SKIPPED.iter().find(|one| one.call.is(call));
    skipped.map(|one| one.reason)
}
