//! What may differ from the recorded answers, and why: values of the moment and of the machine, and intended differences.

use std::collections::BTreeSet;

use serde_json::Value;

use super::RecordedCall;
use super::call_pattern::{CallPattern, call, every};
use super::comparison::{Rule, Strictness, compare};

const fn rule(path: &'static str, strictness: Strictness, reason: &'static str) -> Rule {
    Rule {
        path,
        strictness,
        reason,
    }
}

const MOMENT: &str = "a value of the moment";
const MACHINE: &str = "a value of the machine, its QEMU or its guest";

/// Statistics of a domain, below `V` or `DomainStats`.
const STATISTICS: &[Rule] = &[
    rule("*.Cpu.Time", Strictness::Unit, MOMENT),
    rule("*.Cpu.User", Strictness::Unit, MOMENT),
    rule("*.Cpu.System", Strictness::Unit, MOMENT),
    rule("*.Memory.Unused", Strictness::Unit, MOMENT),
    rule("*.Memory.Cached", Strictness::Unit, MOMENT),
    rule("*.Memory.Available", Strictness::Unit, MACHINE),
    rule("*.Memory.RSS", Strictness::Unit, MOMENT),
    rule("*.Memory.MajorFault", Strictness::Type, MOMENT),
    rule("*.Memory.MinorFault", Strictness::Type, MOMENT),
    rule("*.Memory.Usable", Strictness::Unit, MOMENT),
    rule("*.Vcpu.0.State", Strictness::Type, MOMENT),
    rule("*.Vcpu.0.Time", Strictness::Unit, MOMENT),
    rule("*.Vcpu.0.Wait", Strictness::Type, MOMENT),
    rule("*.Vcpu.0.Delay", Strictness::Type, MOMENT),
    rule("*.Block.*.RdReqs", Strictness::Type, MOMENT),
    rule("*.Block.*.RdBytes", Strictness::Type, MOMENT),
    rule("*.Block.*.RdTimes", Strictness::Type, MOMENT),
    rule("*.Block.*.WrReqs", Strictness::Type, MOMENT),
    rule("*.Block.*.WrBytes", Strictness::Type, MOMENT),
    rule("*.Block.*.WrTimes", Strictness::Type, MOMENT),
    rule("*.Block.*.FlReqs", Strictness::Type, MOMENT),
    rule("*.Block.*.FlTimes", Strictness::Type, MOMENT),
    rule("*.Block.*.Allocation", Strictness::Type, MOMENT),
    rule("*.Block.*.Physical", Strictness::Type, MACHINE),
    rule("*.CPUMap", Strictness::Elements, MACHINE),
];

const SLOTS: &str = "the played VM has another number of devices on PCI";

const DOMAIN: &[Rule] = &[
    rule("V.Spec.Devices.Ballooning.Address", Strictness::Type, SLOTS),
    rule(
        "V.Spec.Devices.Controllers.*.Address",
        Strictness::Type,
        SLOTS,
    ),
    rule("V.Spec.Devices.Disks.*.Address", Strictness::Type, SLOTS),
    rule("V.Spec.Devices.Controllers.pci_6", Strictness::Any, SLOTS),
    rule("V.Spec.Devices.Controllers.pci_7", Strictness::Any, SLOTS),
    rule("V.Spec.Devices.Controllers.pci_8", Strictness::Any, SLOTS),
    rule("V.Spec.Devices.Controllers.pci_9", Strictness::Any, SLOTS),
    rule("V.Spec.Devices.Controllers.pci_10", Strictness::Any, SLOTS),
    rule("V.Spec.Devices.Controllers.pci_11", Strictness::Any, SLOTS),
    rule("V.Spec.Devices.Controllers.pci-6", Strictness::Any, SLOTS),
    rule("V.Spec.OS.Type.Machine", Strictness::Unversioned, MACHINE),
    rule("V.Spec.OS.Kernel", Strictness::Type, MACHINE),
    rule("V.Spec.OS.Initrd", Strictness::Type, MACHINE),
    rule("V.Spec.OS.KernelArgs", Strictness::Type, MACHINE),
    rule("V.Spec.CPU.Model", Strictness::Type, MACHINE),
    rule("V.Spec.CPU.Features", Strictness::Elements, MACHINE),
    rule("V.Status.OSInfo.KernelRelease", Strictness::Type, MACHINE),
    rule("V.Status.OSInfo.KernelVersion", Strictness::Type, MACHINE),
    rule(
        "V.Spec.Metadata.KubeVirt.GracePeriod.DeletionTimestamp",
        Strictness::Type,
        MOMENT,
    ),
];

