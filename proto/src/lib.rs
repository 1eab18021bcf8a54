//! The gRPC services that virt-launcher shares with virt-handler and with hook sidecars, as of KubeVirt v1.9, and the
//! plugin service that v1.10 renames. For compatibility, package, service and method names and field numbers must be
//! those of KubeVirt. Each module here is one protobuf package; `tests/generated_code_up_to_date.rs` generates the code from
//! `proto/`.
#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::unwrap_used
)]

/// `kubevirt.cmd`: the command service, served by the launcher.
pub mod cmd {
    pub mod info {
        include!("generated/kubevirt.cmd.info.rs");
    }
    pub mod v1 {
        include!("generated/kubevirt.cmd.v1.rs");
    }
}

/// `kubevirt.nbd`: the data of a backup in pull mode, served by the launcher to the export server.
pub mod nbd {
    include!("generated/kubevirt.nbd.rs");
}

/// `kubevirt.notify`: the notification service, served by virt-handler.
pub mod notify {
    pub mod info {
        include!("generated/kubevirt.notify.info.rs");
    }
    pub mod v1 {
        include!("generated/kubevirt.notify.v1.rs");
    }
}

/// `kubevirt.hooks`: hook services, served by hook sidecars and plugin sidecars.
pub mod hooks {
    pub mod info {
        include!("generated/kubevirt.hooks.info.rs");
    }
    pub mod v1alpha1 {
        include!("generated/kubevirt.hooks.v1alpha1.rs");
    }
    pub mod v1alpha2 {
        include!("generated/kubevirt.hooks.v1alpha2.rs");
    }
    pub mod v1alpha3 {
        include!("generated/kubevirt.hooks.v1alpha3.rs");
    }
    pub mod plugins {
        pub mod v1alpha1 {
            include!("generated/kubevirt.hooks.plugins.v1alpha1.rs");
        }
    }
}
