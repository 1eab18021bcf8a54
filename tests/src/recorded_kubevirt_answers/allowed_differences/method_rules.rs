//! The rules for all calls of a method.

use super::{MACHINE, MOMENT, NEWER_AGENT, NIC, rule};
use crate::recorded_kubevirt_answers::call_pattern::{CallPattern, every_call_of};
use crate::recorded_kubevirt_answers::comparison::{Rule, Strictness};

/// Rules for the statistics of a domain, which are below `V` or `DomainStats`.
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
    rule("*.Load.*", Strictness::Any, NEWER_AGENT),
];

const OTHER_PCI_DEVICES: &str = "the played VM has another number of devices on PCI";

const FREE_PORTS: &str = "KubeVirt's VM without an interface has no free root ports";

const DOMAIN: &[Rule] = &[
    rule(
        "V.Spec.Devices.Ballooning.Address",
        Strictness::Type,
        OTHER_PCI_DEVICES,
    ),
    rule(
        "V.Spec.Devices.Controllers.*.Address",
        Strictness::Type,
        OTHER_PCI_DEVICES,
    ),
    rule(
        "V.Spec.Devices.Disks.*.Address",
        Strictness::Type,
        OTHER_PCI_DEVICES,
    ),
    rule(
        "V.Spec.Devices.Controllers.pci_6",
        Strictness::Any,
        OTHER_PCI_DEVICES,
    ),
    rule(
        "V.Spec.Devices.Controllers.pci_7",
        Strictness::Any,
        OTHER_PCI_DEVICES,
    ),
    rule(
        "V.Spec.Devices.Controllers.pci_8",
        Strictness::Any,
        OTHER_PCI_DEVICES,
    ),
    rule(
        "V.Spec.Devices.Controllers.pci_9",
        Strictness::Any,
        OTHER_PCI_DEVICES,
    ),
    rule(
        "V.Spec.Devices.Controllers.pci_10",
        Strictness::Any,
        OTHER_PCI_DEVICES,
    ),
    rule(
        "V.Spec.Devices.Controllers.pci_11",
        Strictness::Any,
        OTHER_PCI_DEVICES,
    ),
    rule(
        "V.Spec.Devices.Controllers.pci-6",
        Strictness::Any,
        OTHER_PCI_DEVICES,
    ),
    rule(
        "V.Spec.Devices.Controllers.pci-7",
        Strictness::Any,
        FREE_PORTS,
    ),
    rule(
        "V.Spec.Devices.Controllers.pci-8",
        Strictness::Any,
        FREE_PORTS,
    ),
    rule(
        "V.Spec.Devices.Controllers.pci-9",
        Strictness::Any,
        FREE_PORTS,
    ),
    rule(
        "V.Spec.Devices.Controllers.pci-10",
        Strictness::Any,
        FREE_PORTS,
    ),
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
    rule("GuestGetLoad.return", Strictness::Type, NEWER_AGENT),
    rule("GuestNetworkGetRoute.return", Strictness::Any, NEWER_AGENT),
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

/// The rules for all calls of a method.
pub(super) const METHOD_RULES: &[(CallPattern, &[Rule])] = &[
    (every_call_of("getdomain"), DOMAIN),
    (every_call_of("getdomainstats"), STATISTICS),
    (every_call_of("guestinfo"), GUEST_INFO),
    (every_call_of("filesystems"), FILE_SYSTEMS),
    (every_call_of("vmstats"), VM_STATS),
    (every_call_of("vmstats"), STATISTICS),
    (every_call_of("qemuversion"), VERSION),
    (every_call_of("dirtyrate"), DIRTY_RATE),
    (every_call_of("screenshot"), SCREENSHOT),
];
