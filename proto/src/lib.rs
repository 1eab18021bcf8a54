//! The gRPC services that virt-launcher shares with virt-handler and with hook sidecars, as of KubeVirt v1.9, and the
//! plugin service that v1.10 renames. For compatibility, package, service and method names and field numbers must be
//! those of KubeVirt. Each module here is one protobuf package.
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
        tonic::include_proto!("kubevirt.cmd.info");
    }
    pub mod v1 {
        tonic::include_proto!("kubevirt.cmd.v1");
    }
}

/// `kubevirt.nbd`: the data of a backup in pull mode, served by the launcher to the export server.
pub mod nbd {
    tonic::include_proto!("kubevirt.nbd");
}

/// `kubevirt.notify`: the notification service, served by virt-handler.
pub mod notify {
    pub mod info {
        tonic::include_proto!("kubevirt.notify.info");
    }
    pub mod v1 {
        tonic::include_proto!("kubevirt.notify.v1");
    }
}

/// `kubevirt.hooks`: hook services, served by hook sidecars and plugin sidecars.
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