const GUEST_INFO: &[Rule] = &[
    rule("supportedCommands", Strictness::Common, MACHINE),
    rule("os.kernelRelease", Strictness::Type, MACHINE),
    rule("os.kernelVersion", Strictness::Type, MACHINE),
    rule("guestAgentVersion", Strictness::Type, MACHINE),
    rule("fsInfo.disks.*.usedBytes", Strictness::Unit, MACHINE),
    rule("fsInfo.disks.*.totalBytes", Strictness::Unit, MACHINE),
];

const VERSION: &[Rule] = &[rule("", Strictness::Type, MACHINE)];
const DIRTY_RATE: &[Rule] = &[rule("", Strictness::Type, MOMENT)];
const SCREENSHOT: &[Rule] = &[rule("bytes", Strictness::Unit, MOMENT)];

const FILE_SYSTEMS: &[Rule] = &[
    rule("items.*.usedBytes", Strictness::Unit, MACHINE),
    rule("items.*.totalBytes", Strictness::Unit, MACHINE),
];

const VM_STATS: &[Rule] = &[
    rule("GuestAgentVersion", Strictness::Type, MACHINE),
    rule("GuestGetCpuStats.return", Strictness::Elements, MOMENT),
    rule("GuestGetDiskStats.return.*.stats", Strictness::Type, MOMENT),
    rule("GuestGetTime.return", Strictness::Unit, MOMENT),
    rule(
        "GuestGetOsInfo.return.kernel-release",
        Strictness::Type,
        MACHINE,
    ),
    rule(
        "GuestGetOsInfo.return.kernel-version",
        Strictness::Type,
        MACHINE,
    ),
    rule("GuestGetDisks.return", Strictness::Elements, MACHINE),
    rule("GuestGetMemoryBlocks.return", Strictness::Elements, MACHINE),
    rule(
        "GuestNetworkGetInterfaces.return.*.statistics",
        Strictness::Type,
        MOMENT,
    ),
    rule(
        "GuestNetworkGetInterfaces.return.lo.ip-addresses",
        Strictness::Any,
        LOOPBACK,
    ),
    rule(
        "GuestNetworkGetInterfaces.return.lo.statistics",
        Strictness::Any,
        LOOPBACK,
    ),
    rule(
        "GuestNetworkGetInterfaces.return.eth0",
        Strictness::Any,
        NIC,
    ),
];

const LOOPBACK: &str = "the guest's loopback interface may be down";
const NIC: &str = "the recorded VM has an interface that a sidecar put into it";

/// The rules about the calls of a method.
const OF_METHODS: &[(CallPattern, &[Rule])] = &[
    (every("getdomain"), DOMAIN),
    (every("getdomainstats"), STATISTICS),
    (every("guestinfo"), GUEST_INFO),
    (every("filesystems"), FILE_SYSTEMS),
    (every("vmstats"), VM_STATS),
    (every("vmstats"), STATISTICS),
    (every("qemuversion"), VERSION),
    (every("dirtyrate"), DIRTY_RATE),
    (every("screenshot"), SCREENSHOT),
];

