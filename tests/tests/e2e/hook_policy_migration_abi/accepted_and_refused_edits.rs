//! For each line of the table of accepted changes: an edit that the line accepts, and a similar edit that libvirt
//! refuses. The edits replace texts in libvirt's XML of `domain.xml`.

/// An edit: replacements of texts, each of which occurs once.
pub(super) type Edit = &'static [(&'static str, &'static str)];

/// The edits for a line of the table.
pub(super) struct LineCase {
    pub(super) line: &'static str,
    pub(super) accepted: Edit,
    pub(super) refused: Edit,
    /// Whether the accepted edit is one of those with which the domain is restored.
    pub(super) is_restored: bool,
}

const fn case(line: &'static str, accepted: Edit, refused: Edit) -> LineCase {
    LineCase {
        line,
        accepted,
        refused,
        is_restored: true,
    }
}

/// As [`case`], for an accepted edit that needs something of the host (huge pages, a bridge, a block device, a filter),
/// or that cannot be combined with another line's.
const fn case_without_restore(line: &'static str, accepted: Edit, refused: Edit) -> LineCase {
    LineCase {
        is_restored: false,
        ..case(line, accepted, refused)
    }
}

const VCPU_TAG: &str = "<vcpu ";
const DISK_DRIVER_TAG: &str = "<driver name='qemu' ";
const DISK_TARGET: &str = "<target dev='vda' bus='virtio'/>";
const INTERFACE_MTU: &str = "<mtu size='1500'/>";
const INTERFACE_LINK: &str = "<link state='down'/>";
const SERIAL_DEVICE: &str = "<serial type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial'/>
      <log file='/var/run/kubevirt-private/serial.log' append='on'/>";
const CONSOLE_DEVICE: &str = "<console type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial'/>
      <log file='/var/run/kubevirt-private/serial.log' append='on'/>";
const DEVICES_END: &str = "</devices>";

