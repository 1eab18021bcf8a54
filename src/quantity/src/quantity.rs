//! Kubernetes quantities (`128Mi`, `4G`, `1500m`, `1e9`), exactly.

#[cfg(test)]
mod tests;

use std::fmt;

use serde_core::{Deserialize, Deserializer, de};

use crate::quantity_text::{NANOS, QuantityText};

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

/// Longer texts are refused before any arithmetic.
const MAX_LENGTH: usize = 64;

/// Why a text is not a quantity.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuantityError {
    /// Not a number with a known suffix.
    #[error("{0:?} is not a quantity such as 128Mi, 4G, 1500m or 1e9")]
    Malformed(String),
    /// Beyond 64 bits.
    #[error("{0:?} is beyond the largest quantity, 2^63-1")]
    Overflow(String),
}

/// The error of an amount that is below zero as a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a number of bytes")]
pub struct NegativeQuantity(Quantity);

impl NegativeQuantity {
    /// The amount.
    pub fn quantity(&self) -> Quantity {
        self.0
    }
}

/// Billionths in a thousandth.
const MILLI: i128 = NANOS / 1000;

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
        let parts = QuantityText::split(text).ok_or_else(malformed)?;
        let nanos = parts
            .nanos()
            .ok_or_else(|| QuantityError::Overflow(text.to_owned()))?;
        Ok(Self {
            nanos,
            is_decimal: parts.is_decimal(),
        })
    }

    /// The text as Kubernetes' API server stores it: `1536Mi` for `1.5Gi`, `2G` for `2000M`, `500m` for `0.5`.
    ///
    /// # Errors
    /// As [`Quantity::parse`].
    pub fn canonical_text(text: &str) -> Result<String, QuantityError> {
        let amount = Self::parse(text)?;
        let malformed = || QuantityError::Malformed(text.to_owned());
        let parts = QuantityText::split(text).ok_or_else(malformed)?;
        Ok(parts.canonical_text(amount.nanos))
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
        i64::try_from(self.rounded_up(NANOS)).unwrap_or(i64::MAX)
    }

    /// The amount in bytes: whole units, rounded up.
    ///
    /// # Errors
    /// [`NegativeQuantity`] if it is below zero.
    pub fn bytes(&self) -> Result<u64, NegativeQuantity> {
        u64::try_from(self.value()).map_err(|_| NegativeQuantity(*self))
    }

    /// The amount in thousandths, rounded up: 500 for the CPU quantity `500m`.
    pub fn milli_value(&self) -> i64 {
        i64::try_from(self.rounded_up(MILLI)).unwrap_or(i64::MAX)
    }

    fn rounded_up(&self, unit: i128) -> i128 {
        self.nanos.div_euclid(unit) + i128::from(self.nanos.rem_euclid(unit) != 0)
    }

    /// The amount in bytes as KubeVirt v1.9 (`QuantityToByte`) gives it to libvirt: an amount that Kubernetes
    /// keeps as a decimal is rounded up and reduced by one byte.
    ///
    /// # Errors
    /// [`NegativeQuantity`] if that is below zero, as it is for a zero that Kubernetes keeps as a decimal (`0.0`).
    pub fn memory_bytes(&self) -> Result<u64, NegativeQuantity> {
        let bytes = self.value() - i64::from(self.is_decimal);
        u64::try_from(bytes).map_err(|_| NegativeQuantity(*self))
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
