//! `virt-hook sign` and `virt-hook verify`: signatures beside modules, as Sigstore bundles.

mod date_in_module;
mod sign;
mod verify;

use std::path::Path;

use anyhow::Context;
use sigstore_bundle::KeyError;

use crate::inputs::input_file;
use crate::interactive_compile;
use crate::verb_failure::Failure;

pub(crate) use date_in_module::DateInModule;
pub(crate) use sign::{Arguments as SignArguments, HELP as SIGN_HELP, run as sign};
pub(crate) use verify::{Arguments as VerifyArguments, HELP as VERIFY_HELP, run as verify};

/// Maximum size of a key file in bytes.
const MAX_KEY: usize = 64 << 10;

/// Reads a key.
pub(crate) fn key<K>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<K, KeyError>,
) -> Result<K, Failure> {
    parse(&input_file::text(path, MAX_KEY)?)
        .with_context(|| input_file::name(path))
        .map_err(Failure::Usage)
}

/// Reads the bytes of a module, without checking that it is one.
pub(crate) fn module_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    input_file::read(path, interactive_compile::max_module())
}
