//! Prints the public surface of the library whose JSON, of rustdoc, is in this file.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let json = std::env::args().nth(1).ok_or("name a file of rustdoc")?;
    let surface = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    println!("{surface}");
    Ok(())
}
