//! Machine type, firmware, SMBIOS and the clock.

use serde::Deserialize;

use super::null_as_default;

/// Machine type.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Machine {
    /// QEMU's machine type.
    #[serde(rename = "type", deserialize_with = "null_as_default")]
    pub kind: String,
}

/// Firmware and SMBIOS.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Firmware {
    /// The guest's UUID.
    #[serde(deserialize_with = "null_as_default")]
    pub uuid: String,
    /// The guest's serial number.
    #[serde(deserialize_with = "null_as_default")]
    pub serial: String,
    /// BIOS or UEFI.
    pub bootloader: Option<Bootloader>,
    /// The kernel for a direct kernel boot.
    pub kernel_boot: Option<KernelBoot>,
    /// Additional ACPI tables.
    pub acpi: Option<Acpi>,
}

/// BIOS or UEFI.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Bootloader {
    /// BIOS.
    pub bios: Option<Bios>,
    /// UEFI.
    pub efi: Option<Efi>,
}

/// BIOS settings.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Bios {
    /// Whether the BIOS writes messages to the serial console.
    pub use_serial: Option<bool>,
}

/// UEFI settings.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Efi {
    /// Secure boot; on by default.
    pub secure_boot: Option<bool>,
    /// Whether the variable store is persistent.
    pub persistent: Option<bool>,
}

/// The kernel of a direct kernel boot.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KernelBoot {
    /// Kernel command line.
    #[serde(deserialize_with = "null_as_default")]
    pub kernel_args: String,
    /// The image that holds kernel and initrd.
    pub container: Option<KernelBootContainer>,
}

/// The image that holds kernel and initrd.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KernelBootContainer {
    /// Image.
    #[serde(deserialize_with = "null_as_default")]
    pub image: String,
    /// Path of the kernel in the image.
    #[serde(deserialize_with = "null_as_default")]
    pub kernel_path: String,
    /// Path of the initrd in the image.
    #[serde(deserialize_with = "null_as_default")]
    pub initrd_path: String,
}

/// Additional ACPI tables, each from a secret volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Acpi {
    /// Volume of the SLIC table.
    #[serde(deserialize_with = "null_as_default")]
    pub slic_name_ref: String,
    /// Volume of the MSDM table.
    #[serde(deserialize_with = "null_as_default")]
    pub msdm_name_ref: String,
}

/// SMBIOS chassis data.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Chassis {
    /// Manufacturer.
    #[serde(deserialize_with = "null_as_default")]
    pub manufacturer: String,
    /// Version.
    #[serde(deserialize_with = "null_as_default")]
    pub version: String,
    /// Serial number.
    #[serde(deserialize_with = "null_as_default")]
    pub serial: String,
    /// Asset tag.
    #[serde(deserialize_with = "null_as_default")]
    pub asset: String,
    /// SKU.
    #[serde(deserialize_with = "null_as_default")]
    pub sku: String,
}

/// Clock and timers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Clock {
    /// UTC, maybe with an offset.
    pub utc: Option<ClockUtc>,
    /// A time zone.
    pub timezone: Option<String>,
    /// Timers.
    pub timer: Option<Timers>,
}

/// UTC with an offset.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClockUtc {
    /// The offset in seconds.
    pub offset_seconds: Option<i64>,
}

/// Timers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Timers {
    /// HPET.
    pub hpet: Option<Timer>,
    /// KVM's clock.
    pub kvm: Option<Timer>,
    /// PIT.
    pub pit: Option<Timer>,
    /// RTC.
    pub rtc: Option<Timer>,
    /// Hyper-V's clock.
    pub hyperv: Option<Timer>,
}

/// A timer. Not every field applies to every kind of timer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Timer {
    /// On by default.
    pub present: Option<bool>,
    /// libvirt's policy for missed ticks.
    #[serde(deserialize_with = "null_as_default")]
    pub tick_policy: String,
    /// `guest` or `wall`.
    #[serde(deserialize_with = "null_as_default")]
    pub track: String,
}

impl Timer {
    /// Whether the timer is present.
    pub fn is_present(&self) -> bool {
        self.present.unwrap_or(true)
    }
}
