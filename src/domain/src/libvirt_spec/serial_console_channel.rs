//! Elements of serial ports, consoles and channels.

use kubevirt_api::typed_xml::element;

use super::Alias;

element! {
    /// A channel between host and guest.
    Channel {
        kind: String = attr "type" => "Type";
        source: Option<ChannelSource> = child "source" => "Source";
        target: Option<ChannelTarget> = child "target" => "Target";
    }

    /// The guest's side of a channel.
    ChannelTarget {
        name: String = attr "name" when set => "Name";
        kind: String = attr "type" => "Type";
        address: String = attr "address" when set => "Address";
        port: u64 = attr "port" when set => "Port";
        state: String = attr "state" when set => "State";
    }

    /// The host's side of a channel.
    ChannelSource {
        mode: String = attr "mode" => "Mode";
        path: String = attr "path" => "Path";
    }

    /// A serial port.
    Serial {
        kind: String = attr "type" => "Type";
        target: Option<SerialTarget> = child "target" => "Target";
        source: Option<SerialSource> = child "source" => "Source";
        alias: Option<Alias> = child "alias" => "Alias";
        log: Option<SerialLog> = child "log" => "Log";
    }

    /// The guest's side of a serial port.
    SerialTarget {
        port: Option<u64> = attr "port" => "Port";
    }

    /// The host's side of a serial port.
    SerialSource {
        mode: String = attr "mode" when set => "Mode";
        path: String = attr "path" when set => "Path";
    }

    /// The log file of a serial port.
    SerialLog {
        file: String = attr "file" when set => "File";
        append: String = attr "append" when set => "Append";
    }

    /// A console.
    Console {
        kind: String = attr "type" => "Type";
        target: Option<ConsoleTarget> = child "target" => "Target";
        source: Option<ConsoleSource> = child "source" => "Source";
        alias: Option<Alias> = child "alias" => "Alias";
    }

    /// The guest's side of a console.
    ConsoleTarget {
        kind: Option<String> = attr "type" => "Type";
        port: Option<u64> = attr "port" => "Port";
    }

    /// The host's side of a console.
    ConsoleSource {
        mode: String = attr "mode" when set => "Mode";
        path: String = attr "path" when set => "Path";
    }
}
