//! The text of a quantity, split into sign, digits and suffix.

/// Billionths of a unit.
pub(crate) const NANOS: i128 = 1_000_000_000;

/// A quantity's text, split into sign, digits and suffix.
pub(crate) struct QuantityText {
    negative: bool,
    /// The digits without the point.
    mantissa: i128,
    /// The number of digits without leading zeros.
    digits: u32,
    /// The number of digits after the point.
    fraction_digits: u32,
    scale: Scale,
    /// Whether the suffix is an exponent such as `e3`.
    has_exponent: bool,
}

#[derive(Clone, Copy)]
enum Scale {
    /// Powers of 1024.
    Binary(u32),
    /// Powers of ten.
    Decimal(i32),
}

impl QuantityText {
    pub(crate) fn split(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        // Digits beyond i128 can only be an overflow or noise far below a billionth.
        let mantissa = format!("{whole}{fraction}").parse().unwrap_or(i128::MAX);
        let fraction_digits = u32::try_from(fraction.len()).ok()?;
        let whole_digits = whole.trim_start_matches('0').len().max(1);
        Some(Self {
            negative,
            mantissa,
            digits: u32::try_from(whole_digits).ok()? + fraction_digits,
            fraction_digits,
            scale: scale(suffix)?,
            has_exponent: suffix.len() > 1 && suffix.starts_with(['e', 'E']) && suffix != "Ei",
        })
    }

    /// The shortest text for an amount in billionths, with a suffix of the same kind (apimachinery, `CanonicalizeBytes`). A
    /// binary suffix is kept only for whole amounts from 1024 on.
    pub(crate) fn canonical_text(&self, nanos: i128) -> String {
        const LEAST_BINARY: i128 = 1024 * NANOS;
        let is_binary = matches!(self.scale, Scale::Binary(_))
            && nanos.abs() >= LEAST_BINARY
            && nanos % NANOS == 0;
        if is_binary {
            let (units, power) = without_factors(nanos / NANOS, 1024);
            return format!("{units}{}", BINARY_SUFFIXES[power.min(6)]);
        }
        if nanos == 0 {
            return "0".to_owned();
        }
        let (mut number, power) = without_factors(nanos, 10);
        // A billionth has the exponent -9, and exponents of suffixes are multiples of 3.
        let missing = power % 3;
        for _ in 0..missing {
            number *= 10;
        }
        let thousands = (power - missing) / 3;
        match self.has_exponent {
            true if thousands == 3 => number.to_string(),
            true => format!("{number}e{}", 3 * i64::try_from(thousands).unwrap_or(3) - 9),
            false => format!("{number}{}", DECIMAL_SUFFIXES[thousands.min(9)]),
        }
    }

    /// The amount in billionths, rounded away from zero; `None` beyond 64 bits of whole units.
    pub(crate) fn nanos(&self) -> Option<i128> {
        let (factor, decimal) = match self.scale {
            Scale::Binary(power) => (1_i128 << (10 * power), 9),
            Scale::Decimal(exponent) => (1, exponent.checked_add(9)?),
        };
        let scaled = self.mantissa.checked_mul(factor)?;
        let shift = decimal - i32::try_from(self.fraction_digits).ok()?;
        let nanos = shift_decimal(scaled, shift)?;
        if nanos > i128::from(i64::MAX) * NANOS {
            return None;
        }
        Some(if self.negative { -nanos } else { nanos })
    }
}

const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From billionths on, by powers of 1000.
const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// A number other than 0 without its factors of `base`, and how many there were.
fn without_factors(mut number: i128, base: i128) -> (i128, usize) {
    let mut count = 0;
    while number != 0 && number % base == 0 {
        number /= base;
        count += 1;
    }
    (number, count)
}

/// The limits within which Kubernetes keeps a number as an integer (apimachinery, `ParseQuantity`).
impl QuantityText {
    /// Digits that always fit into 64 bits.
    const DECIMAL_DIGITS: u32 = 18;
    /// The same for binary suffixes; each power of 1024 takes three of these digits.
    const BINARY_DIGITS: u32 = 14;

    pub(crate) fn is_decimal(&self) -> bool {
        let is_integer = match self.scale {
            Scale::Binary(power) => {
                self.fraction_digits == 0 && self.digits + 3 * power <= Self::BINARY_DIGITS
            }
            Scale::Decimal(exponent) => {
                let places = i64::from(exponent) - i64::from(self.fraction_digits);
                places >= 0 && self.digits <= Self::DECIMAL_DIGITS
            }
        };
        !is_integer
    }
}

fn shift_decimal(number: i128, shift: i32) -> Option<i128> {
    if number == 0 {
        return Some(0);
    }
    let power = 10_i128.checked_pow(shift.unsigned_abs());
    match (shift >= 0, power) {
        (true, power) => number.checked_mul(power?),
        (false, Some(power)) => Some(number / power + i128::from(number % power != 0)),
        (false, None) => Some(1),
    }
}

fn scale(suffix: &str) -> Option<Scale> {
    Some(match suffix {
        "" => Scale::Decimal(0),
        "n" => Scale::Decimal(-9),
        "u" => Scale::Decimal(-6),
        "m" => Scale::Decimal(-3),
        "k" => Scale::Decimal(3),
        "M" => Scale::Decimal(6),
        "G" => Scale::Decimal(9),
        "T" => Scale::Decimal(12),
        "P" => Scale::Decimal(15),
        "E" => Scale::Decimal(18),
        "Ki" => Scale::Binary(1),
        "Mi" => Scale::Binary(2),
        "Gi" => Scale::Binary(3),
        "Ti" => Scale::Binary(4),
        "Pi" => Scale::Binary(5),
        "Ei" => Scale::Binary(6),
        exponent => Scale::Decimal(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}
