//! The bindings that wit-bindgen generates from the WIT.
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

wit_bindgen::generate!({
    world: "virt-hook:hooks/hook@0.1.1",
    path: ["wit/v0.1", "wit/v0.1.1"],
    generate_all,
    pub_export_macro: true,
    export_macro_name: "export_component",
});
