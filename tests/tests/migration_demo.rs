//! Runs the migration demo, whose checks must all pass. The QEMU demo needs no test: the end-to-end tests cover its
//! steps.

use std::process::Command;

use anyhow::{Result, ensure};
use tests::binaries::binary;

#[test]
fn all_checks_of_the_migration_demo_pass() -> Result<()> {
    let demo = binary("demo")?;
    let output = Command::new(demo)
        .args(["--driver", "migration"])
        .output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "{printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    ensure!(
        printed.contains("the guest goes on without a boot"),
        "{printed}"
    );
    Ok(())
}
