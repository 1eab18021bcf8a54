//! The list of devices.

use kubevirt_api::typed_xml::element;

use super::{
    Channel, Console, Controller, Disk, FilesystemDevice, Graphics, HostDevice, Input, Interface,
    IommuDevice, MemBalloon, MemoryDevice, PanicDevice, RedirectedDevice, Rng, Serial, SoundCard,
    Tpm, Video, Vsock, Watchdog,
};

element! {
    /// All devices of the domain.
    Devices {
        emulator: String = child "emulator" when set => "Emulator";
        interfaces: Vec<Interface> = child "interface" => "Interfaces";
        channels: Vec<Channel> = child "channel" => "Channels";
        host_devices: Vec<HostDevice> = child "hostdev" => "HostDevices";
        panic_devices: Vec<PanicDevice> = child "panic" => "PanicDevices";
        controllers: Vec<Controller> = child "controller" => "Controllers";
        video: Vec<Video> = child "video" => "Video";
        graphics: Vec<Graphics> = child "graphics" => "Graphics";
        ballooning: Option<MemBalloon> = child "memballoon" => "Ballooning";
        disks: Vec<Disk> = child "disk" => "Disks";
        inputs: Vec<Input> = child "input" => "Inputs";
        serials: Vec<Serial> = child "serial" => "Serials";
        consoles: Vec<Console> = child "console" => "Consoles";
        watchdogs: Vec<Watchdog> = child "watchdog" => "Watchdogs";
        rng: Option<Rng> = child "rng" => "Rng";
        filesystems: Vec<FilesystemDevice> = child "filesystem" => "Filesystems";
        redirs: Vec<RedirectedDevice> = child "redirdev" => "Redirs";
        sound_cards: Vec<SoundCard> = child "sound" => "SoundCards";
        tpms: Vec<Tpm> = child "tpm" => "TPMs";
        vsock: Option<Vsock> = child "vsock" => "VSOCK";
        memory: Option<MemoryDevice> = child "memory" => "Memory";
        iommu: Vec<IommuDevice> = child "iommu" => "IOMMU";
    }
}
