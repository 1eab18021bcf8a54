//! virt-launcher-monitor: the first process of the container. It starts virt-launcher, forwards the first termination
//! signal to it, and reaps orphans (a daemonised QEMU becomes the monitor's direct child). When virt-launcher has
//! ended, the monitor cleans up and exits with virt-launcher's code.
//!
//! ```text
//! start ─▶ watch ─ launcher ended ─▶ log dump ─▶ QEMU ─▶ Istio proxy ─▶ sockets ─▶ files or (keep) ─▶ last word ─▶ exit
//!            └ reap, forward the first signal
//! ```
//!
//! The monitor lives as long as the VM and must stay small: no async runtime, no threads.

mod child_processes;
mod container_disk_socket_removal;
mod flags;
mod generated_file_removal;
mod istio_proxy_shutdown;
mod json_log_lines;
mod last_word;
mod launcher_process;
mod listening_ports;
mod qemu_and_passt_log_dump;
mod qemu_shutdown;
mod signal_wait;

use std::env;
use std::io;
use std::process::ExitCode;

use flags::Flags;
use launcher_process::Launcher;
use signal_wait::{Signals, WaitResult};

/// The version, to which `make dist` adds the commit: `0.1.0 (0123456789ab)`.
const VERSION: &str = match option_env!("BUILD_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// The exit code of pflag for a malformed flag.
const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    // Before everything else: PID 1 does not get a signal without a handler.
    let signals = match Signals::register() {
        Ok(signals) => signals,
        Err(error) => {
            last_word::leave(&format!("registering for signals: {error}"));
            return ExitCode::FAILURE;
        }
    };
    // `--version` is virt-launcher's flag, so the monitor logs its own version.
    json_log_lines::info(&format!("virt-launcher-monitor {VERSION}"));
    let flags = match Flags::parse(env::args_os().skip(1)) {
        Ok(flags) => flags,
        Err(error) => {
            last_word::leave(&error);
            return ExitCode::from(USAGE_ERROR);
        }
    };
    let code = run(&flags, &signals);
    if code == launcher_process::DIRECTORIES_IN_USE {
        json_log_lines::error(
            "another virt-launcher uses the same directories: nothing is cleaned up",
        );
    } else {
        clean_up(&flags, code);
    }
    if flags.keep_after_failure && code != 0 {
        keep_container_alive(&signals);
    } else if code != launcher_process::DIRECTORIES_IN_USE {
        report(
            "removing the files of this life of the VM",
            generated_file_removal::remove(&flags.ephemeral_disk_dir),
        );
    }
    json_log_lines::info("virt-launcher-monitor: Exiting...");
    if code != 0 {
        last_word::repeat();
    }
    ExitCode::from(code)
}

/// Runs virt-launcher until it ends; returns its exit code.
fn run(flags: &Flags, signals: &Signals) -> u8 {
    if let Err(error) = child_processes::adopt_orphans() {
        json_log_lines::error(&format!(
            "becoming the parent of orphans: {error}; a QEMU that outlives virt-launcher will not be ended"
        ));
    }
    match Launcher::start(&flags.launcher_arguments) {
        Ok(launcher) => watch(&launcher, signals),
        Err(error) => {
            last_word::leave(&format!("failed to run virt-launcher: {error}"));
            1
        }
    }
}

/// Reaps children and forwards the first termination signal, until virt-launcher has ended; returns its exit code.
fn watch(launcher: &Launcher, signals: &Signals) -> u8 {
    let mut forwarded = false;
    loop {
        match signals.wait(None) {
            WaitResult::Child => {
                if let Some(code) = child_processes::reap(launcher.pid()) {
                    return code;
                }
            }
            WaitResult::Terminate if !forwarded => {
                forwarded = true;
                json_log_lines::info("signalling virt-launcher to shut down");
                report("signalling virt-launcher", launcher.terminate());
            }
            WaitResult::Terminate | WaitResult::Timeout => {}
        }
    }
}

/// Cleans up after virt-launcher; `code` is its exit code.
fn clean_up(flags: &Flags, code: u8) {
    if code != 0 {
        json_log_lines::error(&format!("dirty virt-launcher shutdown: exit-code {code}"));
        qemu_and_passt_log_dump::dump(&flags.share_dir);
    }
    qemu_shutdown::end_survivors();
    istio_proxy_shutdown::end();
    report(
        "cleaning up the container disk directory",
        container_disk_socket_removal::remove(&flags.container_disk_dir),
    );
}

/// Keeps the container alive for debugging, until a termination signal.
fn keep_container_alive(signals: &Signals) {
    json_log_lines::info(
        "keeping virt-launcher container alive since --keep-after-failure is set to true",
    );
    while !matches!(signals.wait(None), WaitResult::Terminate) {
        child_processes::reap_all();
    }
}

fn report(what: &str, result: io::Result<()>) {
    if let Err(error) = result {
        json_log_lines::error(&format!("{what}: {error}"));
    }
}
