//! Images on a base, made by the library and by the program `launcher-image`.
#![allow(clippy::unwrap_used)]

mod base_image;
mod launcher_image_program;
mod unpacked_layout;
