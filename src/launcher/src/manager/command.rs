//! The commands, and the operation that runs each of them.
//!
//! A new command needs a variant of [`Command`], a row in `command_rules` and a function in `ops`.

use std::sync::Arc;

use Resource::{Domain, End, Filesystems, Guest, Job, JobAbort};
use kubevirt_api::vmi::Vmi;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::command_error::CommandError;
use super::command_success::CommandSuccess;
use super::ops;
use super::sync_request::{SyncRequest, is_equal_vmi};
use super::vm_context::VmContext;
use crate::guest_agent::FreezeRequest;
use crate::jobs::{
    BackupId, BackupRequest, Checkpoint, ExportRequest, MemoryDumpRequest, MigrationJob,
};

/// A command for the VM.
#[derive(Debug, Clone)]
pub enum Command {
    /// Start the VM, or change the running VM to match its VMI.
    Sync(Arc<SyncRequest>),
    /// Prepare this pod as the target of the VM's migration.
    SyncMigrationTarget(Arc<SyncRequest>),
    /// After a migration, refresh network links and set the guest's clock.
    FinalizeMigration(Arc<SyncRequest>),
    /// Pause the vCPUs.
    Pause,
    /// Resume the vCPUs.
    Unpause,
    /// Set the number of vCPUs to that of the VMI.
    SetCpus(Arc<SyncRequest>),
    /// Set the guest's memory to that of the VMI.
    SetMemory(Box<Vmi>),
    /// Attach the SR-IOV interfaces of the VMI that the running VM lacks.
    AttachHostDevices(Arc<SyncRequest>),
    /// Reset the VM without the guest's cooperation.
    Reset,
    /// Ask the guest to reboot.
    SoftReboot(Box<Vmi>),
    /// Ask the guest to power off.
    Shutdown,
    /// Freeze the guest's file systems.
    Freeze(FreezeRequest),
    /// Thaw the guest's file systems.
    Unfreeze,
    /// Write the guest's memory to a file.
    MemoryDump(MemoryDumpRequest),
    /// Migrate the VM to another pod.
    Migrate(Arc<MigrationJob>),
    /// Cancel the running migration.
    CancelMigration,
    /// Start a backup of the disks.
    StartBackup(Box<BackupRequest>),
    /// Serve a running backup to the export server.
    ExportBackup(Box<ExportRequest>),
    /// End a running backup.
    AbortBackup(BackupId),
    /// Make the checkpoint of an earlier backup known to libvirt.
    RedefineCheckpoint(Checkpoint),
    /// Kill QEMU.
    Kill,
    /// Undefine the domain.
    Delete,
}

/// How the driver controls a running command.
pub(super) struct CommandContext {
    /// Cancelled when the command is to stop at its next safe point.
    pub(super) interrupted: CancellationToken,
    /// The number of running commands other than kill and delete.
    pub(super) other_commands: watch::Receiver<usize>,
}

impl Command {
    /// A sync with this request.
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

    /// Whether both commands ask for the same, so that one answer serves both.
    pub(super) fn is_equal(&self, other: &Command) -> bool {
        match (self, other) {
            (Command::Sync(left), Command::Sync(right))
            | (Command::SyncMigrationTarget(left), Command::SyncMigrationTarget(right))
            | (Command::FinalizeMigration(left), Command::FinalizeMigration(right))
            | (Command::SetCpus(left), Command::SetCpus(right))
            | (Command::AttachHostDevices(left), Command::AttachHostDevices(right)) => {
                left.is_equal(right)
            }
            (Command::SetMemory(left), Command::SetMemory(right)) => is_equal_vmi(left, right),
            (Command::Freeze(left), Command::Freeze(right)) => left == right,
            (Command::MemoryDump(left), Command::MemoryDump(right)) => left == right,
            (Command::Migrate(left), Command::Migrate(right)) => left.uid() == right.uid(),
            (Command::StartBackup(left), Command::StartBackup(right)) => left == right,
            (Command::ExportBackup(left), Command::ExportBackup(right)) => left == right,
            (Command::AbortBackup(left), Command::AbortBackup(right)) => left == right,
            (Command::RedefineCheckpoint(left), Command::RedefineCheckpoint(right)) => {
                left == right
            }
            (left, right) => left.kind() == right.kind(),
        }
    }

    /// The UID of the VMI, if the command is a sync.
    pub(super) fn synced_vmi_uid(&self) -> Option<&str> {
        match self {
            Command::Sync(request) => Some(request.vmi.uid()),
            _ => None,
        }
    }

    /// Runs the command's operation.
    pub(super) async fn run(
        self,
        vm: &VmContext,
        context: CommandContext,
    ) -> Result<CommandSuccess, CommandError> {
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
            Command::AttachHostDevices(request) => ops::attach_sriov_interfaces(vm, &request).await,
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
    /// Resolves when no command other than kill and delete runs.
    async fn others_ended(mut self) {
        // Cannot fail: the driver holds the sender and outlives its operations.
        let _ = self.other_commands.wait_for(|count| *count == 0).await;
    }
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
