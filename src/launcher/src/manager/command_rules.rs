//! The commands, and the table of rules by which admission decides which commands run concurrently.
//!
//! A new command is a variant, a row and a function in `ops`.

use std::sync::Arc;

use kubevirt_api::vmi::Vmi;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::command_effect::CommandEffect;
use super::error::OpError;
use super::ops;
use super::sync_request::SyncRequest;
use super::vm_context::VmContext;
use crate::agent::FreezeRequest;
use crate::jobs::{
    BackupId, BackupRequest, Checkpoint, ExportRequest, MemoryDumpRequest, MigrationJob,
};

/// A command for the VM.
#[derive(Debug, Clone)]
pub enum Command {
    /// Start or change the VM as its VMI says.
    Sync(Arc<SyncRequest>),
    /// Prepare this pod for the VM, which arrives by a migration.
    SyncMigrationTarget(Arc<SyncRequest>),
    /// Let the guest notice that it has moved.
    FinalizeMigration(Arc<SyncRequest>),
    /// Stop the processors.
    Pause,
    /// Resume the processors.
    Unpause,
    /// Give the VM the processors that its VMI asks for.
    SetCpus(Arc<SyncRequest>),
    /// Give the VM the memory that its VMI asks for.
    SetMemory(Box<Vmi>),
    /// Attach the SR-IOV interfaces that the VMI has and the VM has not.
    AttachHostDevices(Arc<SyncRequest>),
    /// Press the reset button.
    Reset,
    /// Ask the guest to reboot.
    SoftReboot(Box<Vmi>),
    /// Ask the guest to power off.
    Shutdown,
    /// Freeze the guest's file systems.
    Freeze(FreezeRequest),
    /// Thaw them.
    Unfreeze,
    /// Write the guest's memory to a file.
    MemoryDump(MemoryDumpRequest),
    /// Move the VM to another pod.
    Migrate(Arc<MigrationJob>),
    /// Let it stay.
    CancelMigration,
    /// Start a backup of the disks.
    StartBackup(Box<BackupRequest>),
    /// Serve a running backup to the export server.
    ExportBackup(Box<ExportRequest>),
    /// End a running backup.
    AbortBackup(BackupId),
    /// Make the checkpoint of an earlier backup known to libvirt.
    RedefineCheckpoint(Checkpoint),
    /// End QEMU.
    Kill,
    /// Make libvirt forget the domain.
    Delete,
}

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

/// What a running command is given.
pub(super) struct CommandContext {
    /// Cancelled when the command is to stop at its next safe point.
    pub(super) interrupted: CancellationToken,
    /// How many commands run that do not end the VM.
    pub(super) ordinary: watch::Receiver<usize>,
}

