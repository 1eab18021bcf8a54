//! Images on a base, made by the library and by the program `launcher-image`.
#![allow(clippy::unwrap_used)]

mod image_on_base;
mod image_reader;
mod launcher_image_program;
