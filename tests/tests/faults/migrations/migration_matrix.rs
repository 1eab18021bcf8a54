//! The migration rows. A row: name, phase, faults, where the VM runs in the end.

use super::migration_row::Fault::{
    Cancel, CleanUp, CutProxies, Hang, Kill, OtherUid, RepeatUid, RestartVirtHandler, Terminate,
};
use super::migration_row::MigrationPhase::{
    Ended, Hooks, PostCopy, Prepared, Requested, Resumed, ShortTransfer, Switchover, Transfer,
};
use super::migration_row::Outcome::{Either, Nowhere, OnSource, OnTarget};
use super::migration_row::Side::{Source, Target as TargetSide};
use super::migration_row::Sidecar::{AppendElement, RewriteTypes};
use super::migration_row::Target::{
    FullDisk, HookHangsBeforeMigration, HungHook, MisbehavingHook, NoProxies, NoUserfaultfd,
    SameHost, Sidecar, Veto,
};
use super::migration_row::TargetProcess::{Daemon, Launcher, Pod, Qemu};
use super::migration_row::{MigrationRow, row};

/// KubeVirt's words.
const ABORTED: &str = "Live migration has been aborted";

#[rustfmt::skip]
pub(crate) const MIGRATIONS: &[MigrationRow] = &[
    // ---- something dies --------------------------------------------------------------------------------------------
    row("target's QEMU killed", Transfer, &[Kill(TargetSide, Qemu)], OnSource),
    row("target's daemon killed", Transfer, &[Kill(TargetSide, Daemon)], OnSource),
    row("target's launcher killed", Transfer, &[Kill(TargetSide, Launcher)], OnSource),
    row("target's pod killed", Transfer, &[Kill(TargetSide, Pod)], OnSource),
    row("target's pod killed", Prepared, &[Kill(TargetSide, Pod)], OnSource),
    row("target's pod killed", Requested, &[Kill(TargetSide, Pod)], OnSource),
    row("source's daemon killed", Transfer, &[Kill(Source, Daemon)], OnSource),
    row("source's daemon killed", Requested, &[Kill(Source, Daemon)], OnSource),
    row("source's daemon killed", Resumed, &[Kill(Source, Daemon)], OnTarget).quick(),
    row("target's daemon killed", Requested, &[Kill(TargetSide, Daemon)], Either),
    row("both daemons killed", Transfer, &[Kill(Source, Daemon), Kill(TargetSide, Daemon)], OnSource),
    row("source's QEMU killed", Transfer, &[Kill(Source, Qemu)], Nowhere),
    row("source's pod killed", Transfer, &[Kill(Source, Pod)], Nowhere),
    row("source's pod killed", Resumed, &[Kill(Source, Pod)], OnTarget),
    // In post-copy each side has a part of the guest.
    row("target's QEMU killed", PostCopy, &[Kill(TargetSide, Qemu)], Nowhere),

    // ---- a pod is deleted ------------------------------------------------------------------------------------------
    row("target terminated", Transfer, &[Terminate(TargetSide)], OnSource),
    row("target terminated", Prepared, &[Terminate(TargetSide)], OnSource),
    row("clean-up after virt-handler was away", Transfer,
        &[Kill(TargetSide, Qemu), RestartVirtHandler(TargetSide), CleanUp], OnSource),

    // ---- something hangs, or the way is cut ------------------------------------------------------------------------
    row("target's daemon hung 3 s", ShortTransfer, &[Hang(TargetSide, Daemon, 3000)], OnTarget),
    row("source's daemon hung 3 s", ShortTransfer, &[Hang(Source, Daemon, 3000)], OnTarget),
    row("target's launcher hung 3 s", ShortTransfer, &[Hang(TargetSide, Launcher, 3000)], OnTarget),
    row("source's launcher hung 3 s", ShortTransfer, &[Hang(Source, Launcher, 3000)], OnTarget),
    row("target's QEMU hung 3 s", ShortTransfer, &[Hang(TargetSide, Qemu, 3000)], OnTarget),
    row("proxies cut", Transfer, &[CutProxies], OnSource),
    row("proxies cut", Resumed, &[CutProxies], Either),
    row("proxies cut", PostCopy, &[CutProxies], Nowhere),
    row("proxies cut", Requested, &[CutProxies], Either),
    row("proxies cut", Prepared, &[CutProxies], OnSource),
    row("no proxies", Prepared, &[], OnSource).to(NoProxies).failing("-source.sock").quick(),

    row("source's virt-handler restarted", Transfer, &[RestartVirtHandler(Source)], OnSource),
    row("target's virt-handler restarted", Transfer, &[RestartVirtHandler(TargetSide)], OnSource),
    row("source's virt-handler restarted", Resumed, &[RestartVirtHandler(Source)], Either),
    row("target's virt-handler restarted", Resumed, &[RestartVirtHandler(TargetSide)], Either),

    // ---- the target refuses ----------------------------------------------------------------------------------------
    row("same host", Prepared, &[], OnSource).to(SameHost).failing("same host"),
    row("target's hook vetoes at once", Prepared, &[], OnSource).to(Veto).unprepared("refuses at PreStart"),
    row("target's hook vetoes the domain", Prepared, &[], OnSource).to(MisbehavingHook("veto")).failing("refuses at OnDefineDomain"),
    row("target's hook traps", Prepared, &[], OnSource).to(MisbehavingHook("panic")).failing("crashed at OnDefineDomain"),
    row("target's hook hangs", Prepared, &[], OnSource).to(MisbehavingHook("loop")).failing("did not answer OnDefineDomain"),
    row("libvirt's hook hangs, cancelled", Requested, &[Cancel], OnSource).to(HungHook).failing(ABORTED),

    row("target's disk is full", Prepared, &[], OnSource).to(FullDisk).failing("No space left on device"),
    row("post-copy without userfaultfd", Prepared, &[], OnSource).to(NoUserfaultfd).failing("Postcopy is not supported"),

    // ---- sidecars whose XML libvirt would refuse on a target
    // ---------------------------------------------------------
    row("a sidecar rewrites the types of the domain", Prepared, &[], OnTarget).to(Sidecar(RewriteTypes)),
    row("a sidecar appends a device", Prepared, &[], OnTarget).to(Sidecar(AppendElement)),

    // ---- requests at the wrong phase ------------------------------------------------------------------------------
    row("the same UID repeated", ShortTransfer, &[RepeatUid], OnTarget),
    row("another UID", ShortTransfer, &[OtherUid], OnTarget),
    row("cancelled", Prepared, &[Cancel], OnTarget),
    row("cancelled", Requested, &[Cancel], OnSource).failing(ABORTED),
    row("cancelled", Hooks, &[Cancel], OnSource).to(HookHangsBeforeMigration).failing(ABORTED),
    row("cancelled", Transfer, &[Cancel], OnSource).failing(ABORTED),
    row("cancelled", Switchover, &[Cancel], Either),
    row("cancelled", PostCopy, &[Cancel], OnTarget),
    row("cancelled twice", Transfer, &[Cancel, Cancel], OnSource).failing(ABORTED),
    row("cancelled", Resumed, &[Cancel], OnTarget),
    row("cancelled", Ended, &[Cancel], OnTarget),
    row("clean-up of the target", Transfer, &[CleanUp], OnSource),
    row("clean-up of the target", Ended, &[CleanUp], OnTarget),
];
