//! Elements of panic devices, vsock and USB redirection.
//!
//! The last column is the name in JSON; `when set` omits a zero value from the XML. [`element!`] describes the syntax.

use kubevirt_api::typed_xml::element;

element! {
    /// A device through which the guest reports a panic.
    PanicDevice {
        model: Option<String> = attr "model" => "Model";
    }

    /// A vsock device.
    Vsock {
        model: String = attr "model" when set => "Model";
        cid: Cid = child "cid" => "CID";
    }

    /// The context id of a vsock device.
    Cid {
        auto: String = attr "auto" => "Auto";
        address: u32 = attr "address" when set => "Address";
    }

    /// A port to which a client can redirect a USB device.
    RedirectedDevice {
        kind: String = attr "type" => "Type";
        bus: String = attr "bus" => "Bus";
        source: RedirectedDeviceSource = child "source" => "Source";
    }

    /// The socket of such a port.
    RedirectedDeviceSource {
        mode: String = attr "mode" => "Mode";
        path: String = attr "path" => "Path";
    }
}
