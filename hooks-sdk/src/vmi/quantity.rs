//! Kubernetes' quantities: `2Gi`, `1.5G`, `500m`, `1e9`.

/// What a suffix multiplies with, as a base and its power.
const SUFFIXES: [(&str, u32, i32); 14] = [
    ("", 10, 0),
    ("m", 10, -3),
    ("k", 10, 3),
    ("M", 10, 6),
    ("G", 10, 9),
    ("T", 10, 12),
    ("P", 10, 15),
    ("E", 10, 18),
    ("Ki", 1024, 1),
    ("Mi", 1024, 2),
    ("Gi", 1024, 3),
    ("Ti", 1024, 4),
    ("Pi", 1024, 5),
    ("Ei", 1024, 6),
];

/// The number that a quantity stands for, rounded up to a whole one as Kubernetes does; none when it
/// is no quantity, negative or beyond 64 bits.
pub(super) fn parse(text: &str) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = [whole, fraction].concat();
    let (base, power) = scale(suffix)?;
    let value: u128 = digits.parse().ok()?;
    let decimals = u32::try_from(fraction.len()).ok()?;
    let (up, down) = match u32::try_from(power) {
        Ok(power) => (u128::from(base).checked_pow(power)?, 1),
        Err(_) => (1, u128::from(base).checked_pow(power.unsigned_abs())?),
    };
    let down = down.checked_mul(10_u128.checked_pow(decimals)?)?;
    u64::try_from(value.checked_mul(up)?.div_ceil(down)).ok()
}

/// Of a suffix, or of a decimal exponent as in `1e3`.
fn scale(suffix: &str) -> Option<(u32, i32)> {
    let known = SUFFIXES.iter().find(|(name, ..)| *name == suffix);
    if let Some((_, base, power)) = known {
        return Some((*base, *power));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((10, exponent.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_a_number() {
        for (text, number) in [
            ("0", 0),
            ("2Gi", 2 << 30),
            ("1.5Gi", 3 << 29),
            ("128M", 128_000_000),
            ("1k", 1000),
            ("100m", 1),
            ("1500m", 2),
            ("1e3", 1000),
            ("1E3", 1000),
            ("12e-1", 2),
            ("1E", 1_000_000_000_000_000_000),
            ("+1", 1),
            (".5Ki", 512),
            ("15Ei", 15 << 60),
        ] {
            assert_eq!(parse(text), Some(number), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_none() {
        for text in [
            "", ".", "Gi", "-1", "1 Gi", "1gi", "1.2.3", "0x10", "16Ei", "1e99", "1e", "1e-99",
            "１",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&"9".repeat(100)), None);
        assert_eq!(parse(&format!("0.{}", "1".repeat(100))), None);
    }
}