/// The rules about single calls.
const OF_CALLS: &[(CallPattern, Rule)] = &[
    (
        call("02-answers", 17, "getdomain"),
        rule("V.Spec.Devices.Interfaces", Strictness::Any, NIC),
    ),
    (
        call("02-answers", 17, "getdomain"),
        rule("V.Status.Interfaces", Strictness::Any, NIC),
    ),
    (
        call("02-answers", 18, "getdomainstats"),
        rule("V.Net", Strictness::Is("[]"), NIC),
    ),
    (
        call("02-answers", 20, "vmstats"),
        rule("DomainStats.Net", Strictness::Is("[]"), NIC),
    ),
    (
        call("02-answers", 20, "vmstats"),
        rule("DomainStats.DirtyRate", Strictness::Type, MOMENT),
    ),
    (
        call("02-vmstats", 2, "vmstats"),
        rule("DomainStats.DirtyRate", Strictness::Type, ONE_VM),
    ),
    (
        call("02-answers", 20, "vmstats"),
        rule("DirtyRateMbps", Strictness::Type, MOMENT),
    ),
    (
        call("02-vmstats", 2, "vmstats"),
        rule("DomainStats.Net", Strictness::Is("[]"), NIC),
    ),
    (
        call("02-answers", 9, "exec"),
        rule(
            "exitCode",
            Strictness::Is("137"),
            "docs/command-service.md, Exec: a signal counts as 128 plus its number, so that a probe whose command is killed fails",
        ),
    ),
    (
        call("02-answers", 16, "exec"),
        rule("stdout", Strictness::Type, MOMENT),
    ),
    (
        call("04-pause", 1, "exec"),
        rule("stdout", Strictness::Type, MOMENT),
    ),
    (
        call("04-pause", 12, "getdomainstats"),
        rule("V.DirtyRate", Strictness::Type, ONE_VM),
    ),
    (
        call("06-memorydump", 4, "getdomain"),
        rule(
            "V.Spec.Metadata.KubeVirt.Migration",
            Strictness::Is("null"),
            "KubeVirt's launcher takes the pause of a dump for a migration's",
        ),
    ),
    (
        call("06-memorydump", 4, "getdomain"),
        rule(
            "V.Spec.Metadata.KubeVirt.MemoryDump.StartTimestamp",
            Strictness::Type,
            MOMENT,
        ),
    ),
    (
        call("06-memorydump", 4, "getdomain"),
        rule(
            "V.Spec.Metadata.KubeVirt.MemoryDump.EndTimestamp",
            Strictness::Type,
            MOMENT,
        ),
    ),
    (
        call("06-memorydump", 4, "getdomain"),
        rule(
            "V.Spec.Metadata.KubeVirt.MemoryDump.FailureReason",
            Strictness::Is(
                r#""Domain memory dump failed: /nonexistent is not a writable directory (No such file or directory (os error 2)); is its volume attached?""#,
            ),
            "docs/command-service.md, VirtualMachineMemoryDump: a directory that is missing fails the dump without a pause",
        ),
    ),
    (
        call("06-memorydump", 4, "getdomain"),
        rule("V.Spec.Devices.Disks.data", Strictness::Any, ONE_VM),
    ),
    (
        call("08-backup", 8, "getdomain"),
        rule(DUMP, Strictness::Any, ONE_VM),
    ),
    (
        call("08-backup", 11, "getdomain"),
        rule(DUMP, Strictness::Any, ONE_VM),
    ),
    (
        call("08-backup-pull", 2, "getdomain"),
        rule(DUMP, Strictness::Any, ONE_VM),
    ),
    (
        call("08-backup-pull", 6, "getdomain"),
        rule(DUMP, Strictness::Any, ONE_VM),
    ),
    (
        call("08-backup-pull", 6, "getdomain"),
        rule(
            "V.Spec.Metadata.KubeVirt.Backup.EndTimestamp",
            Strictness::Type,
            MOMENT,
        ),
    ),
    (
        call("09-shutdown", 2, "getdomain"),
        rule("V.Spec.Devices.Disks.data", Strictness::Any, ONE_VM),
    ),
    (
        call("09-shutdown", 2, "getdomain"),
        rule(DUMP, Strictness::Any, ONE_VM),
    ),
    (
        call("09-shutdown", 2, "getdomain"),
        rule("V.Spec.Metadata.KubeVirt.Backup", Strictness::Any, ONE_VM),
    ),
];

const DUMP: &str = "V.Spec.Metadata.KubeVirt.MemoryDump";
const ONE_VM: &str = "the topics are played on one VM";

/// All rules, each with its calls.
fn all() -> impl Iterator<Item = (CallPattern, Rule)> {
    let of_methods = OF_METHODS
        .iter()
        .flat_map(|(calls, rules)| rules.iter().map(|rule| (*calls, *rule)));
    of_methods.chain(OF_CALLS.iter().copied())
}

fn title(calls: CallPattern, rule: &Rule) -> String {
    format!("{calls}, {}", rule.path)
}

/// The titles of all rules.
pub(super) fn titles() -> impl Iterator<Item = String> {
    all().map(|(calls, rule)| title(calls, &rule))
}

/// The differences between what a call was answered and ours, by the rules for the call and `further` ones. The titles of
/// the former that were needed go to `needed`.
pub(super) fn differences(
    call: &RecordedCall,
    recorded: &Value,
    ours: &Value,
    further: &[Rule],
    needed: &mut BTreeSet<String>,
) -> Vec<String> {
    let (titles, mut rules): (Vec<String>, Vec<Rule>) = all()
        .filter(|(calls, _)| calls.matches(call))
        .map(|(calls, rule)| (title(calls, &rule), rule))
        .unzip();
    rules.extend(further);
    let findings = compare(recorded, ours, &rules);
    let needed_rules = findings.needed_rules.iter();
    needed.extend(needed_rules.filter_map(|index| titles.get(*index).cloned()));
    findings.differences
}
