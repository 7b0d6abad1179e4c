//! Prints the device header, as device sources include it.

fn main() {
    let mut header = String::new();
    everwarp_contract::header::write_header(&mut header).expect("writing to a string cannot fail");
    print!("{header}");
}
