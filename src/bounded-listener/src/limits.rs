//! The limits of all sockets on which the programs of this workspace listen. docs/threat-model.md has them as a table.

use std::time::Duration;

/// The limits of one listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// What its connections are, in log lines.
    pub what: &'static str,
    /// How many connections are open at a time. For one more, the connection that was idle longest is closed; if none is
    /// idle, the new one.
    pub connections: usize,
}

/// The limits of one gRPC listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrpcLimits {
    /// Those of its connections.
    pub listener: Limits,
    /// How many calls a connection has open at a time (streams of HTTP/2). A client waits with further ones until one ends.
    pub calls: u32,
    /// Maximum size of a message that any of its services decodes, in bytes. At most [`MESSAGE_BYTES`].
    pub message_bytes: usize,
}

/// The command socket, which virt-handler calls. It keeps one connection, and others for requests of its users; probes in
/// the container have one each. 100 clients at once are tested. 64 calls leave room for those that wait for a libvirt that
/// hangs. KubeVirt's launcher takes requests of 4 MiB, gRPC's default.
pub const COMMAND_SOCKET: GrpcLimits = GrpcLimits {
    listener: Limits {
        what: "the command socket",
        connections: 128,
    },
    calls: 64,
    message_bytes: 6 << 20,
};

/// The socket of `virt-hook serve`, for a launcher, which has one call open at a time.
pub const HOOK_SOCKET: GrpcLimits = GrpcLimits {
    listener: Limits {
        what: "the hook socket",
        connections: 128,
    },
    calls: 16,
    message_bytes: MESSAGE_BYTES,
};

/// `virt-hook serve --metrics`: a connection is one scrape.
pub const METRICS: Limits = Limits {
    what: "the metrics",
    connections: 32,
};

/// The socket for libvirt's hook on a migration's target. A migration needs one connection: its attempts follow each
/// other.
pub const MIGRATION_HOOK: Limits = Limits {
    what: "libvirt's migration hook",
    connections: 4,
};

/// A socket for a migration's data. QEMU has one connection, one for each thread of a parallel migration, of which it
/// has at most 255, and one for each disk.
pub const MIGRATION_DATA: Limits = Limits {
    what: "a migration's data",
    connections: 512,
};

/// Maximum number of open calls of a backup's export server. A client of the backup may read many ranges at once, and one
/// that stops reading must not keep others waiting. Each buffers about 1.2 MB if the server reads nothing.
pub const BACKUP_EXPORT_CALLS: u32 = 64;

/// How many bytes the open calls of one connection hold together: requests that arrive or are worked on, and answers that
/// the client has not read. With what HTTP/2 buffers besides, a connection whose client reads nothing costs less than
/// 8 MB. The largest request that KubeVirt sends has a VMI (etcd stores at most 1.5 MiB) and 4 MiB of domain XML.
pub const CONNECTION_BYTES: usize = 7 << 20;
/// How many bytes the open calls of all connections hold together. For more, connections that hold some are closed, the
/// one that was idle longest first. KubeVirt gives the smallest sidecar 64 MB.
pub const LISTENER_BYTES: usize = 16 << 20;
/// What an open call counts in addition to its messages: its headers and its task.
pub const CALL_BYTES: usize = 16 << 10;
/// The largest message for which a connection has room.
pub const MESSAGE_BYTES: usize = CONNECTION_BYTES - CALL_BYTES;

/// In this time a new gRPC connection must send the preface of HTTP/2.
pub const PREFACE_TIMEOUT: Duration = Duration::from_secs(5);
/// A gRPC client that sends nothing for this long gets a ping.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// In this time the client must answer the ping.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// A gRPC connection is closed if the client reads nothing for this long while the server has more to send than the
/// socket's buffer takes.
pub const STALLED_WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// In this time a request must be complete after its headers.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// At the end of the server, how long clients may read their answers, after the time that running calls have.
pub const ANSWER_FLUSH_TIME: Duration = Duration::from_millis(250);
/// After that, how long the server's tasks may take to end.
pub const TASK_END_TIME: Duration = Duration::from_millis(100);

/// Maximum size of a request's headers in bytes, uncompressed.
pub const HEADER_LIST_BYTES: u32 = 16 << 10;
/// The window of a stream: how many bytes a client sends before the server reads them.
pub const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// The window of all streams of a connection together.
pub const CONNECTION_WINDOW_BYTES: u32 = 512 << 10;
/// A connection that resets more streams than this before the server has seen them is closed.
pub const PENDING_RESETS: usize = 20;

/// What would be logged for each client is logged once in this time.
pub const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// The pause after an error of accepting a connection, such as too many open files.
pub const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
