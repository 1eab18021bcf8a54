//! The table of all recipes, with their wishes and effects.

use hooks_sdk::{CloudInit, Domain, Result, Vmi};

use crate::{cloud_init, devices, resources};

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
    devices::usb_device {
        "/domain/devices/hostdev[@type='usb']/**",
        "/domain/devices/controller[@type='usb']/@model"
    } => "devices/hostdev[@type='usb']/source/product/@id" = "0x0825";
    devices::pci_device {
        "/domain/devices/hostdev[@type='pci']/**"
    } => "devices/hostdev[@type='pci']/source/address/@bus" = "0x3b";
    devices::vgpu_display {
        "/domain/devices/hostdev[@type='mdev']/@display",
        "/domain/devices/hostdev[@type='mdev']/@ramfb",
        "/domain/devices/video/model/**"
    } => "devices/hostdev[@type='mdev']/@display" = "on";
    devices::shared_memory {
        "/domain/devices/shmem/**",
        "/domain/devices/shmem/@name"
    } => "devices/shmem/size" = "4";
    devices::watchdog { "/domain/devices/watchdog/**" } => "devices/watchdog/@action" = "reset";
    devices::tpm { "/domain/devices/tpm/**" } => "devices/tpm/backend/@version" = "2.0";
    devices::second_serial_port { "/domain/devices/serial/**" } => "devices/serial[target/@port='1']/@type" = "null";
    devices::vnc_keymap { "/domain/devices/graphics/@keymap" } => "devices/graphics/@keymap" = "de";
    resources::pinning_and_numa {
        "/domain/cputune/**",
        "/domain/numatune/**"
    } => "cputune/vcpupin[@vcpu='1']/@cpuset" = "5";
    resources::huge_pages { "/domain/memoryBacking/**" } => "memoryBacking/hugepages/page/@size" = "2";
    resources::disk_queues_and_io_thread {
        "/domain/iothreads",
        "/domain/devices/disk/driver/@queues",
        "/domain/devices/disk/driver/@iothread"
    } => "devices/disk[target/@dev='vda']/driver/@queues" = "2";
    resources::interface_queues { "/domain/devices/interface/driver/**" } => "devices/interface/driver/@queues" = "2";
    resources::interface_model { "/domain/devices/interface/model/@type" } => "devices/interface/model/@type" = "e1000e";
    resources::cpu_features { "/domain/cpu/feature/**" } => "cpu/feature[@name='invtsc']/@policy" = "require";
    resources::hide_kvm {
        "/domain/features/kvm/**",
        "/domain/cpu/feature/**"
    } => "features/kvm/hidden/@state" = "on";
    resources::board_serial_number {
        "/domain/os/smbios/**",
        "/domain/sysinfo/baseBoard/**"
    } => "sysinfo[@type='smbios']/baseBoard/entry[@name='serial']" = "6b3e";
    resources::firmware_configuration { "/domain/sysinfo[@type='fwcfg']/**" }
        => "sysinfo[@type='fwcfg']/entry[@name='opt/com.example/role']" = "database";
    resources::qemu_arguments { "/domain/qemu:commandline/**" }
        => "qemu:commandline/qemu:arg[2]/@value" = "ICH9-LPC.disable_s3=1";
    resources::not_on_a_migration_target { "/domain/devices/input/**" }
        => "devices/input[@type='keyboard']/@bus" = "virtio";
    resources::disk_limit_of_the_pod {
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
