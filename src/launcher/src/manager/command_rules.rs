//! The table of rules by which admission decides which commands run concurrently.

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

/// What a command holds exclusively while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// The domain's definition and its processors.
    Domain,
    /// The guest, through its agent or its power button: a hung guest delays no other lane.
    Guest,
    /// The guest's file systems, through its agent.
    Filesystems,
    /// The start of a job: the job itself goes on beside other commands.
    Job,
    /// The abort of a job, which does not wait for the job's start.
    JobAbort,
    /// The end of the VM, which no other command may meet.
    End,
}

/// What happens to a command while one of its kind runs or waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It shares the answer of the last command, if that is of its kind: pause, unpause, pause are three.
    JoinLast,
    /// It states what the VM is to be: it shares the answer of an equal one, and takes the place of another
    /// that waits.
    JoinEqual,
    /// It shares the answer of an equal one; another comes after it.
    ShareOrFollow,
}

/// Why a command is denied at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// virt-handler has not accepted a notification that the VM it had started is alive.
    StartUnreported,
    /// The domain has been there and is gone.
    Gone,
    /// The VM is to arrive by a migration, and has not.
    AwaitsMigration,
    /// The same, until the guest runs here: libvirt would let the command wait for the migration, and change the guest
    /// that the source may get back.
    NotArrived,
    /// The VM is on its way to another pod. libvirt would let the command wait for half a minute, and refuse it.
    MigratesAway,
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) kind: Kind,
    /// For log lines.
    pub(super) name: &'static str,
    /// The lanes that the command holds.
    pub(super) holds: &'static [Lane],
    /// The lanes that must be free before the command starts; earlier commands come first.
    pub(super) waits_for: &'static [Lane],
    pub(super) repeat: Repeat,
    pub(super) denied_while: &'static [Condition],
}

use Lane::{Domain, End, Filesystems, Guest, Job, JobAbort};

/// A row for each kind, in the order of [`Kind`].
#[rustfmt::skip]
pub(super) const RULES: [Rule; 22] = [
    rule(Kind::Sync, "sync", &[Domain], &[Domain, End], Repeat::JoinEqual, &[Condition::Gone, Condition::AwaitsMigration]),
    rule(Kind::SyncMigrationTarget, "sync migration target", &[Domain], &[Domain, End], Repeat::JoinEqual, &[Condition::Gone]),
    rule(Kind::FinalizeMigration, "finalize migration", &[Domain], &[Domain, End], Repeat::JoinEqual, &[]),
    rule(Kind::Pause, "pause", &[Domain], &[Domain, End], Repeat::JoinLast, &[Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::Unpause, "unpause", &[Domain], &[Domain, End], Repeat::JoinLast, &[Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::SetCpus, "set processors", &[Domain], &[Domain, End], Repeat::JoinEqual, &[Condition::Gone, Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::SetMemory, "set memory", &[Domain], &[Domain, End], Repeat::JoinEqual, &[Condition::Gone, Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::AttachHostDevices, "attach host devices", &[Domain], &[Domain, End], Repeat::JoinEqual, &[Condition::Gone, Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::Reset, "reset", &[Domain], &[Domain, End], Repeat::JoinLast, &[Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::SoftReboot, "soft reboot", &[Guest], &[Domain, Guest, End], Repeat::JoinLast, &[Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::Shutdown, "shutdown", &[Guest], &[Domain, Guest, End], Repeat::JoinLast, &[]),
    rule(Kind::Freeze, "freeze", &[Filesystems], &[Filesystems, End], Repeat::JoinLast, &[]),
    rule(Kind::Unfreeze, "unfreeze", &[Filesystems], &[Filesystems, End], Repeat::JoinLast, &[Condition::NotArrived]),
    rule(Kind::MemoryDump, "memory dump", &[Job], &[Job, End], Repeat::JoinLast, &[Condition::NotArrived]),
    rule(Kind::Migrate, "migrate", &[Domain, Filesystems], &[Domain, Filesystems, Job, End], Repeat::JoinEqual, &[Condition::Gone, Condition::AwaitsMigration]),
    rule(Kind::CancelMigration, "cancel migration", &[JobAbort], &[JobAbort, End], Repeat::JoinLast, &[]),
    rule(Kind::StartBackup, "backup", &[Job], &[Job, End], Repeat::ShareOrFollow, &[Condition::Gone]),
    rule(Kind::ExportBackup, "export of the backup", &[Job], &[Job, End], Repeat::ShareOrFollow, &[]),
    rule(Kind::AbortBackup, "abort of the backup", &[JobAbort], &[JobAbort, End], Repeat::ShareOrFollow, &[]),
    rule(Kind::RedefineCheckpoint, "redefine checkpoint", &[Job], &[Job, End], Repeat::ShareOrFollow, &[Condition::Gone, Condition::NotArrived, Condition::MigratesAway]),
    rule(Kind::Kill, "kill", &[End], &[End], Repeat::JoinLast, &[]),
    rule(Kind::Delete, "delete", &[End], &[End], Repeat::JoinLast, &[Condition::StartUnreported]),
];

const fn rule(
    kind: Kind,
    name: &'static str,
    holds: &'static [Lane],
    waits_for: &'static [Lane],
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
    /// The command's row.
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
    fn each_kind_finds_its_own_row() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!(rule.kind as usize, index, "{}", rule.name);
            assert_eq!(rule.kind.rule().kind, rule.kind);
        }
    }

    #[test]
    fn every_command_waits_for_its_own_lanes_and_for_end() {
        for rule in &RULES {
            let waits = |lane| rule.waits_for.contains(lane);
            assert!(rule.holds.iter().all(waits), "{}", rule.name);
            assert!(rule.waits_for.contains(&End), "{}", rule.name);
        }
    }
}
