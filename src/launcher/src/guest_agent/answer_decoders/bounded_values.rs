//! Types that limit the size of the values in an agent's answer, since the guest is not trusted.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

/// A text, cut off after `N` characters, with control characters replaced by U+FFFD. `null` is the empty text, since
/// the agents of some systems send it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Text<const N: usize>(pub(super) String);

impl<'de, const N: usize> Deserialize<'de> for Text<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor<const N: usize>;
        impl<const N: usize> Visitor<'_> for TextVisitor<N> {
            type Value = Text<N>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                let visible = |character: char| match character.is_control() {
                    true => char::REPLACEMENT_CHARACTER,
                    false => character,
                };
                Ok(Text(text.chars().take(N).map(visible).collect()))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// The first `N` items of a list. `null` is the empty list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct List<T, const N: usize>(pub(super) Vec<T>);

impl<T, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for List<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for ListVisitor<T, N> {
            type Value = List<T, N>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while list.len() < N {
                    match items.next_element()? {
                        Some(item) => list.push(item),
                        None => return Ok(List(list)),
                    }
                }
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(List(list))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(List::default())
            }
        }
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

/// A number, limited to the range of `i64`; a fraction is cut off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Integer(pub(super) i64);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let unsigned = || number.as_u64().map(|_| i64::MAX);
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the cast saturates, as intended"
        )]
        let float = || number.as_f64().map(|float| float as i64);
        Ok(Integer(
            number
                .as_i64()
                .or_else(unsigned)
                .or_else(float)
                .unwrap_or(0),
        ))
    }
}
