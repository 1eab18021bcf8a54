//! A domain's XML, and the removal of its definition.

use std::ffi::c_uint;

use virt_sys as sys;

use super::c_strings_and_errors::{check, take_string};
use super::domain_handle::RealDomain;
use crate::domain_definition::{Definition, FilePolicy, UndefineOptions, XmlKind};
use crate::error::{Result, code};

impl Definition for RealDomain {
    fn xml(&self, kind: XmlKind) -> Result<String> {
        let flags = match kind {
            XmlKind::Active => 0,
            XmlKind::Inactive => sys::VIR_DOMAIN_XML_INACTIVE,
            XmlKind::Migratable => sys::VIR_DOMAIN_XML_MIGRATABLE,
        };
        // SAFETY: the domain is valid; the string it returns is the caller's.
        unsafe { take_string(sys::virDomainGetXMLDesc(self.as_ptr(), flags)) }
    }

    fn undefine(&self, options: UndefineOptions) -> Result<()> {
        // SAFETY: the domain is valid.
        let undefine = |flags| check(unsafe { sys::virDomainUndefineFlags(self.as_ptr(), flags) });
        match undefine(undefine_flags(options)) {
            // A driver that does not know the flags (libvirt's test driver) has no such files.
            Err(error) if error.code == code::INVALID_ARG => undefine(0),
            result => result,
        }
        .map(drop)
    }
}

fn undefine_flags(options: UndefineOptions) -> c_uint {
    let nvram = match options.nvram {
        FilePolicy::AsDefined => 0,
        FilePolicy::Keep => sys::VIR_DOMAIN_UNDEFINE_KEEP_NVRAM,
    };
    let tpm = match options.tpm {
        FilePolicy::AsDefined => 0,
        FilePolicy::Keep => sys::VIR_DOMAIN_UNDEFINE_KEEP_TPM,
    };
    // libvirt's metadata of checkpoints is removed with the definition.
    nvram | tpm | sys::VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefine_keep_passes_the_flags_of_kubevirt() {
        // As KubeVirt's manager passes them.
        let expected =
            sys::VIR_DOMAIN_UNDEFINE_KEEP_NVRAM | sys::VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA;
        assert_eq!(undefine_flags(UndefineOptions::KEEP), expected);
    }
}
