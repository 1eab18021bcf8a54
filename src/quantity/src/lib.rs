//! Kubernetes quantities (`128Mi`, `1500m`) and Go durations (`3m0s`), for the host and for hooks.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod go_duration;
mod quantity;
mod quantity_text;

pub use quantity::{NegativeQuantity, Quantity, QuantityError};
