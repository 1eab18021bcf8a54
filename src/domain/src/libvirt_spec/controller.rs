//! Elements of controllers.

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
        hotplug: Option<String> = attr "hotplug" => "Hotplug";
        bus_nr: Option<u32> = attr "busNr" => "BusNr";
        numa_node: Option<u32> = child "node" => "NUMANode";
    }

    /// The size of the 64-bit PCI window.
    PciHole64 {
        value: u64 = text => "Value";
        unit: String = attr "unit" when set => "Unit";
    }
}

/// Whether a PCI controller of this model is a root bus, which is not a device on another bus.
pub(crate) fn is_pci_root_bus(model: &str) -> bool {
    matches!(model, "pci-root" | "pcie-root" | "pcie-expander-bus")
}
