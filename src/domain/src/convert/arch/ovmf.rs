//! OVMF images: UEFI firmware, for which KubeVirt looks on all architectures that have no other.

use crate::convert::arch::FirmwareImage;
use crate::convert::arch::guest_protection::Protection;
use crate::convert::error::ConvertError;
use crate::host_facts::HostFacts;

/// The firmware of SEV guests, whose digest is part of a launch measurement.
pub const SEV_FIRMWARE: &str = "OVMF_CODE.cc.fd";

/// Chooses an image among the host's files, or the default names if the files are unknown.
pub(crate) fn image(
    secure: bool,
    protection: Protection,
    host: &HostFacts,
) -> Result<FirmwareImage, ConvertError> {
    let prefers_secure_boot = host.behaviour().prefers_secure_boot_image;
    let image = match &host.firmware_files {
        None => default_image(secure, protection),
        Some(files) => installed_image(secure, protection, prefers_secure_boot, |name| {
            files.iter().any(|file| file == name)
        }),
    };
    image.ok_or_else(|| missing(secure, protection))
}

/// The error of a guest for which no image is installed. KubeVirt has the same text on every architecture.
pub(crate) fn missing(secure: bool, protection: Protection) -> ConvertError {
    ConvertError::invalid(format!(
        "EFI OVMF roms missing for booting in EFI mode with SecureBoot={secure}, \
         SEV/SEV-ES={}, SEV-SNP={}, TDX={}",
        protection == Protection::Sev,
        protection == Protection::Snp,
        protection == Protection::Tdx
    ))
}

fn default_image(secure: bool, protection: Protection) -> Option<FirmwareImage> {
    let (code, variables) = match protection {
        // No other image serves these guests.
        protected if protected.has_own_firmware() => {
            *images_of_protected_guests(protected, secure).first()?
        }
        _ if secure => ("OVMF_CODE.secboot.fd", "OVMF_VARS.secboot.fd"),
        _ => ("OVMF_CODE.fd", "OVMF_VARS.fd"),
    };
    Some(FirmwareImage { code, variables })
}

/// Chooses an installed image as KubeVirt does: an image with secure boot also serves guests without secure boot. Where
/// the variables of secure boot are missing, the files are not those of KubeVirt's image, but Debian's.
fn installed_image(
    secure: bool,
    protection: Protection,
    prefers_secure_boot: bool,
    has: impl Fn(&&str) -> bool,
) -> Option<FirmwareImage> {
    let images: &[(&'static str, &'static str)] = match secure {
        _ if protection.has_own_firmware() => images_of_protected_guests(protection, secure),
        true => &[("OVMF_CODE.secboot.fd", "OVMF_VARS.secboot.fd")],
        false if prefers_secure_boot && has(&"OVMF_VARS.secboot.fd") => &[
            ("OVMF_CODE.secboot.fd", "OVMF_VARS.fd"),
            ("OVMF_CODE.fd", "OVMF_VARS.fd"),
        ],
        // Debian's image with secure boot needs SMM, which guests without secure boot do not have.
        false => &[
            ("OVMF_CODE.fd", "OVMF_VARS.fd"),
            ("OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd"),
            ("OVMF_CODE.secboot.fd", "OVMF_VARS.fd"),
        ],
    };
    let is_installed = |(code, variables): &(&'static str, &'static str)| {
        has(code) && (variables.is_empty() || has(variables))
    };
    let (code, variables) = *images.iter().find(|image| is_installed(image))?;
    Some(FirmwareImage { code, variables })
}

/// The images for guests with memory encryption, with their variables. SEV has none with secure boot.
fn images_of_protected_guests(
    protection: Protection,
    secure: bool,
) -> &'static [(&'static str, &'static str)] {
    match (protection, secure) {
        (Protection::Sev, false) => &[(SEV_FIRMWARE, "OVMF_VARS.fd")],
        (Protection::Snp, false) => &[("OVMF.amdsev.fd", "")],
        (Protection::Tdx, true) => &[("OVMF.inteltdx.secboot.fd", "")],
        (Protection::Tdx, false) => &[("OVMF.inteltdx.fd", "")],
        (Protection::Sev | Protection::Snp, true)
        | (Protection::None | Protection::SecureExecution, _) => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_depends_on_the_installed_files() {
        let code = |secure, protection, files: &[&str]| {
            installed_image(secure, protection, true, |name| files.contains(name))
                .map(|image| image.code)
        };
        let without_secure_boot = ["OVMF_CODE.fd", "OVMF_VARS.fd"];
        let all_files = [
            "OVMF_CODE.secboot.fd",
            "OVMF_VARS.secboot.fd",
            "OVMF_CODE.fd",
            "OVMF_VARS.fd",
            "OVMF_CODE.cc.fd",
            "OVMF.amdsev.fd",
            "OVMF.inteltdx.fd",
        ];
        use Protection::{None as Unprotected, Sev, Snp, Tdx};
        assert_eq!(
            code(false, Unprotected, &without_secure_boot),
            Some("OVMF_CODE.fd")
        );
        assert_eq!(code(true, Unprotected, &without_secure_boot), None);
        let debian_12 = [
            "OVMF_CODE.fd",
            "OVMF_CODE.ms.fd",
            "OVMF_CODE.secboot.fd",
            "OVMF_CODE_4M.fd",
            "OVMF_CODE_4M.secboot.fd",
            "OVMF_VARS.fd",
            "OVMF_VARS.ms.fd",
            "OVMF_VARS_4M.fd",
        ];
        let debian_13 = [
            "OVMF_CODE_4M.fd",
            "OVMF_CODE_4M.secboot.fd",
            "OVMF_VARS_4M.fd",
        ];
        for (files, expected) in [
            (&debian_12[..], "OVMF_CODE.fd"),
            (&debian_13, "OVMF_CODE_4M.fd"),
            (
                &["OVMF_CODE.secboot.fd", "OVMF_VARS.fd"],
                "OVMF_CODE.secboot.fd",
            ),
        ] {
            assert_eq!(code(false, Unprotected, files), Some(expected), "{files:?}");
        }
        assert_eq!(
            code(false, Unprotected, &all_files),
            Some("OVMF_CODE.secboot.fd")
        );
        assert_eq!(
            code(true, Unprotected, &all_files),
            Some("OVMF_CODE.secboot.fd")
        );
        assert_eq!(code(false, Sev, &all_files), Some("OVMF_CODE.cc.fd"));
        assert_eq!(code(true, Sev, &all_files), None);
        assert_eq!(code(false, Snp, &all_files), Some("OVMF.amdsev.fd"));
        assert_eq!(code(false, Tdx, &all_files), Some("OVMF.inteltdx.fd"));
        assert_eq!(code(true, Tdx, &all_files), None);
    }
}
