//! The demo: a VM with two WASM hooks, from its VMI to its shutdown. The demo acts as virt-handler.
//!
//! `demo [--driver qemu|test|migration] [--user nonroot|root]`; exits with 0 only if every check passed. `migration`
//! runs a different scenario: the VM migrates to a second pod.
#![allow(clippy::print_stdout)]

mod demo_checks;
mod demo_vmis;
mod guest_report_checks;
mod hook_change_checks;
mod hook_runs_in_log;
mod migration_checks;
mod migration_scenario;
mod pause_and_unpause;
mod qemu_scenario;
mod test_driver_scenario;
mod timeline;
mod timeline_follower;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use tests::pod::LauncherUser;

use demo_checks::Checks;
use timeline::Timeline;

/// The timeout of the whole demo, which is reached only if something hangs.
const DEMO_TIMEOUT: Duration = Duration::from_secs(180);

#[derive(Clone, Copy)]
enum Driver {
    Qemu,
    Test,
    Migration,
}

fn arguments() -> Result<(Driver, LauncherUser)> {
    let (mut driver, mut user) = (Driver::Qemu, LauncherUser::Nonroot);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match (word.as_str(), words.next().as_deref()) {
            ("--driver", Some("qemu")) => driver = Driver::Qemu,
            ("--driver", Some("test")) => driver = Driver::Test,
            ("--driver", Some("migration")) => driver = Driver::Migration,
            ("--user", Some("nonroot")) => user = LauncherUser::Nonroot,
            ("--user", Some("root")) => user = LauncherUser::Root,
            _ => bail!("usage: demo [--driver qemu|test|migration] [--user nonroot|root]"),
        }
    }
    Ok((driver, user))
}

#[tokio::main]
async fn main() -> ExitCode {
    let (driver, user) = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            println!("{error}");
            return ExitCode::from(2);
        }
    };
    let timeline = Timeline::begin(match driver {
        Driver::Qemu | Driver::Test => 12,
        Driver::Migration => 19,
    });
    let mut checks = Checks::default();
    let scenario = async {
        match driver {
            Driver::Qemu => qemu_scenario::run(&timeline, &mut checks, user).await,
            Driver::Test => test_driver_scenario::run(&timeline, &mut checks).await,
            Driver::Migration => migration_scenario::run(&timeline, &mut checks, user).await,
        }
    };
    let outcome = tokio::time::timeout(DEMO_TIMEOUT, scenario).await;
    let outcome =
        outcome.unwrap_or_else(|_| Err(anyhow::anyhow!("gave up after {DEMO_TIMEOUT:?}")));
    timeline.end();
    if let Err(error) = &outcome {
        println!("\nThe demo stopped: {error:#}");
    }
    let all_passed = checks.print();
    if outcome.is_ok() && all_passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
