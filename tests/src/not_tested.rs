//! Reports a test that this machine cannot run.

use std::io::Write;

use anyhow::{Result, ensure};

use crate::binaries::is_prebuilt;

/// A requirement of a test that this machine lacks.
#[derive(Clone, Copy, Debug)]
pub enum Missing {
    /// A program that `scripts/setup` installs.
    Installable(&'static str),
    /// A device of the machine, or a feature of its kernel.
    MachineFeature(&'static str),
}

/// Prints to standard error that `what` is not tested. Cargo does not capture this output, so that a test that tests
/// nothing differs from a test that passes. In `make test`, which installs what it needs, missing programs are an
/// error.
pub fn not_tested(what: &str, missing: Missing) -> Result<()> {
    let (Missing::Installable(lack) | Missing::MachineFeature(lack)) = missing;
    let line = format!("*** NOT TESTED: {what}: this machine lacks {lack} ***\n");
    std::io::stderr().write_all(line.as_bytes())?;
    // The scripts that set TESTS_PREBUILT have run scripts/setup.
    let is_installable = matches!(missing, Missing::Installable(_));
    ensure!(
        !(is_installable && is_prebuilt()),
        "{what} is not tested: this machine lacks {lack}, which scripts/setup installs"
    );
    Ok(())
}
