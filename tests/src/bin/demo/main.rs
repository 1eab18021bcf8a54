//! The demo: a VM with two WASM hooks, from its VMI to its shutdown. The demo acts as virt-handler.
//!
//! `demo [--driver qemu|test|migration] [--user nonroot|root]`; ends with 0 only if every check held. `migration` is
//! another demo: the VM moves to a second pod.
#![allow(clippy::print_stdout)]

mod demo_checks;
mod event_follower;
mod logged_hook_run;
mod migration_checks;
mod migration_scenario;
mod qemu_scenario;
mod test_driver_scenario;
mod timeline;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use tests::pod::LauncherUser;

use demo_checks::Checks;
use timeline::Timeline;

/// A limit that no machine reaches unless something hangs.
const PATIENCE: Duration = Duration::from_secs(180);

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
        Ok(chosen) => chosen,
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
    let story = async {
        match driver {
            Driver::Qemu => qemu_scenario::run(&timeline, &mut checks, user).await,
            Driver::Test => test_driver_scenario::run(&timeline, &mut checks).await,
            Driver::Migration => migration_scenario::run(&timeline, &mut checks, user).await,
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, story).await;
    let outcome = outcome.unwrap_or_else(|_| Err(anyhow::anyhow!("gave up after {PATIENCE:?}")));
    timeline.end();
    if let Err(error) = &outcome {
        println!("\nThe demo stopped: {error:#}");
    }
    let all_held = checks.print();
    if outcome.is_ok() && all_held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
