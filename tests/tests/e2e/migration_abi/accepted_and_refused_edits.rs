//! For each line of the ABI table: a change that the table accepts, and a similar change that libvirt refuses. The texts
//! are those of libvirt's
//! XML of `domain.xml`.

/// Replacements, each of a text that occurs once.
pub(super) type Edit = &'static [(&'static str, &'static str)];

/// A line of the table.
pub(super) struct Case {
    pub(super) line: &'static str,
    pub(super) accepted: Edit,
    pub(super) refused: Edit,
    /// Whether the domain is restored with the accepted change, together with those of other lines.
    pub(super) is_restored: bool,
}

const fn case(line: &'static str, accepted: Edit, refused: Edit) -> Case {
    Case {
        line,
        accepted,
        refused,
        is_restored: true,
    }
}

/// As [`case`], with a change that needs something of the host (huge pages, a bridge, a block device, a filter), or that
/// excludes that of another line.
const fn alone(line: &'static str, accepted: Edit, refused: Edit) -> Case {
    Case {
        is_restored: false,
        ..case(line, accepted, refused)
    }
}

const VCPU: &str = "<vcpu ";
const DRIVER: &str = "<driver name='qemu' ";
const DISK: &str = "<target dev='vda' bus='virtio'/>";
const MTU: &str = "<mtu size='1500'/>";
const LINK: &str = "<link state='down'/>";
const SERIAL: &str = "<serial type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial'/>
      <log file='/var/run/kubevirt-private/serial.log' append='on'/>";
const CONSOLE: &str = "<console type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial'/>
      <log file='/var/run/kubevirt-private/serial.log' append='on'/>";
