//! Runs 100 processes of a WebAssembly module, on a GPU if there is one.
use everwarp::process::{Command, Error, Host, Module, Output};
use everwarp::{Device, Select};

fn main() -> Result<(), Error> {
    let device = Device::open(Select::Auto)?;
    let hello = Module::from_file("guests/built/hello.wasm")?;
    let host = Host::builder(&device).module(&hello).start()?;
    let children = Command::new(&host, &hello)
        .stdout(Output::lines())
        .spawn_each(100, |number, start| start.arg(&[&number.to_string()]))?;
    let exits = children.wait_all()?;
    let succeeded = exits.iter().filter(|exit| exit.success()).count();
    println!("{succeeded} of {} processes succeeded", exits.len());
    Ok(())
}
