//! The templates of `new` are part of the program, and the macro that embeds them tells Cargo of none.

fn main() {
    println!("cargo::rerun-if-changed=templates");
}
