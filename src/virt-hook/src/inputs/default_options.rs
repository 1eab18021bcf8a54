//! The options that virt-handler sends in a KubeVirt 1.9 cluster with the default configuration
//! (`pkg/virt-config/virt-config.go`). The launcher derives the rest from the VMI itself.

use kubevirt_api::virtual_machine_options::{ClusterConfig, Options, Smbios};

/// What the defaults are, for people.
pub(super) const DESCRIPTION: &str =
    "SMBIOS of KubeVirt, balloon statistics every 10 s, bochs video for UEFI guests";
const BALLOON_PERIOD_SECONDS: u32 = 10;

pub(super) fn of_a_default_cluster() -> Options {
    Options {
        smbios: Some(Smbios {
            manufacturer: "KubeVirt".to_owned(),
            family: "KubeVirt".to_owned(),
            product: "None".to_owned(),
            ..Smbios::default()
        }),
        mem_balloon_stats_period: BALLOON_PERIOD_SECONDS,
        cluster_config: Some(ClusterConfig {
            bochs_display_for_efi_guests: true,
            ..ClusterConfig::default()
        }),
        ..Options::default()
    }
}