const END: &str = "</devices>";

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    case("/domain/title", &[("<title>a title", "<title>b")],
        &[("<name>saved", "<name>other")]),
    case("/domain/description", &[("<description>a description", "<description>b")],
        &[("8e41413b-6335-446a-a639-7c16b33275ed", "8e41413b-6335-446a-a639-7c16b33275ee")]),
    case("/domain/metadata/**", &[(">a note<", ">b<")],
        &[("<title>", "<genid>e9392370-2917-565e-692b-d057f46512d6</genid><title>")]),
    alone("/domain/memoryBacking/hugepages/**", &[("<nosharepages/>", "<nosharepages/><hugepages/>")],
        &[("<nosharepages/>", "<nosharepages/><source type='memfd'/>")]),
    alone("/domain/memoryBacking/locked/**", &[("<nosharepages/>", "<nosharepages/><locked/>")],
        &[("<memory unit='KiB'>65536", "<memory unit='KiB'>131072")]),
    alone("/domain/memoryBacking/nosharepages/**", &[("<nosharepages/>", "")],
        &[("<currentMemory unit='KiB'>65536", "<currentMemory unit='KiB'>60000")]),
    case("/domain/memoryBacking/allocation/**", &[("<nosharepages/>", "<nosharepages/><allocation mode='immediate'/>")],
        &[("<nosharepages/>", "<nosharepages/><source type='anonymous'/>")]),
    case("/domain/blkiotune/**", &[(VCPU, "<blkiotune><weight>800</weight></blkiotune><vcpu ")],
        &[("<vcpu placement='static'>2", "<vcpu placement='static' current='1'>2")]),
    case("/domain/memtune/**", &[(VCPU, "<memtune><soft_limit unit='KiB'>9000000</soft_limit></memtune><vcpu ")],
        &[(">qemu64<", ">Nehalem<")]),
    case("/domain/cputune/**", &[(VCPU, "<cputune><vcpupin vcpu='0' cpuset='0'/></cputune><vcpu ")],
        &[("check='none'", "check='partial'")]),
    case("/domain/numatune/**", &[(VCPU, "<numatune><memory mode='preferred' nodeset='0'/></numatune><vcpu ")],
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
    case("/domain/os/boot/**", &[("<boot dev='hd'/>", "<boot dev='network'/>")],
        &[("</system>", "</system><chassis><entry name='serial'>x</entry></chassis>")]),
    case("/domain/sysinfo/oemStrings/**", &[(">a string<", ">b<")],
        &[(">a serial<", ">b<")]),
    case("/domain/on_poweroff", &[("<on_poweroff>destroy", "<on_poweroff>restart")],
        &[(END, "<input type='tablet' bus='virtio'/></devices>")]),
    alone("/domain/on_reboot", &[("<on_reboot>restart", "<on_reboot>destroy")],
        &[(END, "<sound model='ich9'/></devices>")]),
    case("/domain/on_crash", &[("<on_crash>destroy", "<on_crash>preserve")],
        &[(END, "<panic model='isa'/></devices>")]),
    case("/domain/on_lockfailure", &[("</on_crash>", "</on_crash><on_lockfailure>pause</on_lockfailure>")],
        &[(END, "<vsock model='virtio'><cid auto='no' address='3'/></vsock></devices>")]),
    case("/domain/seclabel/**", &[("</domain>", "<seclabel type='none'/></domain>")],
        &[(END, "<iommu model='intel'/></devices>")]),
    case("/domain/devices/emulator", &[("<emulator>/usr/bin/qemu-system-x86_64", "<emulator>/usr/bin/kvm")],
        &[("vram='16384'", "vram='32768'")]),
    case("/domain/devices/graphics/**", &[("<graphics type='vnc'", "<graphics type='vnc' keymap='de'")],
        &[("<model type='vga' vram", "<model type='bochs' vram")]),
    case("/domain/devices/*/alias/**", &[(DISK, "<target dev='vda' bus='virtio'/><alias name='ua-disk'/>")],
        &[("bus='0x04' slot='0x00'", "bus='0x08' slot='0x00'")]),
    case("/domain/qemu:commandline/qemu:env/**", &[("name='EXAMPLE' value='a'", "name='EXAMPLE' value='b'")],
        &[(END, "<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm></devices>")]),
    alone("/domain/devices/disk/@type",
        &[("<disk type='file'", "<disk type='block'"), ("<source file='/var/run/kubevirt-e", "<source dev='/var/run/kubevirt-e")],
        &[(DISK, "<target dev='vdb' bus='virtio'/>")]),
    case("/domain/devices/disk/source/**", &[("/disk.img'", "/disk2.img'")],
        &[(">disk-serial<", ">other<")]),
    case("/domain/devices/disk/driver/@cache", &[("cache='writeback'", "cache='writethrough'")],
        &[(" queues='1'", " queues='2'")]),
    case("/domain/devices/disk/driver/@io", &[(DRIVER, "<driver name='qemu' io='threads' ")],
        &[(" queues='1'", " queues='1' queue_size='128'")]),
    case("/domain/devices/disk/driver/@discard", &[(DRIVER, "<driver name='qemu' discard='unmap' ")],
        &[(DISK, "<target dev='vda' bus='virtio'/><readonly/>")]),
    case("/domain/devices/disk/driver/@detect_zeroes", &[(DRIVER, "<driver name='qemu' detect_zeroes='on' ")],
        &[(DISK, "<target dev='vda' bus='virtio'/><blockio logical_block_size='4096'/>")]),
    case("/domain/devices/disk/driver/@error_policy", &[(" error_policy='stop'", " error_policy='report'")],
        &[(" error_policy='stop'", " error_policy='stop' packed='on'")]),
    case("/domain/devices/disk/driver/@rerror_policy", &[(DRIVER, "<driver name='qemu' rerror_policy='report' ")],
        &[(" error_policy='stop'", " error_policy='stop' iommu='on'")]),
    case("/domain/devices/disk/driver/@iothread", &[(DRIVER, "<driver name='qemu' iothread='1' ")],
        &[(" device='disk'", " device='disk' model='virtio-non-transitional'")]),
    alone("/domain/devices/disk/driver/@type", &[("name='qemu' type='raw'", "name='qemu' type='qcow2'")],
        &[("<serial>disk-serial</serial>", "")]),
    case("/domain/devices/disk/iotune/**",
        &[(DISK, "<target dev='vda' bus='virtio'/><iotune><total_iops_sec>9000</total_iops_sec></iotune>")],
        &[("bus='0x05' slot='0x00'", "bus='0x08' slot='0x00'")]),
    alone("/domain/devices/*/boot/**",
        &[("<boot dev='hd'/>", ""), (DISK, "<target dev='vda' bus='virtio'/><boot order='1'/>")],
        &[("bus='0x06' slot='0x00'", "bus='0x08' slot='0x00'")]),
    alone("/domain/devices/interface/@type",
        &[("<interface type='ethernet'>", "<interface type='bridge'><source bridge='br0'/>")],
        &[("02:00:00:00:00:01", "02:00:00:00:00:02")]),
    alone("/domain/devices/interface/source/**",
        &[("<interface type='ethernet'>", "<interface type='bridge'><source bridge='br1'/>")],
        &[("<model type='virtio'/>", "<model type='e1000'/>")]),
    alone("/domain/devices/interface/target", &[("<target dev='tap0' managed='yes'/>", "")],
        &[("bus='0x02' slot='0x00'", "bus='0x08' slot='0x00'")]),
    case("/domain/devices/interface/target/@dev", &[("dev='tap0'", "dev='tap1'")],
        &[(MTU, "<mtu size='1500'/><acpi index='3'/>")]),
    alone("/domain/devices/interface/target/@managed", &[(" managed='yes'", " managed='no'")],
        &[(MTU, "<mtu size='9000'/>")]),
    case("/domain/devices/interface/link/**", &[(LINK, "<link state='up'/>")],
        &[(MTU, "<mtu size='1500'/><driver queues='2'/>")]),
    alone("/domain/devices/interface/bandwidth/**",
        &[(MTU, "<mtu size='1500'/><bandwidth><inbound average='1000'/></bandwidth>")],
        &[(MTU, "<mtu size='1500'/><driver name='qemu'/>")]),
    case("/domain/devices/interface/tune/**", &[(MTU, "<tune><sndbuf>1600</sndbuf></tune><mtu size='1500'/>")],
        &[(MTU, "<mtu size='1500'/><driver rx_queue_size='512'/>")]),
    alone("/domain/devices/interface/vlan/**", &[(MTU, "<vlan><tag id='4'/></vlan><mtu size='1500'/>")],
        &[(MTU, "<mtu size='1500'/><driver txmode='timer'/>")]),
    alone("/domain/devices/interface/virtualport/**",
        &[("<interface type='ethernet'>", "<interface type='bridge'><source bridge='br0'/><virtualport type='openvswitch'/>")],
        &[(MTU, "<mtu size='1500'/><driver><host csum='off'/></driver>")]),
    alone("/domain/devices/interface/filterref/**", &[(MTU, "<filterref filter='clean-traffic'/><mtu size='1500'/>")],
        &[(MTU, "<mtu size='1500'/><driver iommu='on'/>")]),
    case("/domain/devices/interface/backend/**", &[(MTU, "<backend vhost='/dev/null'/><mtu size='1500'/>")],
        &[(MTU, "<mtu size='1500'/><driver event_idx='off'/>")]),
    alone("/domain/devices/interface/rom", &[("<rom file='/usr/lib/ipxe/qemu/efi-virtio.rom'/>", "")],
        &[("<address type='virtio-serial' controller='0' bus='0' port='1'/>", "<address type='virtio-serial' controller='0' bus='0' port='2'/>")]),
    case("/domain/devices/interface/rom/@file", &[("/efi-virtio.rom'", "/efi-e1000.rom'")],
        &[("org.qemu.guest_agent.0", "org.qemu.guest_agent.1")]),
    case("/domain/devices/serial/@type", &[(SERIAL, "<serial type='pty'>")],
        &[("<model name='isa-serial'/>", "<model name='isa-debugcon'/>")]),
    case("/domain/devices/serial/source/**", &[(SERIAL, "<serial type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial2'/>")],
        &[("<target type='isa-serial' port='0'>", "<target type='isa-serial' port='1'>")]),
    case("/domain/devices/serial/log/**", &[(SERIAL, "<serial type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial'/>
      <log file='/var/run/kubevirt-private/serial.log' append='off'/>")],
        &[(END, "<serial type='pty'><target type='isa-serial' port='1'/></serial></devices>")]),
    case("/domain/devices/serial/log/@file", &[(SERIAL, "<serial type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial'/>
      <log file='/var/run/kubevirt-private/serial2.log' append='on'/>")],
        &[(END, "<parallel type='pty'/></devices>")]),
    case("/domain/devices/console/@type", &[(CONSOLE, "<console type='pty'>")],
        &[(END, "<console type='pty'><target type='virtio' port='1'/></console></devices>")]),
    case("/domain/devices/console/source/**", &[(CONSOLE, "<console type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial2'/>")],
        &[(END, "<filesystem type='mount'><source dir='/a'/><target dir='b'/></filesystem></devices>")]),
    case("/domain/devices/console/log/**", &[(CONSOLE, "<console type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial'/>
      <log file='/var/run/kubevirt-private/serial.log' append='off'/>")],
        &[(END, "<shmem name='x'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem></devices>")]),
    case("/domain/devices/console/log/@file", &[(CONSOLE, "<console type='unix'>
      <source mode='bind' path='/var/run/kubevirt-private/serial'/>
      <log file='/var/run/kubevirt-private/serial2.log' append='on'/>")],
        &[(END, "<hostdev mode='subsystem' type='pci'><source><address domain='0' bus='9' slot='0' function='0'/></source></hostdev></devices>")]),
    case("/domain/devices/channel/source/**", &[("/agent'", "/agent2'")],
        &[(END, "<channel type='unix'><target type='virtio' name='x'/></channel></devices>")]),
    case("/domain/devices/channel/log/**", &[("/channel.log' append='on'", "/channel.log' append='off'")],
        &[("<controller type='virtio-serial' index='0'>", "<controller type='virtio-serial' index='0' ports='8'>")]),
    case("/domain/devices/channel/log/@file", &[("/channel.log'", "/channel2.log'")],
        &[("<controller type='virtio-serial' index='0'>", "<controller type='virtio-serial' index='0' vectors='8'>")]),
    case("/domain/devices/rng/backend/**", &[(">/dev/urandom<", ">/dev/random<")],
        &[("<rng model='virtio'>", "<rng model='virtio-non-transitional'>")]),
    case("/domain/devices/rng/rate/**", &[("<backend model='random'>", "<rate bytes='1234'/><backend model='random'>")],
        &[(END, "<controller type='scsi' index='0' model='virtio-scsi'/></devices>")]),
    case("/domain/devices/memballoon/stats/@period", &[("period='10'", "period='5'")],
        &[("<memballoon model='virtio'>", "<memballoon model='virtio' freePageReporting='on'>")]),
    case("/domain/devices/watchdog/@action",
        &[("model='i6300esb' action='reset'", "model='i6300esb' action='poweroff'"), ("model='itco' action='reset'", "model='itco' action='poweroff'")],
        &[("<memballoon model='virtio'>", "<memballoon model='virtio' autodeflate='on'>")]),
];
