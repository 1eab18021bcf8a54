//! Writes log lines in KubeVirt's format to standard error: one JSON object each.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

const COMPONENT: &str = "virt-launcher-monitor";
/// How long a line waits for the reader of standard error.
const WRITE_TIMEOUT: Duration = Duration::from_millis(200);
/// A pipe that can be written to has room for so many bytes (`PIPE_BUF`).
const PIPE_BYTES: usize = 4096;

/// Logs at level info.
#[track_caller]
pub(crate) fn info(message: &str) {
    write("info", message, Location::caller());
}

/// Logs at level error.
#[track_caller]
pub(crate) fn error(message: &str) {
    write("error", message, Location::caller());
}

fn write(level: &str, message: &str, location: &Location<'_>) {
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mut stderr = io::stderr();
    let dropped = DROPPED.load(Ordering::Relaxed);
    // Once a line had to be dropped, nobody is waited for until there is room again.
    let timeout = if dropped == 0 {
        WRITE_TIMEOUT
    } else {
        Duration::ZERO
    };
    if dropped > 0 {
        let told = format!("{dropped} log lines were dropped: their reader does not keep up");
        let told = render("warning", &told, location, now);
        if write_within(&mut stderr, told.as_bytes(), timeout).is_ok() {
            DROPPED.store(0, Ordering::Relaxed);
        }
    }
    let line = render(level, message, location, now);
    if write_within(&mut stderr, line.as_bytes(), timeout).is_err() {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes a line, unless a pipe has no room for it for `timeout`: the monitor must not wait for a reader. A line of up to
/// [`PIPE_BYTES`] is written with one call, so that it is not mixed with lines of other processes.
fn write_within(
    output: &mut (impl Write + AsFd),
    line: &[u8],
    timeout: Duration,
) -> io::Result<()> {
    let timeout = Timespec::try_from(timeout).unwrap_or_default();
    for piece in line.chunks(PIPE_BYTES) {
        let mut fds = [PollFd::new(&*output, PollFlags::OUT)];
        // A signal, such as that of a child's end, must not cost a line.
        if retry_on_intr(|| poll(&mut fds, Some(&timeout)))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        output.write_all(piece)?;
    }
    Ok(())
}

fn render(level: &str, message: &str, location: &Location<'_>, since_epoch: Duration) -> String {
    let file = location.file().rsplit('/').next().unwrap_or_default();
    format!(
        "{{\"component\":\"{COMPONENT}\",\"level\":\"{level}\",\"msg\":\"{}\",\"pos\":\"{file}:{}\",\"timestamp\":\"{}\"}}\n",
        escape_json(message),
        location.line(),
        timestamp(since_epoch),
    )
}

fn escape_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// RFC 3339 with microseconds, in UTC.
fn timestamp(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let micros = since_epoch.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Converts days since 1970 to a Gregorian date. The calculation counts years from March, so that
/// the leap day comes last.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_BEFORE_1970: u64 = 719_468;
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + DAYS_BEFORE_1970;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_have_gregorian_dates() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(timestamp(Duration::from_secs(seconds)), date);
        }
    }

    #[test]
    fn pipe_that_nobody_reads_does_not_hold_the_monitor() -> io::Result<()> {
        let (mut reader, mut writer) = io::pipe()?;
        let line = [b'x'; 1000];
        let timeout = Duration::from_millis(1);
        let written = (0..1000).take_while(|_| write_within(&mut writer, &line, timeout).is_ok());
        let written = written.count();
        assert!((1..1000).contains(&written), "{written}");
        io::Read::read_exact(&mut reader, &mut [0; 8192])?;
        write_within(&mut writer, &line, timeout)
    }

    #[test]
    fn every_message_gives_a_valid_json_line() {
        let message = "a \"quote\", a \\ and\ta tab\nand \u{1b}[1m";
        let line = render(
            "info",
            message,
            Location::caller(),
            Duration::from_micros(1_500_000),
        );
        let Ok(value) = serde_json::from_str::<serde_json::Value>(&line) else {
            panic!("{line}")
        };
        assert_eq!(value["msg"], message);
        assert_eq!(value["component"], "virt-launcher-monitor");
        assert_eq!(value["timestamp"], "1970-01-01T00:00:01.500000Z");
        assert!(
            value["pos"]
                .as_str()
                .is_some_and(|pos| pos.starts_with("json_log_lines.rs:"))
        );
    }
}
