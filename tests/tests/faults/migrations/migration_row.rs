//! A migration row of the fault matrix: its target, phase, faults and outcome.

/// A row: `faults` happen in `phase` of a migration, and then the VM must run on the side of `outcome`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MigrationRow {
    pub(crate) name: &'static str,
    pub(crate) target: Target,
    pub(crate) phase: MigrationPhase,
    pub(crate) faults: &'static [Fault],
    pub(crate) outcome: Outcome,
    /// The call that fails, with a part of the reason that virt-handler gets. All other calls must succeed.
    pub(crate) refusal: Option<Refusal>,
    /// Whether `make test` runs the row.
    pub(crate) quick: bool,
}

/// How the target's pod differs from a plain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Plain,
    /// The target's libvirt reports the same host UUID as the source's.
    SameHost,
    /// A module refuses every VM.
    Veto,
    /// The module `misbehaving-hook` does this (a word of its annotation) on the target.
    MisbehavingHook(&'static str),
    /// libvirt's hook hangs, and is not answered by the launcher.
    HungHook,
    /// virt-handler has made no sockets in the source's pod.
    NoProxies,
    /// The VM has a disk for which the target has too little space.
    FullDisk,
    /// Post-copy is allowed, but the kernel has no userfaultfd for QEMU.
    NoUserfaultfd,
    /// The VM has a gRPC sidecar in all its pods.
    Sidecar(Sidecar),
    /// The VM has a module in all its pods that does not return from PreMigrationSource before a slow migration.
    HookHangsBeforeMigration,
}

/// A gRPC sidecar's rewrite of the domain XML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sidecar {
    /// Marshals the whole domain from Go types, as KubeVirt's shim does.
    RewriteTypes,
    /// Appends a device.
    AppendElement,
}

/// The phase of the migration in which the faults happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MigrationPhase {
    /// The target is prepared, and the migration is not requested yet.
    Prepared,
    /// The migration was just requested.
    Requested,
    /// The hooks of PreMigrationSource run.
    Hooks,
    /// The guest's memory is transferred, so slowly that the migration does not end meanwhile.
    Transfer,
    /// The guest's memory is transferred, which takes some seconds.
    ShortTransfer,
    /// The guest is paused for the switchover.
    Switchover,
    /// The guest runs on the target, and most of its memory is on the source.
    PostCopy,
    /// The guest has begun to run on the target.
    Resumed,
    /// The source has reported the end.
    Ended,
}

/// A side of the migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Target,
}

/// The process that a fault hits, or all processes of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetProcess {
    Qemu,
    Daemon,
    Launcher,
    Pod,
}

/// A disturbance or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Kill(Side, TargetProcess),
    /// SIGTERM to the launcher, as when its pod is deleted.
    Terminate(Side),
    /// SIGSTOP, and SIGCONT after these milliseconds.
    Hang(Side, TargetProcess, u64),
    /// The connections between the pods are closed, and none is accepted any more.
    CutProxies,
    /// virt-handler of a node, with its proxies and its notification server, ends and starts again after two seconds.
    RestartVirtHandler(Side),
    /// MigrateVirtualMachine with the same UID, which has no effect.
    RepeatUid,
    /// MigrateVirtualMachine with another UID, which is refused.
    OtherUid,
    /// CancelVirtualMachineMigration.
    Cancel,
    /// SignalTargetPodCleanup.
    CleanUp,
}

/// The side that runs the VM after the faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    OnSource,
    OnTarget,
    /// On the source or the target: the fault races with the migration.
    Either,
    Nowhere,
}

/// How the pod of a side ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodEnd {
    /// With exit code 0.
    Clean,
    /// The row kills it.
    Killed,
}

/// The call that fails, and a part of the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// SyncMigrationTarget.
    Preparation(&'static str),
    /// The migration, in its record.
    Migration(&'static str),
}

/// A row with a plain target whose calls all succeed, and that `make test` does not run.
pub(crate) const fn row(
    name: &'static str,
    phase: MigrationPhase,
    faults: &'static [Fault],
    outcome: Outcome,
) -> MigrationRow {
    MigrationRow {
        name,
        target: Target::Plain,
        phase,
        faults,
        outcome,
        refusal: None,
        quick: false,
    }
}

impl MigrationRow {
    pub(crate) const fn to(mut self, target: Target) -> MigrationRow {
        self.target = target;
        self
    }

    /// SyncMigrationTarget fails for this reason.
    pub(crate) const fn unprepared(mut self, reason: &'static str) -> MigrationRow {
        self.refusal = Some(Refusal::Preparation(reason));
        self
    }

    /// The migration fails for this reason.
    pub(crate) const fn failing(mut self, reason: &'static str) -> MigrationRow {
        self.refusal = Some(Refusal::Migration(reason));
        self
    }

    pub(crate) const fn quick(mut self) -> MigrationRow {
        self.quick = true;
        self
    }

    /// How the pod of a side ends in this row.
    pub(crate) fn pod_end(&self, side: Side) -> PodEnd {
        let kills = |fault: &Fault| {
            *fault == Fault::Kill(side, TargetProcess::Pod)
                || *fault == Fault::Kill(side, TargetProcess::Launcher)
        };
        match self.faults.iter().any(kills) {
            true => PodEnd::Killed,
            false => PodEnd::Clean,
        }
    }

    pub(crate) fn title(&self) -> String {
        format!("migration: {} / {:?}", self.name, self.phase)
    }
}
