//! Elements of host devices.

use kubevirt_api::typed_xml::element;

use super::{Address, Alias, BootOrder};

element! {
    /// A device of the host that the guest uses.
    HostDevice named "hostdev" {
        source: HostDeviceSource = child "source" => "Source";
        kind: String = attr "type" => "Type";
        boot_order: Option<BootOrder> = child "boot" => "BootOrder";
        managed: String = attr "managed" when set => "Managed";
        mode: String = attr "mode" when set => "Mode";
        model: String = attr "model" when set => "Model";
        address: Option<Address> = child "address" => "Address";
        alias: Option<Alias> = child "alias" => "Alias";
        display: String = attr "display" when set => "Display";
        ramfb: String = attr "ramfb" when set => "RamFB";
        driver: Option<HostDeviceDriver> = child "driver" => "Driver";
        acpi: Option<HostDeviceAcpi> = child "acpi" => "ACPI";
    }

    /// The host device's address.
    HostDeviceSource {
        address: Option<Address> = child "address" => "Address";
    }

    /// Driver settings of a host device.
    HostDeviceDriver {
        iommufd: String = attr "iommufd" when set => "Iommufd";
    }

    /// NUMA nodes of a host device's own memory.
    HostDeviceAcpi {
        node_set: String = attr "nodeset" when set => "NodeSet";
    }
}
