//! The members of the VMI that conditions may use: their names in Go, their paths in the JSON, and their CEL types.
//!
//! Source: the `api/core/v1` types of KubeVirt v1.9, and Kubernetes' `TypeMeta` and `ObjectMeta`, whose
//! members are also members of the VMI.

/// A member of a Go struct.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// The name of the member in Go.
    pub(super) name: &'static str,
    /// The path of the member in the JSON of its struct.
    pub(super) json: &'static [&'static str],
    pub(super) kind: Kind,
}

/// The CEL type of a member.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    String,
    Bool,
    Int,
    Uint,
    /// A map from strings to strings.
    Map,
    /// A struct that is always present. CEL's `has` is false for it if all its members are zero, which is not supported
    /// here.
    Struct(&'static [Member]),
    /// A struct behind a pointer. If the pointer is nil, the members are zero.
    Pointer(&'static [Member]),
}

const fn member(name: &'static str, json: &'static [&'static str], kind: Kind) -> Member {
    Member { name, json, kind }
}

macro_rules! meta {
    ($($name:literal $json:literal $kind:ident),* $(,)?) => {
        /// The members of `ObjectMeta`, with paths from `metadata`.
        const META: &[Member] = &[$(member($name, &[$json], Kind::$kind)),*];
        /// The members of the VMI.
        pub(super) const VMI: &[Member] = &[
            $(member($name, &["metadata", $json], Kind::$kind),)*
            member("Kind", &["kind"], Kind::String),
            member("APIVersion", &["apiVersion"], Kind::String),
            member("ObjectMeta", &["metadata"], Kind::Struct(META)),
            member("Spec", &["spec"], Kind::Struct(SPEC)),
            member("Status", &["status"], Kind::Struct(STATUS)),
        ];
    };
}

meta! {
    "Name" "name" String,
    "GenerateName" "generateName" String,
    "Namespace" "namespace" String,
    "UID" "uid" String,
    "ResourceVersion" "resourceVersion" String,
    "Generation" "generation" Int,
    "Labels" "labels" Map,
    "Annotations" "annotations" Map,
}

const SPEC: &[Member] = &[
    member("PriorityClassName", &["priorityClassName"], Kind::String),
    member("Domain", &["domain"], Kind::Struct(DOMAIN)),
    member("NodeSelector", &["nodeSelector"], Kind::Map),
    member("SchedulerName", &["schedulerName"], Kind::String),
    member("ServiceAccountName", &["serviceAccountName"], Kind::String),
    member("Hostname", &["hostname"], Kind::String),
    member("Subdomain", &["subdomain"], Kind::String),
    member("Architecture", &["architecture"], Kind::String),
];

const DOMAIN: &[Member] = &[
    member("CPU", &["cpu"], Kind::Pointer(CPU)),
    member("Machine", &["machine"], Kind::Pointer(MACHINE)),
    member("Firmware", &["firmware"], Kind::Pointer(FIRMWARE)),
    member("Chassis", &["chassis"], Kind::Pointer(CHASSIS)),
];

const CPU: &[Member] = &[
    member("Cores", &["cores"], Kind::Uint),
    member("Sockets", &["sockets"], Kind::Uint),
    member("MaxSockets", &["maxSockets"], Kind::Uint),
    member("Threads", &["threads"], Kind::Uint),
    member("Model", &["model"], Kind::String),
    member(
        "DedicatedCPUPlacement",
        &["dedicatedCpuPlacement"],
        Kind::Bool,
    ),
    member(
        "IsolateEmulatorThread",
        &["isolateEmulatorThread"],
        Kind::Bool,
    ),
];

const MACHINE: &[Member] = &[member("Type", &["type"], Kind::String)];

const FIRMWARE: &[Member] = &[
    member("UUID", &["uuid"], Kind::String),
    member("Serial", &["serial"], Kind::String),
];

const CHASSIS: &[Member] = &[
    member("Manufacturer", &["manufacturer"], Kind::String),
    member("Version", &["version"], Kind::String),
    member("Serial", &["serial"], Kind::String),
    member("Asset", &["asset"], Kind::String),
    member("Sku", &["sku"], Kind::String),
];

const STATUS: &[Member] = &[
    member("NodeName", &["nodeName"], Kind::String),
    member("Phase", &["phase"], Kind::String),
    member("RuntimeUser", &["runtimeUser"], Kind::Uint),
];
