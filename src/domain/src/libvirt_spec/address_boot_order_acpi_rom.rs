//! Elements that several devices share: address, boot order, ACPI index, option ROM.

use kubevirt_api::typed_xml::element;

element! {
    /// A device's address on its bus.
    Address {
        kind: String = attr "type" when set => "Type";
        domain: String = attr "domain" when set => "Domain";
        bus: String = attr "bus" when set => "Bus";
        slot: String = attr "slot" when set => "Slot";
        function: String = attr "function" when set => "Function";
        controller: String = attr "controller" when set => "Controller";
        target: String = attr "target" when set => "Target";
        unit: String = attr "unit" when set => "Unit";
        uuid: String = attr "uuid" when set => "UUID";
        device: String = attr "device" when set => "Device";
        cssid: String = attr "cssid" when set => "CSSID";
        ssid: String = attr "ssid" when set => "SSID";
        dev_no: String = attr "devno" when set => "DevNo";
    }

    /// A device's place in the boot order.
    BootOrder {
        order: u64 = attr "order" => "Order";
    }

    /// A device's ACPI index.
    Acpi {
        index: u64 = attr "index" => "Index";
    }

    /// A device's option ROM.
    Rom {
        enabled: String = attr "enabled" => "Enabled";
    }
}
