//! Durations in Go's format: `288s`, `3m0s`, `1h2m3.5s`, `250ms`. virt-controller writes them into the
//! launcher's command line, and Plugins give their timeouts in them.

use std::time::Duration;

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// The text is empty or only a sign.
    #[error("an empty duration; write for example 30s or 3m0s")]
    Empty,
    /// The duration is negative.
    #[error("a negative duration; write for example 30s or 3m0s")]
    Negative,
    /// A number without a unit, or with an unknown one.
    #[error("no time unit at {0:?}; the units are h, m, s, ms, us and ns, as in 3m0s")]
    Unit(String),
    /// A unit without a number.
    #[error("no number at {0:?}; write for example 30s or 3m0s")]
    Number(String),
    /// More nanoseconds than 64 bits hold.
    #[error("the duration is too long")]
    TooLong,
}

/// Parses a Go duration. `0` needs no unit.
///
/// # Errors
/// [`DurationError`] names the part that cannot be read.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let (negative, text) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    let total = if text == "0" { 0 } else { sum(text)? };
    if negative && total != 0 {
        return Err(DurationError::Negative);
    }
    u64::try_from(total)
        .map(Duration::from_nanos)
        .map_err(|_| DurationError::TooLong)
}

fn sum(mut rest: &str) -> Result<u128, DurationError> {
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (number, after) = split_at_end_of(rest, |c| c.is_ascii_digit() || c == '.');
        let (unit, after) = split_at_end_of(after, |c| !c.is_ascii_digit() && c != '.');
        let scale = nanoseconds(unit).ok_or_else(|| DurationError::Unit(rest.to_owned()))?;
        let part = scaled(number, scale).ok_or_else(|| DurationError::Number(rest.to_owned()))?;
        total = total.checked_add(part).ok_or(DurationError::TooLong)?;
        rest = after;
    }
    Ok(total)
}

fn split_at_end_of(text: &str, wanted: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !wanted(c)).unwrap_or(text.len()))
}

fn nanoseconds(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Multiplies a decimal number with a scale: `1.5` and 1000 give 1500. `None` if the number is malformed or too large.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 18 {
        return None;
    }
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let fraction = &fraction[..fraction.len().min(18)];
    let part = match fraction.len() {
        0 => 0,
        digits => fraction.parse::<u128>().ok()? * scale / 10u128.pow(digits as u32),
    };
    whole.checked_mul(scale)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_what_virt_controller_writes() {
        let cases = [
            ("288s", 288_000),
            ("3m0s", 180_000),
            ("1h2m3.5s", 3_723_500),
            ("250ms", 250),
            ("0", 0),
            ("0s", 0),
            ("+5s", 5_000),
            (".5s", 500),
            ("1000us", 1),
            ("1000µs", 1),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(
                parse(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
    }

    #[test]
    fn malformed_durations_are_errors() {
        for text in [
            "",
            "-",
            "5",
            "s",
            "5x",
            "1.2.3s",
            "5s5",
            "-1s",
            "9999999999999999999h",
            "99999999999999h",
        ] {
            let error = parse(text).expect_err(text);
            assert!(!error.to_string().is_empty());
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,24}") {
            let _ = parse(&text);
        }

        #[test]
        fn hours_minutes_and_seconds_add_up(h in 0u64..1000, m in 0u64..1000, s in 0u64..100_000) {
            prop_assert_eq!(parse(&format!("{h}h{m}m{s}s")), Ok(Duration::from_secs(h * 3600 + m * 60 + s)));
        }
    }
}
