//! Elements of disks.

use kubevirt_api::typed_xml::element;

use super::{Address, Alias, BootOrder};

element! {
    /// A disk, CD-ROM or LUN.
    Disk {
        device: String = attr "device" => "Device";
        snapshot: String = attr "snapshot" when set => "Snapshot";
        kind: String = attr "type" => "Type";
        source: DiskSource = child "source" => "Source";
        target: DiskTarget = child "target" => "Target";
        serial: String = child "serial" when set => "Serial";
        driver: Option<DiskDriver> = child "driver" => "Driver";
        read_only: Option<ReadOnly> = child "readonly" => "ReadOnly";
        auth: Option<DiskAuth> = child "auth" => "Auth";
        alias: Option<Alias> = child "alias" => "Alias";
        backing_store: Option<BackingStore> = child "backingStore" => "BackingStore";
        boot_order: Option<BootOrder> = child "boot" => "BootOrder";
        address: Option<Address> = child "address" => "Address";
        model: String = attr "model" when set => "Model";
        block_io: Option<BlockIo> = child "blockio" => "BlockIO";
        filesystem_overhead: Option<String> = child "filesystemOverhead" => "FilesystemOverhead";
        capacity: Option<i64> = child "capacity" => "Capacity";
        expand_disks_enabled: Option<bool> = child "expandDisksEnabled" => "ExpandDisksEnabled";
        shareable: Option<Shareable> = child "shareable" => "Shareable";
    }

    /// Credentials for a network disk.
    DiskAuth {
        username: String = attr "username" => "Username";
        secret: Option<DiskSecret> = child "secret" => "Secret";
    }

    /// The libvirt secret with a network disk's password.
    DiskSecret {
        kind: String = attr "type" => "Type";
        usage: String = attr "usage" when set => "Usage";
        uuid: String = attr "uuid" when set => "UUID";
    }

    /// If present, the guest cannot write.
    ReadOnly {}

    /// If present, several guests may use the disk at once.
    Shareable {}

    /// The file, device or network address of a disk's data.
    DiskSource {
        dev: String = attr "dev" when set => "Dev";
        file: String = attr "file" when set => "File";
        startup_policy: String = attr "startupPolicy" when set => "StartupPolicy";
        protocol: String = attr "protocol" when set => "Protocol";
        name: String = attr "name" when set => "Name";
        host: Option<DiskSourceHost> = child "host" => "Host";
        reservations: Option<Reservations> = child "reservations" => "Reservations";
        slices: Vec<Slice> = child "slices" => "Slices";
        data_store: Option<Box<DataStore>> = child "dataStore" => "DataStore";
    }

    /// The disk as the guest sees it.
    DiskTarget {
        bus: String = attr "bus" when set => "Bus";
        device: String = attr "dev" when set => "Device";
        tray: String = attr "tray" when set => "Tray";
    }

    /// Settings of QEMU's block driver.
    DiskDriver {
        cache: String = attr "cache" when set => "Cache";
        error_policy: String = attr "error_policy" when set => "ErrorPolicy";
        io: String = attr "io" when set => "IO";
        name: String = attr "name" => "Name";
        kind: String = attr "type" => "Type";
        io_thread: Option<u64> = attr "iothread" => "IOThread";
        io_threads: Option<DiskIoThreads> = child "iothreads" => "IOThreads";
        queues: Option<u64> = attr "queues" => "Queues";
        discard: String = attr "discard" when set => "Discard";
        iommu: String = attr "iommu" when set => "IOMMU";
    }

    /// The IO threads that serve a disk.
    DiskIoThreads {
        io_thread: Vec<DiskIoThread> = child "iothread" => "IOThread";
    }

    /// One IO thread that serves a disk.
    DiskIoThread {
        id: u32 = attr "id" => "Id";
    }

    /// A network disk's host.
    DiskSourceHost {
        name: String = attr "name" => "Name";
        port: String = attr "port" when set => "Port";
    }

    /// A separate file or device with the data of a qcow2 image.
    DataStore {
        kind: String = attr "type" when set => "Type";
        format: Option<DataStoreFormat> = child "format" => "Format";
        source: Option<DiskSource> = child "source" => "Source";
    }

    /// The format of a data store.
    DataStoreFormat {
        kind: String = attr "type" => "Type";
    }

    /// The backing image of an overlay.
    BackingStore {
        kind: String = attr "type" when set => "Type";
        format: Option<BackingStoreFormat> = child "format" => "Format";
        source: Option<DiskSource> = child "source" => "Source";
    }

    /// The format of a backing image.
    BackingStoreFormat {
        kind: String = attr "type" => "Type";
    }

    /// The block sizes that the guest sees.
    BlockIo {
        logical_block_size: u64 = attr "logical_block_size" when set => "LogicalBlockSize";
        physical_block_size: u64 = attr "physical_block_size" when set => "PhysicalBlockSize";
        discard_granularity: Option<u64> = attr "discard_granularity" => "DiscardGranularity";
    }

    /// SCSI persistent reservations.
    Reservations {
        managed: String = attr "managed" when set => "Managed";
        migration: String = attr "migration" when set => "Migration";
        source_reservations: Option<SourceReservations> = child "source" => "SourceReservations";
    }

    /// The helper process for persistent reservations.
    SourceReservations {
        kind: String = attr "type" => "Type";
        path: String = attr "path" when set => "Path";
        mode: String = attr "mode" when set => "Mode";
    }

    /// A part of an image.
    Slice {
        slice: SliceType = child "slice" => "Slice";
    }

    /// Kind, offset and size of a slice in bytes.
    SliceType {
        kind: String = attr "type" => "Type";
        offset: i64 = attr "offset" => "Offset";
        size: i64 = attr "size" => "Size";
    }
}

impl Disk {
    /// The driver, which is added if the disk has none.
    pub(crate) fn driver_mut(&mut self) -> &mut DiskDriver {
        self.driver.get_or_insert_default()
    }
}
