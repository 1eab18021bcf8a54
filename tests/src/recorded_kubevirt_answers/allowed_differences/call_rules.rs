//! The rules for single calls.

use super::{MOMENT, NIC, rule};
use crate::recorded_kubevirt_answers::call_pattern::{CallPattern, call};
use crate::recorded_kubevirt_answers::comparison::{Rule, Strictness};

/// The rules for single calls.
pub(super) const CALL_RULES: &[(CallPattern, Rule)] = &[
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
        rule(MEMORY_DUMP_PATH, Strictness::Any, ONE_VM),
    ),
    (
        call("08-backup", 11, "getdomain"),
        rule(MEMORY_DUMP_PATH, Strictness::Any, ONE_VM),
    ),
    (
        call("08-backup-pull", 2, "getdomain"),
        rule(MEMORY_DUMP_PATH, Strictness::Any, ONE_VM),
    ),
    (
        call("08-backup-pull", 6, "getdomain"),
        rule(MEMORY_DUMP_PATH, Strictness::Any, ONE_VM),
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
        rule(MEMORY_DUMP_PATH, Strictness::Any, ONE_VM),
    ),
    (
        call("09-shutdown", 2, "getdomain"),
        rule("V.Spec.Metadata.KubeVirt.Backup", Strictness::Any, ONE_VM),
    ),
];

const MEMORY_DUMP_PATH: &str = "V.Spec.Metadata.KubeVirt.MemoryDump";

const ONE_VM: &str = "the topics are played on one VM";
