//! OVMF images: UEFI firmware for amd64.

use crate::convert::arch::FirmwareImage;
use crate::convert::arch::guest_protection::Protection;
use crate::convert::error::ConvertError;

/// Chooses among the installed files, or takes the plain names if the files are unknown.
pub(crate) fn image(
    secure: bool,
    protection: Protection,
    files: Option<&[String]>,
) -> Result<FirmwareImage, ConvertError> {
    let image = match files {
        None => plain(secure, protection),
        Some(files) => installed(secure, protection, |name| {
            files.iter().any(|file| file == name)
        }),
    };
    image.ok_or_else(|| {
        ConvertError::refused(format!(
            "EFI OVMF roms missing for booting in EFI mode with SecureBoot={secure}, \
             SEV/SEV-ES={}, SEV-SNP={}, TDX={}",
            protection == Protection::Sev,
            protection == Protection::Snp,
            protection == Protection::Tdx
        ))
    })
}

fn plain(secure: bool, protection: Protection) -> Option<FirmwareImage> {
    let (code, variables) = match (secure, protection) {
        (true, Protection::Sev | Protection::Snp) => return None,
        (true, _) => ("OVMF_CODE.secboot.fd", "OVMF_VARS.secboot.fd"),
        (false, _) => ("OVMF_CODE.fd", "OVMF_VARS.fd"),
    };
    Some(FirmwareImage { code, variables })
}

/// KubeVirt's choice. An image with secure boot also serves guests without it.
fn installed(
    secure: bool,
    protection: Protection,
    has: impl Fn(&&str) -> bool,
) -> Option<FirmwareImage> {
    let (codes, variables): (&[&'static str], &'static str) = match (protection, secure) {
        (Protection::None, true) => (&["OVMF_CODE.secboot.fd"], "OVMF_VARS.secboot.fd"),
        (Protection::None, false) => (&["OVMF_CODE.secboot.fd", "OVMF_CODE.fd"], "OVMF_VARS.fd"),
        (Protection::Sev, false) => (&["OVMF_CODE.cc.fd"], "OVMF_VARS.fd"),
        (Protection::Snp, false) => (&["OVMF.amdsev.fd"], ""),
        (Protection::Tdx, true) => (&["OVMF.inteltdx.secboot.fd"], ""),
        (Protection::Tdx, false) => (&["OVMF.inteltdx.fd"], ""),
        (Protection::Sev | Protection::Snp, true) => return None,
    };
    let code = codes.iter().copied().find(|code| has(code))?;
    (variables.is_empty() || has(&variables)).then_some(FirmwareImage { code, variables })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_depends_on_the_installed_files() {
        let code = |secure, protection, files: &[&str]| {
            installed(secure, protection, |name| files.contains(name)).map(|image| image.code)
        };
        let usual = ["OVMF_CODE.fd", "OVMF_VARS.fd"];
        let all = [
            "OVMF_CODE.secboot.fd",
            "OVMF_VARS.secboot.fd",
            "OVMF_CODE.fd",
            "OVMF_VARS.fd",
            "OVMF_CODE.cc.fd",
            "OVMF.amdsev.fd",
            "OVMF.inteltdx.fd",
        ];
        use Protection::{None as Unprotected, Sev, Snp, Tdx};
        assert_eq!(code(false, Unprotected, &usual), Some("OVMF_CODE.fd"));
        assert_eq!(code(true, Unprotected, &usual), None);
        assert_eq!(code(false, Unprotected, &all), Some("OVMF_CODE.secboot.fd"));
        assert_eq!(code(true, Unprotected, &all), Some("OVMF_CODE.secboot.fd"));
        assert_eq!(code(false, Sev, &all), Some("OVMF_CODE.cc.fd"));
        assert_eq!(code(true, Sev, &all), None);
        assert_eq!(code(false, Snp, &all), Some("OVMF.amdsev.fd"));
        assert_eq!(code(false, Tdx, &all), Some("OVMF.inteltdx.fd"));
        assert_eq!(code(true, Tdx, &all), None);
    }
}
