//! UEFI firmware: which image, which variable store.

use super::context::yes_no;
use super::launch_security::Protection;
use super::{Context, ConvertError};
use crate::spec::{DomainSpec, FirmwareFeature, FirmwareInfo, Loader, NVRam, Os};
use crate::vmi::Efi;

/// An image of code and the template of its variables.
#[derive(Debug, PartialEq, Eq)]
struct Image {
    code: &'static str,
    variables: &'static str,
}

/// Refuses a guest for which there is no firmware, before anything else is looked at.
pub(super) fn check(context: &Context<'_>, _spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let firmware = context.vmi.spec.domain.firmware.as_ref();
    let bootloader = firmware.and_then(|firmware| firmware.bootloader.as_ref());
    match bootloader.and_then(|bootloader| bootloader.efi.as_ref()) {
        Some(efi) if !is_libvirts_choice(context, efi) => image(context, is_secure(efi)).map(drop),
        _ => Ok(()),
    }
}

fn is_secure(efi: &Efi) -> bool {
    efi.secure_boot.unwrap_or(true)
}

fn is_libvirts_choice(context: &Context<'_>, efi: &Efi) -> bool {
    is_secure(efi) && context.protection == Protection::None && context.host.firmware_auto_selection
}

pub(super) fn add(context: &Context<'_>, efi: &Efi, os: &mut Os) -> Result<(), ConvertError> {
    let secure = is_secure(efi);
    let protection = context.protection;
    if is_libvirts_choice(context, efi) {
        let_libvirt_choose(context, os);
        return Ok(());
    }
    let image = image(context, secure)?;
    let directory = &context.host.ovmf_path;
    os.boot_loader = Some(Loader {
        read_only: "yes".into(),
        // TDX holds its keys in the image; libvirt's attribute would ask for SMM.
        secure: yes_no(secure && protection != Protection::Tdx),
        kind: if protection.is_stateless() {
            "rom"
        } else {
            "pflash"
        }
        .into(),
        path: format!("{directory}/{}", image.code),
    });
    os.nvram = (!protection.is_stateless()).then(|| NVRam {
        template: format!("{directory}/{}", image.variables),
        nvram: variable_store(context),
        ..NVRam::default()
    });
    Ok(())
}

fn variable_store(context: &Context<'_>) -> String {
    let directory = context.libvirt_directory();
    format!("{directory}/nvram/{}_VARS.fd", context.vmi.name())
}

fn let_libvirt_choose(context: &Context<'_>, os: &mut Os) {
    let feature = |name: &str| FirmwareFeature {
        enabled: "yes".into(),
        name: name.into(),
    };
    os.firmware = "efi".into();
    os.firmware_info = Some(FirmwareInfo {
        features: vec![feature("secure-boot"), feature("enrolled-keys")],
    });
    // Named here so that the store lies where a persistent one is kept.
    os.nvram = Some(NVRam {
        format: "raw".into(),
        nvram: variable_store(context),
        ..NVRam::default()
    });
}

/// The image by what is installed; by its plain name when nobody looked.
fn image(context: &Context<'_>, secure: bool) -> Result<Image, ConvertError> {
    let kind = context.protection;
    let image = match &context.host.firmware_files {
        None => plain(secure, kind),
        Some(files) => installed(secure, kind, |name| files.iter().any(|file| file == name)),
    };
    image.ok_or_else(|| {
        ConvertError::refused(format!(
            "EFI OVMF roms missing for booting in EFI mode with SecureBoot={secure}, \
             SEV/SEV-ES={}, SEV-SNP={}, TDX={}",
            kind == Protection::Sev,
            kind == Protection::Snp,
            kind == Protection::Tdx
        ))
    })
}

fn plain(secure: bool, protection: Protection) -> Option<Image> {
    let (code, variables) = match (secure, protection) {
        (true, Protection::Sev | Protection::Snp) => return None,
        (true, _) => ("OVMF_CODE.secboot.fd", "OVMF_VARS.secboot.fd"),
        (false, _) => ("OVMF_CODE.fd", "OVMF_VARS.fd"),
    };
    Some(Image { code, variables })
}

/// KubeVirt's choice. An image that can do secure boot also serves guests that do not want it.
fn installed(secure: bool, protection: Protection, has: impl Fn(&&str) -> bool) -> Option<Image> {
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
    (variables.is_empty() || has(&variables)).then_some(Image { code, variables })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_by_what_is_installed() {
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
