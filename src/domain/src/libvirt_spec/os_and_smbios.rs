//! Elements of boot, firmware and SMBIOS.

use kubevirt_api::typed_xml::element;

element! {
    /// Boot settings.
    Os {
        firmware: String = attr "firmware" when set => "Firmware";
        firmware_info: Option<FirmwareInfo> = child "firmware" => "FirmwareInfo";
        kind: OsType = child "type" => "Type";
        acpi: Option<OsAcpi> = child "acpi" => "ACPI";
        smbios: Option<Smbios> = child "smbios" => "SMBios";
        boot_order: Vec<Boot> = child "boot" => "BootOrder";
        boot_menu: Option<BootMenu> = child "bootmenu" => "BootMenu";
        bios: Option<Bios> = child "bios" => "BIOS";
        boot_loader: Option<Loader> = child "loader" => "BootLoader";
        nvram: Option<NVRam> = child "nvram" => "NVRam";
        kernel: String = child "kernel" when set => "Kernel";
        initrd: String = child "initrd" when set => "Initrd";
        kernel_args: String = child "cmdline" when set => "KernelArgs";
    }

    /// Features of the firmware that libvirt chooses.
    FirmwareInfo {
        features: Vec<FirmwareFeature> = child "feature" => "Features";
    }

    /// One firmware feature.
    FirmwareFeature {
        enabled: String = attr "enabled" => "Enabled";
        name: String = attr "name" => "Name";
    }

    /// Architecture and machine type.
    OsType {
        os: String = text => "OS";
        arch: String = attr "arch" when set => "Arch";
        machine: String = attr "machine" when set => "Machine";
    }

    /// Additional ACPI tables.
    OsAcpi {
        table: Vec<AcpiTable> = child "table" => "Table";
    }

    /// One ACPI table from a file.
    AcpiTable {
        path: String = text => "Path";
        kind: String = attr "type" when set => "Type";
    }

    /// The source of SMBIOS data.
    Smbios {
        mode: String = attr "mode" => "Mode";
    }

    /// The variable store of UEFI firmware.
    NVRam {
        template: String = attr "template" when set => "Template";
        format: String = attr "format" when set => "Format";
        nvram: String = text => "NVRam";
    }

    /// One class of devices in the boot order.
    Boot {
        dev: String = attr "dev" => "Dev";
    }

    /// The firmware's boot menu.
    BootMenu {
        enable: String = attr "enable" => "Enable";
        timeout: Option<u64> = attr "timeout" => "Timeout";
    }

    /// The firmware image.
    Loader {
        read_only: String = attr "readonly" when set => "ReadOnly";
        secure: String = attr "secure" when set => "Secure";
        kind: String = attr "type" when set => "Type";
        path: String = text => "Path";
    }

    /// Settings of BIOS firmware.
    Bios {
        use_serial: String = attr "useserial" when set => "UseSerial";
    }

    /// SMBIOS data for the guest.
    SysInfo {
        kind: String = attr "type" => "Type";
        system: Vec<Entry> = list "entry" in "system" => "System";
        bios: Vec<Entry> = list "entry" in "bios" => "BIOS";
        base_board: Vec<Entry> = list "entry" in "baseBoard" => "BaseBoard";
        chassis: Vec<Entry> = list "entry" in "chassis" => "Chassis";
    }

    /// One SMBIOS field.
    Entry {
        name: String = attr "name" => "Name";
        value: String = text => "Value";
    }
}
