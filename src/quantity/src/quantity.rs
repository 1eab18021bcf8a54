//! Kubernetes quantities (`128Mi`, `4G`, `1500m`, `1e9`), exactly.

#[cfg(test)]
mod tests;

use std::fmt;

use serde_core::{Deserialize, Deserializer, de};

/// An amount, kept in billionths so that every suffix is exact. Finer digits round up, as in Kubernetes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    /// Kubernetes keeps the amount as a decimal, even if it is whole: `1.5Gi`, `100Ti`.
    is_decimal: bool,
}

/// Compares amounts: `1Gi` equals `1024Mi`.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

const NANOS: i128 = 1_000_000_000;
/// Longer texts are refused before any arithmetic.
const MAX_LENGTH: usize = 64;

/// Why a text is not a quantity.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum QuantityError {
    /// Not a number with a known suffix.
    #[error("{0:?} is not a quantity such as 128Mi, 4G, 1500m or 1e9")]
    Malformed(String),
    /// Beyond 64 bits.
    #[error("{0:?} is beyond the largest quantity, 2^63-1")]
    Overflow(String),
}

impl Quantity {
    /// Reads a quantity.
    ///
    /// # Errors
    /// [`QuantityError`] when the text is malformed or the amount does not fit into 64 bits.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let malformed = || QuantityError::Malformed(text.chars().take(MAX_LENGTH).collect());
        if text.len() > MAX_LENGTH {
            return Err(malformed());
        }
        let parts = Parts::split(text).ok_or_else(malformed)?;
        let nanos = parts
            .nanos()
            .ok_or_else(|| QuantityError::Overflow(text.to_owned()))?;
        Ok(Self {
            nanos,
            is_decimal: parts.is_decimal(),
        })
    }

    /// A whole amount.
    pub fn from_units(units: i64) -> Self {
        Self {
            nanos: i128::from(units) * NANOS,
            is_decimal: false,
        }
    }

    /// The amount in whole units, rounded up.
    pub fn value(&self) -> i64 {
        let units = self.nanos.div_euclid(NANOS) + i128::from(self.nanos.rem_euclid(NANOS) != 0);
        i64::try_from(units).unwrap_or(i64::MAX)
    }

    /// The amount in bytes: whole units, rounded up.
    ///
    /// # Errors
    /// The amount itself when it is negative.
    pub fn bytes(&self) -> Result<u64, i64> {
        u64::try_from(self.value()).map_err(|_| self.value())
    }

    /// The amount in bytes as KubeVirt v1.9 (`QuantityToByte`) gives it to libvirt: an amount that Kubernetes
    /// keeps as a decimal is rounded up and reduced by one byte.
    ///
    /// # Errors
    /// The amount itself when it is negative.
    pub fn memory_bytes(&self) -> Result<u64, Self> {
        u64::try_from(self.value() - i64::from(self.is_decimal)).map_err(|_| *self)
    }

    /// The amount if Kubernetes keeps it as an integer, `None` if as a decimal.
    pub fn integer(&self) -> Option<i64> {
        (!self.is_decimal).then(|| self.value())
    }

    /// Whether the amount is below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether the amount is zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }
}

/// Writes the shortest text, with a binary suffix where one fits, as VMIs write memory.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos % NANOS != 0 {
            return match (self.nanos % 1_000_000, self.nanos % 1000) {
                (0, _) => write!(f, "{}m", self.nanos / 1_000_000),
                (_, 0) => write!(f, "{}u", self.nanos / 1000),
                _ => write!(f, "{}n", self.nanos),
            };
        }
        let mut units = self.nanos / NANOS;
        let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
        let mut suffix = suffixes.next().unwrap_or_default();
        while units != 0 && units % 1024 == 0 {
            let Some(next) = suffixes.next() else { break };
            units /= 1024;
            suffix = next;
        }
        write!(f, "{units}{suffix}")
    }
}

/// A quantity's text, split into sign, digits and suffix.
struct Parts {
    negative: bool,
    /// The digits without the point.
    mantissa: i128,
    /// The number of digits without leading zeros.
    digits: u32,
    /// The number of digits after the point.
    fraction_digits: u32,
    scale: Scale,
}

#[derive(Clone, Copy)]
enum Scale {
    /// Powers of 1024.
    Binary(u32),
    /// Powers of ten.
    Decimal(i32),
}

impl Parts {
    fn split(text: &str) -> Option<Self> {
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
        })
    }

    /// The amount in billionths, rounded away from zero; `None` beyond 64 bits of whole units.
    fn nanos(&self) -> Option<i128> {
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

/// The limits within which Kubernetes keeps a number as an integer (apimachinery, `ParseQuantity`).
impl Parts {
    /// Digits that always fit into 64 bits.
    const DECIMAL_DIGITS: u32 = 18;
    /// The same for binary suffixes; each power of 1024 takes three of these digits.
    const BINARY_DIGITS: u32 = 14;

    fn is_decimal(&self) -> bool {
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

impl std::str::FromStr for Quantity {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as \"128Mi\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Quantity::parse(text.trim()).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, units: u64) -> Result<Quantity, E> {
                Quantity::parse(&units.to_string()).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, units: i64) -> Result<Quantity, E> {
                Ok(Quantity::from_units(units))
            }
            fn visit_f64<E: de::Error>(self, units: f64) -> Result<Quantity, E> {
                Quantity::parse(&units.to_string()).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
