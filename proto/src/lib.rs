//! The gRPC contract that virt-launcher shares with virt-handler and with hook sidecars, as of
//! KubeVirt v1.9, and the service of plugins that v1.10 renames. Package, service and method names and field numbers are the compatibility
//! contract; one module here is one protobuf package.
#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::unwrap_used
)]

/// `kubevirt.cmd`: commands, served by the launcher.
pub mod cmd {
    pub mod info {
        tonic::include_proto!("kubevirt.cmd.info");
    }
    pub mod v1 {
        tonic::include_proto!("kubevirt.cmd.v1");
    }
}

/// `kubevirt.nbd`: the data of a backup, served by the launcher to the export server.
pub mod nbd {
    tonic::include_proto!("kubevirt.nbd");
}

/// `kubevirt.notify`: notifications, served by virt-handler.
pub mod notify {
    pub mod info {
        tonic::include_proto!("kubevirt.notify.info");
    }
    pub mod v1 {
        tonic::include_proto!("kubevirt.notify.v1");
    }
}

/// `kubevirt.hooks`: served by hook sidecars.
pub mod hooks {
    pub mod info {
        tonic::include_proto!("kubevirt.hooks.info");
    }
    pub mod v1alpha1 {
        tonic::include_proto!("kubevirt.hooks.v1alpha1");
    }
    pub mod v1alpha2 {
        tonic::include_proto!("kubevirt.hooks.v1alpha2");
    }
    pub mod v1alpha3 {
        tonic::include_proto!("kubevirt.hooks.v1alpha3");
    }
    pub mod plugins {
        pub mod v1alpha1 {
            tonic::include_proto!("kubevirt.hooks.plugins.v1alpha1");
        }
    }
}
