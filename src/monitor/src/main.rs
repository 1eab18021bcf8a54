//! virt-launcher-monitor: the first process of the pod. It starts virt-launcher, passes a request
//! to end on to it, reaps whatever is orphaned (QEMU, once it has daemonised, is its direct child),
//! and after virt-launcher's end cleans up and exits with its code.
//!
//! ```text
//! start ─▶ watch ─ launcher ended ─▶ logs ─▶ QEMU ─▶ proxy ─▶ sockets ─▶ (keep) ─▶ exit
//!            └ reap, forward the first signal
//! ```
//!
//! It lives as long as the VM and must stay small: no runtime, no threads.

mod flags;
mod launcher;
mod log;
mod logs;
mod process;
mod proxy;
mod qemu;
mod signals;
mod sockets;

use std::env;
use std::io;
use std::process::ExitCode;

use flags::Flags;
use launcher::Launcher;
use signals::{Signals, Wake};

fn main() -> ExitCode {
    let flags = Flags::parse(env::args_os().skip(1));
    // Before anything is started: as PID 1 a signal without a handler is lost.
    let signals = match Signals::register() {
        Ok(signals) => signals,
        Err(error) => {
            log::error(&format!("registering for signals: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = run(&flags, &signals);
    clean_up(&flags, code);
    if flags.keep_after_failure && code != 0 {
        keep(&signals);
    }
    log::info("virt-launcher-monitor: Exiting...");
    ExitCode::from(code)
}

/// virt-launcher's whole life; its exit code.
fn run(flags: &Flags, signals: &Signals) -> u8 {
    if let Err(error) = process::adopt_orphans() {
        log::error(&format!(
            "becoming the parent of orphans: {error}; a QEMU that outlives virt-launcher will not be ended"
        ));
    }
    match Launcher::start(&flags.passed) {
        Ok(launcher) => watch(&launcher, signals),
        Err(error) => {
            log::error(&format!("failed to run virt-launcher: {error}"));
            1
        }
    }
}

fn watch(launcher: &Launcher, signals: &Signals) -> u8 {
    let mut asked = false;
    loop {
        match signals.wait(None) {
            Wake::Child => {
                if let Some(code) = process::reap(launcher.pid()) {
                    return code;
                }
            }
            Wake::Terminate if !asked => {
                asked = true;
                log::info("signalling virt-launcher to shut down");
                report("signalling virt-launcher", launcher.ask_to_end());
            }
            Wake::Terminate | Wake::Timeout => {}
        }
    }
}

fn clean_up(flags: &Flags, code: u8) {
    if code != 0 {
        log::error(&format!("dirty virt-launcher shutdown: exit-code {code}"));
        logs::dump(&flags.share_dir);
    }
    qemu::end_survivors();
    proxy::end();
    report(
        "cleaning up the container disk directory",
        sockets::remove(&flags.container_disk_dir),
    );
}

/// For whoever wants to look into the pod; until asked to end.
fn keep(signals: &Signals) {
    log::info("keeping virt-launcher container alive since --keep-after-failure is set to true");
    while !matches!(signals.wait(None), Wake::Terminate) {
        process::reap_all();
    }
}

fn report(what: &str, result: io::Result<()>) {
    if let Err(error) = result {
        log::error(&format!("{what}: {error}"));
    }
}