#[rustfmt::skip]
pub(super) const CASES: &[LineCase] = &[
    case("/domain/title", &[("<title>a title", "<title>b")],
        &[("<name>saved", "<name>other")]),
    case("/domain/description", &[("<description>a description", "<description>b")],
        &[("8e41413b-6335-446a-a639-7c16b33275ed", "8e41413b-6335-446a-a639-7c16b33275ee")]),
    case("/domain/metadata/**", &[(">a note<", ">b<")],
        &[("<title>", "<genid>e9392370-2917-565e-692b-d057f46512d6</genid><title>")]),
    case_without_restore("/domain/memoryBacking/hugepages/**", &[("<nosharepages/>", "<nosharepages/><hugepages/>")],
        &[("<nosharepages/>", "<nosharepages/><source type='memfd'/>")]),
    case_without_restore("/domain/memoryBacking/locked/**", &[("<nosharepages/>", "<nosharepages/><locked/>")],
        &[("<memory unit='KiB'>65536", "<memory unit='KiB'>131072")]),
    case_without_restore("/domain/memoryBacking/nosharepages/**", &[("<nosharepages/>", "")],
        &[("<currentMemory unit='KiB'>65536", "<currentMemory unit='KiB'>60000")]),
    case("/domain/memoryBacking/allocation/**", &[("<nosharepages/>", "<nosharepages/><allocation mode='immediate'/>")],
        &[("<nosharepages/>", "<nosharepages/><source type='anonymous'/>")]),
    case("/domain/blkiotune/**", &[(VCPU_TAG, "<blkiotune><weight>800</weight></blkiotune><vcpu ")],
        &[("<vcpu placement='static'>2", "<vcpu placement='static' current='1'>2")]),
    case("/domain/memtune/**", &[(VCPU_TAG, "<memtune><soft_limit unit='KiB'>9000000</soft_limit></memtune><vcpu ")],
        &[(">qemu64<", ">Nehalem<")]),
    case("/domain/cputune/**", &[(VCPU_TAG, "<cputune><vcpupin vcpu='0' cpuset='0'/></cputune><vcpu ")],
        &[("check='none'", "check='partial'")]),
    case("/domain/numatune/**", &[(VCPU_TAG, "<numatune><memory mode='preferred' nodeset='0'/></numatune><vcpu ")],
        &[("sockets='2' dies='1' clusters='1' cores='1'", "sockets='1' dies='1' clusters='1' cores='2'")]),
    case("/domain/resource/partition", &[("<partition>/machine<", "<partition>/other<")],
        &[("<vmcoreinfo state='on'/>", "")]),
    case("/domain/vcpu/@cpuset", &[("<vcpu placement='static'>", "<vcpu placement='static' cpuset='0'>")],
        &[("<acpi/>", "<acpi/><pae/>")]),
    case("/domain/iothreads", &[("<iothreads>1<", "<iothreads>2<")],
        &[("<clock offset='utc'/>", "<clock offset='utc'><timer name='hpet' present='no'/></clock>")]),
    case("/domain/iothreadids/**", &[("</iothreads>", "</iothreads><iothreadids><iothread id='7'/></iothreadids>")],
        &[("<clock offset='utc'/>", "<clock offset='utc'><timer name='rtc' tickpolicy='catchup'/></clock>")]),
    case("/domain/os/kernel", &[("/kernel<", "/kernel2<")],
        &[("machine='pc-q35-10.0'", "machine='pc-q35-9.2'")]),
    case("/domain/os/initrd", &[("/initrd<", "/initrd2<")],
        &[("<smbios mode='sysinfo'/>", "<smbios mode='host'/>")]),
    case("/domain/os/cmdline", &[(">quiet<", ">debug<")],
        &[("<system>", "<bios><entry name='vendor'>x</entry></bios><system>")]),
    case("/domain/os[loader]/loader", &[("/bios<", "/bios2<")],
        &[("</system>", "</system><baseBoard><entry name='serial'>x</entry></baseBoard>")]),
    case("/domain/os/boot/**", &[("<boot dev='hd'/>", "<boot dev='cdrom'/>")],
        &[("</system>", "</system><chassis><entry name='serial'>x</entry></chassis>")]),
    case("/domain/os/boot/@dev", &[("<boot dev='hd'/>", "<boot dev='hd'/><boot dev='network'/>")],
        &[("<vmcoreinfo state='on'/>", "<vmcoreinfo state='off'/>")]),
    case("/domain/sysinfo/oemStrings/**", &[(">a string<", ">b<")],
        &[(">a serial<", ">b<")]),
    case("/domain/on_poweroff", &[("<on_poweroff>destroy", "<on_poweroff>restart")],
        &[(DEVICES_END, "<input type='tablet' bus='virtio'/></devices>")]),
    case_without_restore("/domain/on_reboot", &[("<on_reboot>restart", "<on_reboot>destroy")],
        &[(DEVICES_END, "<sound model='ich9'/></devices>")]),
    case("/domain/on_crash", &[("<on_crash>destroy", "<on_crash>preserve")],
        &[(DEVICES_END, "<panic model='isa'/></devices>")]),
    case("/domain/on_lockfailure", &[("</on_crash>", "</on_crash><on_lockfailure>pause</on_lockfailure>")],
        &[(DEVICES_END, "<vsock model='virtio'><cid auto='no' address='3'/></vsock></devices>")]),
    case("/domain/seclabel/**", &[("</domain>", "<seclabel type='none'/></domain>")],
        &[(DEVICES_END, "<iommu model='intel'/></devices>")]),
    case("/domain/devices/emulator", &[("<emulator>/usr/bin/qemu-system-x86_64", "<emulator>/usr/bin/kvm")],
        &[("vram='16384'", "vram='32768'")]),
    case("/domain/devices/graphics/**", &[("<graphics type='vnc'", "<graphics type='vnc' sharePolicy='force-shared'")],
        &[("<model type='vga' vram", "<model type='bochs' vram")]),
    case_without_restore("/domain/devices/graphics/@listen",
        &[(DEVICES_END, "<graphics type='vnc' port='5901' listen='0.0.0.0'/></devices>")],
        &[(DEVICES_END, "<watchdog model='i6300esb' action='reset'/></devices>")]),
    case_without_restore("/domain/devices/graphics/listen/@address",
        &[(DEVICES_END, "<graphics type='vnc' port='5901'><listen type='address' address='0.0.0.0'/></graphics></devices>")],
        &[(DEVICES_END, "<vsock model='virtio'><cid auto='yes'/></vsock></devices>")]),
    case_without_restore("/domain/devices/graphics/listen/@type",
        &[(DEVICES_END, "<graphics type='vnc' port='5901'><listen type='network' network='default'/></graphics></devices>")],
        &[(DEVICES_END, "<panic model='isa'/></devices>")]),
    case_without_restore("/domain/devices/graphics/@keymap",
        &[(DEVICES_END, "<graphics type='vnc' port='5901' listen='127.0.0.1' keymap='/etc/keymap'/></devices>")],
        &[(DEVICES_END, "<sound model='ich6'/></devices>")]),
    case_without_restore("/domain/devices/graphics/@type",
        &[(DEVICES_END, "<graphics type='egl-headless'/></devices>")],
        &[(DEVICES_END, "<input type='tablet' bus='virtio'/></devices>")]),
    case_without_restore("/domain/devices/graphics/gl/@enable",
        &[(DEVICES_END, "<graphics type='sdl'><gl enable='yes'/></graphics></devices>")],
        &[(DEVICES_END, "<sound model='ich9'/></devices>")]),
    case("/domain/devices/*/alias/**", &[(DISK_TARGET, "<target dev='vda' bus='virtio'/><alias name='ua-disk'/>")],
        &[("bus='0x04' slot='0x00'", "bus='0x08' slot='0x00'")]),
    case("/domain/qemu:commandline/qemu:env/**", &[("name='EXAMPLE' value='a'", "name='EXAMPLE' value='b'")],
        &[(DEVICES_END, "<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm></devices>")]),
    case_without_restore("/domain/devices/disk/@type",
        &[("<disk type='file'", "<disk type='block'"), ("<source file='/var/run/kubevirt-e", "<source dev='/var/run/kubevirt-e")],
        &[(DISK_TARGET, "<target dev='vdb' bus='virtio'/>")]),
    case("/domain/devices/disk/source/**", &[("/disk.img'", "/disk2.img'")],
        &[(">disk-serial<", ">other<")]),
    case("/domain/devices/disk/driver/@cache", &[("cache='writeback'", "cache='writethrough'")],
        &[(" queues='1'", " queues='2'")]),
    case("/domain/devices/disk/driver/@io", &[(DISK_DRIVER_TAG, "<driver name='qemu' io='threads' ")],
        &[(" queues='1'", " queues='1' queue_size='128'")]),
    case("/domain/devices/disk/driver/@discard", &[(DISK_DRIVER_TAG, "<driver name='qemu' discard='unmap' ")],
        &[(DISK_TARGET, "<target dev='vda' bus='virtio'/><readonly/>")]),
    case("/domain/devices/disk/driver/@detect_zeroes", &[(DISK_DRIVER_TAG, "<driver name='qemu' detect_zeroes='on' ")],
        &[(DISK_TARGET, "<target dev='vda' bus='virtio'/><blockio logical_block_size='4096'/>")]),
    case("/domain/devices/disk/driver/@error_policy", &[(" error_policy='stop'", " error_policy='report'")],
        &[(" error_policy='stop'", " error_policy='stop' packed='on'")]),
    case("/domain/devices/disk/driver/@rerror_policy", &[(DISK_DRIVER_TAG, "<driver name='qemu' rerror_policy='report' ")],
        &[(" error_policy='stop'", " error_policy='stop' iommu='on'")]),
    case("/domain/devices/disk/driver/@iothread", &[(DISK_DRIVER_TAG, "<driver name='qemu' iothread='1' ")],
        &[(" device='disk'", " device='disk' model='virtio-non-transitional'")]),
    case_without_restore("/domain/devices/disk/driver/@type", &[("name='qemu' type='raw'", "name='qemu' type='qcow2'")],
        &[("<serial>disk-serial</serial>", "")]),
    case("/domain/devices/disk/iotune/**",
        &[(DISK_TARGET, "<target dev='vda' bus='virtio'/><iotune><total_iops_sec>9000</total_iops_sec></iotune>")],
        &[("bus='0x05' slot='0x00'", "bus='0x08' slot='0x00'")]),
    case_without_restore("/domain/devices/*/boot/**",
        &[("<boot dev='hd'/>", ""), (DISK_TARGET, "<target dev='vda' bus='virtio'/><boot order='1'/>")],
        &[("bus='0x06' slot='0x00'", "bus='0x08' slot='0x00'")]),
    case_without_restore("/domain/devices/interface/@type",
        &[("<interface type='ethernet'>", "<interface type='bridge'><source bridge='br0'/>")],
        &[("02:00:00:00:00:01", "02:00:00:00:00:02")]),
    case_without_restore("/domain/devices/interface/source/**",
        &[("<interface type='ethernet'>", "<interface type='bridge'><source bridge='br1'/>")],
        &[("<model type='virtio'/>", "<model type='e1000'/>")]),
    case_without_restore("/domain/devices/interface/target", &[("<target dev='tap0' managed='yes'/>", "")],
        &[("bus='0x02' slot='0x00'", "bus='0x08' slot='0x00'")]),
    case("/domain/devices/interface/target/@dev", &[("dev='tap0'", "dev='tap1'")],
        &[(INTERFACE_MTU, "<mtu size='1500'/><acpi index='3'/>")]),
    case_without_restore("/domain/devices/interface/target/@managed", &[(" managed='yes'", " managed='no'")],
        &[(INTERFACE_MTU, "<mtu size='9000'/>")]),
    case("/domain/devices/interface/link/**", &[(INTERFACE_LINK, "<link state='up'/>")],
        &[(INTERFACE_MTU, "<mtu size='1500'/><driver queues='2'/>")]),
    case_without_restore("/domain/devices/interface/bandwidth/**",
        &[(INTERFACE_MTU, "<mtu size='1500'/><bandwidth><inbound average='1000'/></bandwidth>")],
        &[(INTERFACE_MTU, "<mtu size='1500'/><driver name='qemu'/>")]),
    case("/domain/devices/interface/tune/**", &[(INTERFACE_MTU, "<tune><sndbuf>1600</sndbuf></tune><mtu size='1500'/>")],
        &[(INTERFACE_MTU, "<mtu size='1500'/><driver rx_queue_size='512'/>")]),
    case_without_restore("/domain/devices/interface/vlan/**", &[(INTERFACE_MTU, "<vlan><tag id='4'/></vlan><mtu size='1500'/>")],
        &[(INTERFACE_MTU, "<mtu size='1500'/><driver txmode='timer'/>")]),
    case_without_restore("/domain/devices/interface/virtualport/**",
        &[("<interface type='ethernet'>", "<interface type='bridge'><source bridge='br0'/><virtualport type='openvswitch'/>")],
        &[(INTERFACE_MTU, "<mtu size='1500'/><driver><host csum='off'/></driver>")]),
    case_without_restore("/domain/devices/interface/filterref/**", &[(INTERFACE_MTU, "<filterref filter='clean-traffic'/><mtu size='1500'/>")],
        &[(INTERFACE_MTU, "<mtu size='1500'/><driver iommu='on'/>")]),
    case("/domain/devices/interface/backend/**", &[(INTERFACE_MTU, "<backend vhost='/dev/null'/><mtu size='1500'/>")],
        &[(INTERFACE_MTU, "<mtu size='1500'/><driver event_idx='off'/>")]),
    case_without_restore("/domain/devices/interface/rom", &[("<rom file='/var/run/kubevirt/efi-virtio.rom'/>", "")],
        &[("<address type='virtio-serial' controller='0' bus='0' port='1'/>", "<address type='virtio-serial' controller='0' bus='0' port='2'/>")]),
    case("/domain/devices/interface/rom/@file", &[("/efi-virtio.rom'", "/efi-e1000.rom'")],
        &[("org.qemu.guest_agent.0", "org.qemu.guest_agent.1")]),
    case("/domain/devices/serial/@type", &[(SERIAL_DEVICE, "<serial type='pty'>")],
        &[("<model name='isa-serial'/>", "<model name='isa-debugcon'/>")]),
    case("/domain/devices/serial/source/**", &[(SERIAL_DEVICE, "<serial type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial2'/>")],
        &[("<target type='isa-serial' port='0'>", "<target type='isa-serial' port='1'>")]),
    case("/domain/devices/serial/log/**", &[(SERIAL_DEVICE, "<serial type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial'/>
      <log file='/var/run/kubevirt-private/serial.log' append='off'/>")],
        &[(DEVICES_END, "<serial type='pty'><target type='isa-serial' port='1'/></serial></devices>")]),
    case("/domain/devices/serial/log/@file", &[(SERIAL_DEVICE, "<serial type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial'/>
      <log file='/var/run/kubevirt-private/serial2.log' append='on'/>")],
        &[(DEVICES_END, "<parallel type='pty'/></devices>")]),
    case("/domain/devices/console/@type", &[(CONSOLE_DEVICE, "<console type='pty'>")],
        &[(DEVICES_END, "<console type='pty'><target type='virtio' port='1'/></console></devices>")]),
    case("/domain/devices/console/source/**", &[(CONSOLE_DEVICE, "<console type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial2'/>")],
        &[(DEVICES_END, "<filesystem type='mount'><source dir='/a'/><target dir='b'/></filesystem></devices>")]),
    case("/domain/devices/console/log/**", &[(CONSOLE_DEVICE, "<console type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial'/>
      <log file='/var/run/kubevirt-private/serial.log' append='off'/>")],
        &[(DEVICES_END, "<shmem name='x'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem></devices>")]),
    case("/domain/devices/console/log/@file", &[(CONSOLE_DEVICE, "<console type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial'/>
      <log file='/var/run/kubevirt-private/serial2.log' append='on'/>")],
        &[(DEVICES_END, "<hostdev mode='subsystem' type='pci'><source><address domain='0' bus='9' slot='0' function='0'/></source></hostdev></devices>")]),
    case("/domain/devices/channel/source/**", &[("/agent'", "/agent2'")],
        &[(DEVICES_END, "<channel type='unix'><target type='virtio' name='x'/></channel></devices>")]),
    case("/domain/devices/channel/log/**", &[("/channel.log' append='on'", "/channel.log' append='off'")],
        &[("<controller type='virtio-serial' index='0'>", "<controller type='virtio-serial' index='0' ports='8'>")]),
    case("/domain/devices/channel/log/@file", &[("/channel.log'", "/channel2.log'")],
        &[("<controller type='virtio-serial' index='0'>", "<controller type='virtio-serial' index='0' vectors='8'>")]),
    case("/domain/devices/rng/backend/**", &[(">/dev/urandom<", ">/dev/random<")],
        &[("<rng model='virtio'>", "<rng model='virtio-non-transitional'>")]),
    case("/domain/devices/rng/rate/**", &[("<backend model='random'>", "<rate bytes='1234'/><backend model='random'>")],
        &[(DEVICES_END, "<controller type='scsi' index='0' model='virtio-scsi'/></devices>")]),
    case("/domain/devices/memballoon/stats/@period", &[("period='10'", "period='5'")],
        &[("<memballoon model='virtio'>", "<memballoon model='virtio' freePageReporting='on'>")]),
    case("/domain/devices/watchdog/@action",
        &[("model='i6300esb' action='reset'", "model='i6300esb' action='poweroff'"), ("model='itco' action='reset'", "model='itco' action='poweroff'")],
        &[("<memballoon model='virtio'>", "<memballoon model='virtio' autodeflate='on'>")]),
];
