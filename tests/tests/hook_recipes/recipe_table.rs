//! The table of all recipes, with their wishes and effects.

use hooks_sdk::{CloudInit, Domain, Result, Vmi};

use crate::{added_devices, cloud_init, domain_settings};

/// A recipe that changes the domain.
pub(crate) struct DomainRecipe {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Vmi, &mut Domain) -> Result,
    /// Paths in the domain, which begin with `/`, and facts about the pod.
    pub(crate) wishes: &'static [&'static str],
    /// A path, and its value after the recipe.
    pub(crate) effect: (&'static str, &'static str),
}

macro_rules! recipes {
    ($($module:ident::$name:ident { $($wish:literal),+ } => $path:literal = $value:literal;)+) => {
        /// All recipes that change the domain.
        pub(crate) const DOMAIN_RECIPES: &[DomainRecipe] = &[$(DomainRecipe {
            name: stringify!($name),
            run: $module::$name,
            wishes: &[$($wish),+],
            effect: ($path, $value),
        }),+];
    };
}

recipes! {
    added_devices::usb_device {
        "/domain/devices/hostdev[@type='usb']/**",
        "/domain/devices/controller[@type='usb']/@model"
    } => "devices/hostdev[@type='usb']/source/product/@id" = "0x0825";
    added_devices::pci_device {
        "/domain/devices/hostdev[@type='pci']/**"
    } => "devices/hostdev[@type='pci']/source/address/@bus" = "0x3b";
    added_devices::vgpu_display {
        "/domain/devices/hostdev[@type='mdev']/@display",
        "/domain/devices/hostdev[@type='mdev']/@ramfb",
        "/domain/devices/video/model/**"
    } => "devices/hostdev[@type='mdev']/@display" = "on";
    added_devices::shared_memory {
        "/domain/devices/shmem/**",
        "/domain/devices/shmem/@name"
    } => "devices/shmem/size" = "4";
    added_devices::watchdog { "/domain/devices/watchdog/**" } => "devices/watchdog/@action" = "reset";
    added_devices::tpm { "/domain/devices/tpm/**" } => "devices/tpm/backend/@version" = "2.0";
    added_devices::second_serial_port { "/domain/devices/serial/**" } => "devices/serial[target/@port='1']/@type" = "null";
    added_devices::vnc_keymap { "/domain/devices/graphics/@keymap" } => "devices/graphics/@keymap" = "de";
    domain_settings::pinning_and_numa {
        "/domain/cputune/**",
        "/domain/numatune/**"
    } => "cputune/vcpupin[@vcpu='1']/@cpuset" = "5";
    domain_settings::huge_pages { "/domain/memoryBacking/**" } => "memoryBacking/hugepages/page/@size" = "2";
    domain_settings::disk_queues_and_io_thread {
        "/domain/iothreads",
        "/domain/devices/disk/driver/@queues",
        "/domain/devices/disk/driver/@iothread"
    } => "devices/disk[target/@dev='vda']/driver/@queues" = "2";
    domain_settings::interface_queues { "/domain/devices/interface/driver/**" } => "devices/interface/driver/@queues" = "2";
    domain_settings::interface_model { "/domain/devices/interface/model/@type" } => "devices/interface/model/@type" = "e1000e";
    domain_settings::cpu_features { "/domain/cpu/feature/**" } => "cpu/feature[@name='invtsc']/@policy" = "require";
    domain_settings::hide_kvm {
        "/domain/features/kvm/**",
        "/domain/cpu/feature/**"
    } => "features/kvm/hidden/@state" = "on";
    domain_settings::board_serial_number {
        "/domain/os/smbios/**",
        "/domain/sysinfo/baseBoard/**"
    } => "sysinfo[@type='smbios']/baseBoard/entry[@name='serial']" = "6b3e";
    domain_settings::firmware_configuration { "/domain/sysinfo[@type='fwcfg']/**" }
        => "sysinfo[@type='fwcfg']/entry[@name='opt/com.example/role']" = "database";
    domain_settings::qemu_arguments { "/domain/qemu:commandline/**" }
        => "qemu:commandline/qemu:arg[2]/@value" = "ICH9-LPC.disable_s3=1";
    domain_settings::not_on_a_migration_target { "/domain/devices/input/**" }
        => "devices/input[@type='keyboard']/@bus" = "virtio";
    domain_settings::disk_limit_of_the_pod {
        "/domain/devices/disk/iotune/**",
        "annotations/example.com/disk-iops"
    } => "devices/disk[target/@dev='vda']/iotune/total_iops_sec" = "500";
}

/// A recipe that changes cloud-init data.
pub(crate) struct CloudInitRecipe {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Vmi, &mut CloudInit) -> Result,
    /// Facts about the pod.
    pub(crate) wishes: &'static [&'static str],
    /// A document, and a part of its text after the recipe.
    pub(crate) effect: (&'static str, &'static str),
}

macro_rules! cloud_init_recipes {
    ($($name:ident { $($wish:literal),* } => $document:literal: $part:literal;)+) => {
        /// All recipes that change cloud-init data.
        pub(crate) const CLOUD_INIT_RECIPES: &[CloudInitRecipe] = &[$(CloudInitRecipe {
            name: stringify!($name),
            run: cloud_init::$name,
            wishes: &[$($wish),*],
            effect: ($document, $part),
        }),+];
    };
}

cloud_init_recipes! {
    packages {} => "user-data": "\"qemu-guest-agent\"";
    user {} => "user-data": "ssh-ed25519 AAAA ops";
    network {} => "network-data": "mtu: 1400";
    where_it_runs {} => "user-data": "node=node01";
    address_of_the_pod { "network-status/infra/lab" } => "network-data": "192.0.2.10/24";
}

/// The wishes of all recipes.
pub(crate) fn all_wishes() -> impl Iterator<Item = &'static &'static str> {
    let of_domains = DOMAIN_RECIPES.iter().flat_map(|recipe| recipe.wishes);
    of_domains.chain(CLOUD_INIT_RECIPES.iter().flat_map(|recipe| recipe.wishes))
}
