//! Elements of virtual IOMMUs and iommufd.

use kubevirt_api::typed_xml::element;

element! {
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

    /// Whether host devices are opened through iommufd.
    IommuFd named "iommufd" {
        enabled: String = attr "enabled" => "Enabled";
        fd_group: String = attr "fdgroup" when set => "FDGroup";
    }
}
