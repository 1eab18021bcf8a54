//! Elements of controllers and IOMMUs.

use kubevirt_api::typed_xml::element;

use super::{Address, Alias};

element! {
    /// A bus controller.
    Controller {
        kind: String = attr "type" => "Type";
        index: String = attr "index" => "Index";
        model: String = attr "model" when set => "Model";
        driver: Option<ControllerDriver> = child "driver" => "Driver";
        alias: Option<Alias> = child "alias" => "Alias";
        address: Option<Address> = child "address" => "Address";
        pci_hole64: Option<PciHole64> = child "pcihole64" => "PCIHole64";
        target: Option<ControllerTarget> = child "target" => "Target";
    }

    /// Driver settings of a controller.
    ControllerDriver {
        io_thread: Option<u64> = attr "iothread" => "IOThread";
        queues: Option<u64> = attr "queues" => "Queues";
        iommu: String = attr "iommu" when set => "IOMMU";
    }

    /// A PCI controller's settings in the guest.
    ControllerTarget {
        bus_nr: Option<u32> = attr "busNr" => "BusNr";
        numa_node: Option<u32> = child "node" => "NUMANode";
    }

    /// The size of the 64-bit PCI window.
    PciHole64 {
        value: u64 = text => "Value";
        unit: String = attr "unit" when set => "Unit";
    }

    /// A virtual IOMMU.
    IommuDevice named "iommu" {
        model: String = attr "model" => "Model";
        driver: Option<IommuDriver> = child "driver" => "Driver";
    }

    /// Driver settings of a virtual IOMMU.
    IommuDriver {
        pci_bus: String = attr "pciBus" when set => "PCIBus";
        accel: String = attr "accel" when set => "Accel";
        ats: String = attr "ats" when set => "ATS";
        ril: String = attr "ril" when set => "RIL";
        ssid_size: String = attr "ssidSize" when set => "SSIDSize";
        oas: String = attr "oas" when set => "OAS";
    }
}
