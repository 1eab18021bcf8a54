//! `virt-hook sign` and `virt-hook verify`: signatures beside modules, as Sigstore bundles.

mod sign;
mod verify;

use std::path::Path;

use anyhow::Context;
use sigstore_bundle::KeyError;

use crate::exit_codes::Failure;
use crate::inputs::input_file;
use crate::interactive_compile;

pub(crate) use sign::{Arguments as SignArguments, HELP as SIGN_HELP, run as sign};
pub(crate) use verify::{Arguments as VerifyArguments, HELP as VERIFY_HELP, run as verify};

/// The largest key file that is read, in bytes.
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

/// Reads a module, whatever it contains.
fn module(path: &Path) -> Result<Vec<u8>, Failure> {
    input_file::read(path, interactive_compile::limits().module)
}
