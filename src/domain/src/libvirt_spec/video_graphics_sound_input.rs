//! Elements of video, graphics, sound and input.

use kubevirt_api::typed_xml::element;

use super::{Address, Alias};

element! {
    /// A video card.
    Video {
        model: VideoModel = child "model" => "Model";
    }

    /// The model of a video card. Memory sizes are in KiB.
    VideoModel {
        kind: String = attr "type" => "Type";
        heads: Option<u64> = attr "heads" => "Heads";
        ram: Option<u64> = attr "ram" => "Ram";
        vram: Option<u64> = attr "vram" => "VRam";
        vgamem: Option<u64> = attr "vgamem" => "VGAMem";
    }

    /// A graphical display.
    Graphics {
        auto_port: String = attr "autoport" when set => "AutoPort";
        default_mode: String = attr "defaultMode" when set => "DefaultMode";
        listen: Option<GraphicsListen> = child "listen" => "Listen";
        passwd_valid_to: String = attr "passwdValidTo" when set => "PasswdValidTo";
        port: i32 = attr "port" when set => "Port";
        tls_port: i64 = attr "tlsPort" when set => "TLSPort";
        kind: String = attr "type" => "Type";
    }

    /// The socket or address of a display.
    GraphicsListen {
        kind: String = attr "type" => "Type";
        address: String = attr "address" when set => "Address";
        /// KubeVirt's types spell the attribute `newtork`.
        network: String = attr "newtork" when set => "Network";
        socket: String = attr "socket" when set => "Socket";
    }

    /// A sound card.
    SoundCard {
        alias: Option<Alias> = child "alias" => "Alias";
        model: String = attr "model" => "Model";
    }

    /// An input device.
    Input {
        kind: String = attr "type" => "Type";
        bus: String = attr "bus" => "Bus";
        alias: Option<Alias> = child "alias" => "Alias";
        address: Option<Address> = child "address" => "Address";
        model: String = attr "model" when set => "Model";
    }
}
