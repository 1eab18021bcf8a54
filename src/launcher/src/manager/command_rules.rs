//! The table of rules that decides which commands run concurrently.

/// A command without its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Sync,
    SyncMigrationTarget,
    FinalizeMigration,
    Pause,
    Unpause,
    SetCpus,
    SetMemory,
    AttachHostDevices,
    Reset,
    SoftReboot,
    Shutdown,
    Freeze,
    Unfreeze,
    MemoryDump,
    Migrate,
    CancelMigration,
    StartBackup,
    ExportBackup,
    AbortBackup,
    RedefineCheckpoint,
    Kill,
    Delete,
}

/// A resource that only one command holds at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    /// The domain: its definition, its devices and its vCPUs.
    Domain,
    /// The guest, through its agent or its power button; apart from the domain, so that a hung guest delays nothing
    /// else.
    Guest,
    /// The guest's file systems, through its agent.
    Filesystems,
    /// The start of a job. The job itself continues beside other commands.
    Job,
    /// The abort of a job. It does not wait for the start of a job.
    JobAbort,
    /// The end of the VM: no other command may start during it.
    End,
}

/// What happens to a command while another of its kind runs or waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::enum_variant_names,
    reason = "each rule joins first; they differ in what happens otherwise"
)]
pub(super) enum Repeat {
    /// The command joins the last command that holds one of its resources, if that is of its kind: pause, unpause,
    /// pause run as three commands.
    JoinLast,
    /// The command describes the desired VM, so it joins an equal command, and replaces a different one that waits.
    JoinOrReplace,
    /// The command joins an equal command, and waits for a different one.
    JoinOrQueue,
    /// The command joins the last command that holds one of its resources, if both are equal. It is refused if they are
    /// of the same kind and differ: its caller would take the other's success for that of its own arguments.
    JoinOrRefuse,
}

/// A condition of the VM under which a command is denied at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// virt-handler has not accepted a notification that the started VM is alive.
    StartUnreported,
    /// The domain existed and is gone.
    Gone,
    /// The VM is to arrive by a migration that has not ended.
    AwaitsMigration,
    /// The VM is to arrive by a migration, and its guest does not run here yet: libvirt would let the command wait for
    /// the migration, and then change the guest, which the source may still take back.
    NotArrived,
    /// The VM migrates to another pod. libvirt would let the command wait for half a minute, and then refuse it.
    MigratesAway,
}

/// One row of the table: the rule of one kind of command.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) kind: Kind,
    /// The command's name in log lines.
    pub(super) name: &'static str,
    /// The resources that the command holds.
    pub(super) holds: &'static [Resource],
    /// The resources that must be free before the command starts; commands requested earlier take them first.
    pub(super) waits_for: &'static [Resource],
    pub(super) repeat: Repeat,
    pub(super) denied_while: &'static [Condition],
}

use Resource::{Domain, End, Filesystems, Guest, Job, JobAbort};

/// The rules, one for each kind, in the order of [`Kind`].
#[rustfmt::skip]
pub(super) const RULES: [Rule; 22] = [
    rule(Kind::Sync, "sync", &[Domain], &[Domain, End], Repeat::JoinOrReplace, &[Condition::Gone, Condition::AwaitsMigration]),
    rule(Kind::SyncMigrationTarget, "sync migration target", &[Domain], &[Domain, End], Repeat::JoinOrReplace, &[Condition::Gone]),
    rule(Kind::FinalizeMigration, "finalize migration", &[Domain], &[Domain, End], Repeat::JoinOrReplace, &[]),
    rule(Kind::Pause, "pause", &[Domain], &[Domain, End], Repeat::JoinLast, &[Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::Unpause, "unpause", &[Domain], &[Domain, End], Repeat::JoinLast, &[Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::SetCpus, "set processors", &[Domain], &[Domain, End], Repeat::JoinOrReplace, &[Condition::Gone, Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::SetMemory, "set memory", &[Domain], &[Domain, End], Repeat::JoinOrReplace, &[Condition::Gone, Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::AttachHostDevices, "attach host devices", &[Domain], &[Domain, End], Repeat::JoinOrReplace, &[Condition::Gone, Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::Reset, "reset", &[Domain], &[Domain, End], Repeat::JoinLast, &[Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::SoftReboot, "soft reboot", &[Guest], &[Domain, Guest, End], Repeat::JoinLast, &[Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::Shutdown, "shutdown", &[Guest], &[Domain, Guest, End], Repeat::JoinLast, &[]),
    rule(Kind::Freeze, "freeze", &[Filesystems], &[Filesystems, End], Repeat::JoinOrRefuse, &[]),
    rule(Kind::Unfreeze, "unfreeze", &[Filesystems], &[Filesystems, End], Repeat::JoinLast, &[Condition::NotArrived]),
    rule(Kind::MemoryDump, "memory dump", &[Job], &[Job, End], Repeat::JoinOrRefuse, &[Condition::NotArrived]),
    rule(Kind::Migrate, "migrate", &[Domain, Filesystems], &[Domain, Filesystems, Job, End], Repeat::JoinOrReplace, &[Condition::Gone, Condition::AwaitsMigration]),
    rule(Kind::CancelMigration, "cancel migration", &[JobAbort], &[JobAbort, End], Repeat::JoinLast, &[]),
    rule(Kind::StartBackup, "backup", &[Job], &[Job, End], Repeat::JoinOrQueue, &[Condition::Gone]),
    rule(Kind::ExportBackup, "export of the backup", &[Job], &[Job, End], Repeat::JoinOrQueue, &[]),
    rule(Kind::AbortBackup, "abort of the backup", &[JobAbort], &[JobAbort, End], Repeat::JoinOrQueue, &[]),
    rule(Kind::RedefineCheckpoint, "redefine checkpoint", &[Job], &[Job, End], Repeat::JoinOrQueue, &[Condition::Gone, Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::Kill, "kill", &[End], &[End], Repeat::JoinLast, &[]),
    rule(Kind::Delete, "delete", &[End], &[End], Repeat::JoinLast, &[Condition::StartUnreported]),
];

const fn rule(
    kind: Kind,
    name: &'static str,
    holds: &'static [Resource],
    waits_for: &'static [Resource],
    repeat: Repeat,
    denied_while: &'static [Condition],
) -> Rule {
    Rule {
        kind,
        name,
        holds,
        waits_for,
        repeat,
        denied_while,
    }
}

impl Kind {
    /// The rule of this kind.
    pub(super) fn rule(self) -> &'static Rule {
        let rule = &RULES[self as usize];
        debug_assert_eq!(rule.kind, self, "the rows are in the order of the kinds");
        rule
    }

    /// Whether the command ends the VM: running commands are interrupted, waiting ones are refused.
    pub(super) fn ends_vm(self) -> bool {
        self.rule().holds.contains(&End)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_in_the_order_of_the_kinds() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!(rule.kind as usize, index, "{}", rule.name);
            assert_eq!(rule.kind.rule().kind, rule.kind);
        }
    }

    #[test]
    fn every_command_waits_for_the_resources_that_it_holds_and_for_the_end_lane() {
        for rule in &RULES {
            let waits = |resource| rule.waits_for.contains(resource);
            assert!(rule.holds.iter().all(waits), "{}", rule.name);
            assert!(rule.waits_for.contains(&End), "{}", rule.name);
        }
    }
}
