//! `virt-hook wrap`: makes a hook component of a core module.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use crate::interactive_compile::module_file_size;
use crate::output::{Report, Style};
use crate::output_file;
use crate::verb_failure::Failure;

pub(crate) const HELP: &str = "\
For languages whose compiler writes a core module, such as C and Go. `cargo build --target wasm32-wasip2`
and componentize-py write components themselves.

Examples:
  virt-hook wrap build/genid.core.wasm --out genid.wasm

Exit codes:
  0  the component is written
  1  the module cannot be converted to a hook; standard error says why
  2  invalid command line, or an unusable file: the file is not a core module
  3  the component could not be written";

/// Arguments of `virt-hook wrap`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The core module
    #[arg(value_name = "CORE_WASM")]
    core: PathBuf,
    /// The component to write; it is renamed into place when complete
    #[arg(long, short, value_name = "WASM")]
    out: PathBuf,
}

/// A component that was written.
#[derive(Debug, Serialize)]
pub(crate) struct WrapReport {
    module: PathBuf,
    bytes: usize,
}

/// Wraps the module and writes the component.
pub(crate) fn run(arguments: &Arguments) -> Result<WrapReport, Failure> {
    let core = read(&arguments.core).map_err(Failure::Usage)?;
    let component = hook_wrap::wrap(&core).map_err(|error| {
        let is_other_file = error.is_not_a_core_module();
        let error = anyhow::Error::new(error).context(arguments.core.display().to_string());
        match is_other_file {
            true => Failure::Usage(error),
            false => Failure::Refused(error),
        }
    })?;
    output_file::write(&arguments.out, &component).map_err(Failure::Internal)?;
    Ok(WrapReport {
        module: arguments.out.clone(),
        bytes: component.len(),
    })
}

impl Report for WrapReport {
    fn text(&self, _: Style) -> String {
        format!("{} ({} bytes)", self.module.display(), self.bytes)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    module_file_size(path)?;
    let path_text = || path.display().to_string();
    let mut bytes = Vec::new();
    // Read one byte more than the limit to detect larger files.
    File::open(path)
        .with_context(path_text)?
        .take(hook_wrap::MAX_MODULE_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(path_text)?;
    Ok(bytes)
}
