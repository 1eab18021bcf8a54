//! Elements of network interfaces.

use kubevirt_api::typed_xml::element;

use super::{Acpi, Address, Alias, BootOrder, Rom};

element! {
    /// A network interface.
    Interface named "interface" {
        address: Option<Address> = child "address" => "Address";
        kind: String = attr "type" => "Type";
        trust_guest_rx_filters: String = attr "trustGuestRxFilters" when set => "TrustGuestRxFilters";
        source: InterfaceSource = child "source" => "Source";
        target: Option<InterfaceTarget> = child "target" => "Target";
        model: Option<Model> = child "model" => "Model";
        mac: Option<Mac> = child "mac" => "MAC";
        mtu: Option<Mtu> = child "mtu" => "MTU";
        band_width: Option<Bandwidth> = child "bandwidth" => "BandWidth";
        boot_order: Option<BootOrder> = child "boot" => "BootOrder";
        link_state: Option<LinkState> = child "link" => "LinkState";
        filter_ref: Option<FilterRef> = child "filterref" => "FilterRef";
        alias: Option<Alias> = child "alias" => "Alias";
        driver: Option<InterfaceDriver> = child "driver" => "Driver";
        rom: Option<Rom> = child "rom" => "Rom";
        acpi: Option<Acpi> = child "acpi" => "ACPI";
        backend: Option<InterfaceBackend> = child "backend" => "Backend";
        port_forward: Vec<InterfacePortForward> = child "portForward" => "PortForward";
    }

    /// The host's side of an interface.
    InterfaceSource {
        network: String = attr "network" when set => "Network";
        device: String = attr "dev" when set => "Device";
        bridge: String = attr "bridge" when set => "Bridge";
        mode: String = attr "mode" when set => "Mode";
        address: Option<Address> = child "address" => "Address";
    }

    /// The tap device of an interface.
    InterfaceTarget {
        device: String = attr "dev" => "Device";
        managed: String = attr "managed" when set => "Managed";
    }

    /// The device model.
    Model {
        kind: String = attr "type" => "Type";
    }

    /// A MAC address.
    Mac {
        mac: String = attr "address" => "MAC";
    }

    /// The MTU in bytes.
    Mtu {
        size: String = attr "size" => "Size";
    }

    /// Bandwidth limits; KubeVirt sets none.
    Bandwidth {}

    /// Whether the link is up.
    LinkState {
        state: String = attr "state" => "State";
    }

    /// A network filter.
    FilterRef {
        filter: String = attr "filter" => "Filter";
    }

    /// Driver settings of an interface.
    InterfaceDriver {
        name: String = attr "name" => "Name";
        queues: Option<u64> = attr "queues" => "Queues";
        iommu: String = attr "iommu" when set => "IOMMU";
    }

    /// The process behind a user-mode interface.
    InterfaceBackend {
        kind: String = attr "type" when set => "Type";
        log_file: String = attr "logFile" when set => "LogFile";
    }

    /// Ports forwarded to the guest.
    InterfacePortForward {
        proto: String = attr "proto" => "Proto";
        address: String = attr "address" when set => "Address";
        dev: String = attr "dev" when set => "Dev";
        ranges: Vec<InterfacePortForwardRange> = child "range" => "Ranges";
    }

    /// One range of forwarded ports.
    InterfacePortForwardRange {
        start: u64 = attr "start" => "Start";
        end: u64 = attr "end" when set => "End";
        to: u64 = attr "to" when set => "To";
        exclude: String = attr "exclude" when set => "Exclude";
    }
}
