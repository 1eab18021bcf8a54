//! The bindings that wit-bindgen generates from the WIT. They are in the sources, so that a hook does not compile the generator:
//! that was half of the processor time of its first build.
#![allow(
    unsafe_code,
    reason = "the canonical ABI passes pointers; this is the only place that does"
)]
#![allow(
    missing_docs,
    unused_qualifications,
    unreachable_pub,
    clippy::all,
    reason = "generated"
)]

#[rustfmt::skip]
mod generated;

pub use generated::*;
