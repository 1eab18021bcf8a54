//! The migration rows. A row: name, moment, faults, where the VM runs in the end.

use super::matrix_vocabulary::Fault::{
    Cancel, CleanUp, CutProxies, Hang, Kill, OtherUid, RepeatUid, RestartVirtHandler, Terminate,
};
use super::matrix_vocabulary::Moment::{
    Ended, Hooks, PostCopy, Prepared, Requested, Resumed, ShortTransfer, Switch, Transfer,
};
use super::matrix_vocabulary::Outcome::{Either, Nowhere, OnSource, OnTarget};
use super::matrix_vocabulary::Side::{Source, Target as Other};
use super::matrix_vocabulary::Sidecar::{Appends, Retypes};
use super::matrix_vocabulary::Target::{
    FullDisk, HungHook, NoProxies, NoUserfaultfd, OddHook, SameHost, Sidecar, SlowHook, Veto,
};
use super::matrix_vocabulary::Victim::{Daemon, Launcher, Pod, Qemu};
use super::matrix_vocabulary::{MigrationRow, row};

/// KubeVirt's words.
const ABORTED: &str = "Live migration has been aborted";

#[rustfmt::skip]
pub(crate) const MIGRATIONS: &[MigrationRow] = &[
    // ---- something dies --------------------------------------------------------------------------------------------
    row("target's QEMU killed", Transfer, &[Kill(Other, Qemu)], OnSource),
    row("target's daemon killed", Transfer, &[Kill(Other, Daemon)], OnSource),
    row("target's launcher killed", Transfer, &[Kill(Other, Launcher)], OnSource),
    row("target's pod killed", Transfer, &[Kill(Other, Pod)], OnSource),
    row("target's pod killed", Prepared, &[Kill(Other, Pod)], OnSource),
    row("target's pod killed", Requested, &[Kill(Other, Pod)], OnSource),
    row("source's daemon killed", Transfer, &[Kill(Source, Daemon)], OnSource),
    row("source's daemon killed", Requested, &[Kill(Source, Daemon)], OnSource),
    row("source's daemon killed", Resumed, &[Kill(Source, Daemon)], OnTarget).quick(),
    row("target's daemon killed", Requested, &[Kill(Other, Daemon)], Either),
    row("both daemons killed", Transfer, &[Kill(Source, Daemon), Kill(Other, Daemon)], OnSource),
    row("source's QEMU killed", Transfer, &[Kill(Source, Qemu)], Nowhere),
    row("source's pod killed", Transfer, &[Kill(Source, Pod)], Nowhere),
    row("source's pod killed", Resumed, &[Kill(Source, Pod)], OnTarget),
    // In post-copy each side has a part of the guest.
    row("target's QEMU killed", PostCopy, &[Kill(Other, Qemu)], Nowhere),

    // ---- a pod is deleted ------------------------------------------------------------------------------------------
    row("target told to end", Transfer, &[Terminate(Other)], OnSource),
    row("target told to end", Prepared, &[Terminate(Other)], OnSource),
    row("clean-up after virt-handler was away", Transfer,
        &[Kill(Other, Qemu), RestartVirtHandler(Other), CleanUp], OnSource),

    // ---- something hangs, or the way is cut ------------------------------------------------------------------------
    row("target's daemon hung 3 s", ShortTransfer, &[Hang(Other, Daemon, 3000)], OnTarget),
    row("source's daemon hung 3 s", ShortTransfer, &[Hang(Source, Daemon, 3000)], OnTarget),
    row("target's launcher hung 3 s", ShortTransfer, &[Hang(Other, Launcher, 3000)], OnTarget),
    row("source's launcher hung 3 s", ShortTransfer, &[Hang(Source, Launcher, 3000)], OnTarget),
    row("target's QEMU hung 3 s", ShortTransfer, &[Hang(Other, Qemu, 3000)], OnTarget),
    row("proxies cut", Transfer, &[CutProxies], OnSource),
    row("proxies cut", Resumed, &[CutProxies], Either),
    row("proxies cut", PostCopy, &[CutProxies], Nowhere),
    row("proxies cut", Requested, &[CutProxies], Either),
    row("proxies cut", Prepared, &[CutProxies], OnSource),
    row("proxies never there", Prepared, &[], OnSource).to(NoProxies).failing("-source.sock").quick(),

    row("source's virt-handler restarted", Transfer, &[RestartVirtHandler(Source)], OnSource),
    row("target's virt-handler restarted", Transfer, &[RestartVirtHandler(Other)], OnSource),
    row("source's virt-handler restarted", Resumed, &[RestartVirtHandler(Source)], Either),
    row("target's virt-handler restarted", Resumed, &[RestartVirtHandler(Other)], Either),

    // ---- the target refuses ----------------------------------------------------------------------------------------
    row("same host", Prepared, &[], OnSource).to(SameHost).failing("same host"),
    row("target's hook vetoes at once", Prepared, &[], OnSource).to(Veto).unprepared("refuses at PreStart"),
    row("target's hook vetoes the domain", Prepared, &[], OnSource).to(OddHook("veto")).failing("refuses at OnDefineDomain"),
    row("target's hook traps", Prepared, &[], OnSource).to(OddHook("panic")).failing("crashed at OnDefineDomain"),
    row("target's hook hangs", Prepared, &[], OnSource).to(OddHook("loop")).failing("did not answer OnDefineDomain"),
    row("libvirt's hook hangs, cancelled", Requested, &[Cancel], OnSource).to(HungHook).failing(ABORTED),

    row("target's disk is full", Prepared, &[], OnSource).to(FullDisk).failing("No space left on device"),
    row("post-copy without userfaultfd", Prepared, &[], OnSource).to(NoUserfaultfd).failing("Postcopy is not supported"),

    // ---- sidecars whose XML libvirt would refuse on a target ---------------------------------------------------------
    row("a sidecar writes the domain anew", Prepared, &[], OnTarget).to(Sidecar(Retypes)),
    row("a sidecar appends a device", Prepared, &[], OnTarget).to(Sidecar(Appends)),

    // ---- requests at the wrong moment ------------------------------------------------------------------------------
    row("the same UID again", ShortTransfer, &[RepeatUid], OnTarget),
    row("another UID", ShortTransfer, &[OtherUid], OnTarget),
    row("cancelled", Prepared, &[Cancel], OnTarget),
    row("cancelled", Requested, &[Cancel], OnSource).failing(ABORTED),
    row("cancelled", Hooks, &[Cancel], OnSource).to(SlowHook).failing(ABORTED),
    row("cancelled", Transfer, &[Cancel], OnSource).failing(ABORTED),
    row("cancelled", Switch, &[Cancel], Either),
    row("cancelled", PostCopy, &[Cancel], OnTarget),
    row("cancelled twice", Transfer, &[Cancel, Cancel], OnSource).failing(ABORTED),
    row("cancelled", Resumed, &[Cancel], OnTarget),
    row("cancelled", Ended, &[Cancel], OnTarget),
    row("clean-up of the target", Transfer, &[CleanUp], OnSource),
    row("clean-up of the target", Ended, &[CleanUp], OnTarget),
];