impl Command {
    /// A sync.
    pub fn sync(request: SyncRequest) -> Command {
        Command::Sync(Arc::new(request))
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Command::Sync(_) => Kind::Sync,
            Command::SyncMigrationTarget(_) => Kind::SyncMigrationTarget,
            Command::FinalizeMigration(_) => Kind::FinalizeMigration,
            Command::Pause => Kind::Pause,
            Command::Unpause => Kind::Unpause,
            Command::SetCpus(_) => Kind::SetCpus,
            Command::SetMemory(_) => Kind::SetMemory,
            Command::AttachHostDevices(_) => Kind::AttachHostDevices,
            Command::Reset => Kind::Reset,
            Command::SoftReboot(_) => Kind::SoftReboot,
            Command::Shutdown => Kind::Shutdown,
            Command::Freeze(_) => Kind::Freeze,
            Command::Unfreeze => Kind::Unfreeze,
            Command::MemoryDump(_) => Kind::MemoryDump,
            Command::Migrate(_) => Kind::Migrate,
            Command::CancelMigration => Kind::CancelMigration,
            Command::StartBackup(_) => Kind::StartBackup,
            Command::ExportBackup(_) => Kind::ExportBackup,
            Command::AbortBackup(_) => Kind::AbortBackup,
            Command::RedefineCheckpoint(_) => Kind::RedefineCheckpoint,
            Command::Kill => Kind::Kill,
            Command::Delete => Kind::Delete,
        }
    }

    /// Whether both commands can share one answer.
    pub(super) fn is_equal(&self, other: &Command) -> bool {
        match (self, other) {
            (Command::Sync(one), Command::Sync(other))
            | (Command::SyncMigrationTarget(one), Command::SyncMigrationTarget(other))
            | (Command::FinalizeMigration(one), Command::FinalizeMigration(other))
            | (Command::SetCpus(one), Command::SetCpus(other))
            | (Command::AttachHostDevices(one), Command::AttachHostDevices(other)) => {
                one.is_equal(other)
            }
            (Command::SetMemory(one), Command::SetMemory(other)) => {
                one.raw_json() == other.raw_json()
            }
            (Command::Migrate(one), Command::Migrate(other)) => one.uid() == other.uid(),
            (Command::StartBackup(one), Command::StartBackup(other)) => one == other,
            (Command::ExportBackup(one), Command::ExportBackup(other)) => one == other,
            (Command::AbortBackup(one), Command::AbortBackup(other)) => one == other,
            (Command::RedefineCheckpoint(one), Command::RedefineCheckpoint(other)) => one == other,
            (one, other) => one.kind() == other.kind(),
        }
    }

    /// The UID of the VMI that a sync is about.
    pub(super) fn boot(&self) -> Option<&str> {
        match self {
            Command::Sync(request) => Some(request.vmi.uid()),
            _ => None,
        }
    }

    /// Carries the command out.
    pub(super) async fn run(
        self,
        vm: &VmContext,
        context: CommandContext,
    ) -> Result<CommandEffect, OpError> {
        match self {
            Command::Sync(request) => ops::sync(vm, &request, &context.interrupted).await,
            Command::SyncMigrationTarget(request) => {
                ops::sync_migration_target(vm, &request, &context.interrupted).await
            }
            Command::FinalizeMigration(request) => ops::finalize_migration(vm, &request).await,
            Command::Pause => ops::pause(vm).await,
            Command::Unpause => ops::unpause(vm).await,
            Command::SetCpus(request) => ops::set_cpus(vm, &request).await,
            Command::SetMemory(vmi) => ops::set_memory(vm, &vmi).await,
            Command::AttachHostDevices(request) => ops::attach_host_devices(vm, &request).await,
            Command::Reset => ops::reset(vm).await,
            Command::SoftReboot(vmi) => ops::soft_reboot(vm, &vmi).await,
            Command::Shutdown => ops::shutdown(vm).await,
            Command::Freeze(request) => ops::freeze(vm, request).await,
            Command::Unfreeze => ops::unfreeze(vm).await,
            Command::MemoryDump(request) => ops::start_memory_dump(vm, request),
            Command::Migrate(job) => ops::migrate(vm, Arc::unwrap_or_clone(job)).await,
            Command::CancelMigration => ops::cancel_migration(vm),
            Command::StartBackup(request) => ops::start_backup(vm, *request).await,
            Command::ExportBackup(request) => ops::export_backup(vm, *request).await,
            Command::AbortBackup(id) => ops::abort_backup(vm, &id).await,
            Command::RedefineCheckpoint(checkpoint) => {
                ops::redefine_checkpoint(vm, &checkpoint).await
            }
            Command::Kill => ops::kill(vm, context.others_ended()).await,
            Command::Delete => ops::delete(vm, context.others_ended()).await,
        }
    }
}

impl CommandContext {
    /// Resolves when no command runs that does not end the VM.
    async fn others_ended(mut self) {
        // Cannot fail: the driver holds the sender and outlives its operations.
        let _ = self.ordinary.wait_for(|running| *running == 0).await;
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
