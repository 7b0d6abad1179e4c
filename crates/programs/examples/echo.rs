//! An echo server of native tasks on the CPU engine. With it running, try `nc 127.0.0.1 7777`:
//!
//! `cargo run --release -p everwarp-programs --example echo -- 7777`
//!
//! It ends with its input (Ctrl-D), and says how many bytes it has sent back.

use std::error::Error;
use std::io::Read;

use everwarp::files::Listener;
use everwarp::{Device, Select};
use everwarp_programs::echo::{self, Echo};

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "0".to_owned());
    let listener = Listener::bind(&address.parse()?)?;
    let device = Device::open(Select::Cpu)?;
    let engine = device.engine().program(&echo::PROGRAM).start()?;
    let server = Echo::new(&engine, &listener, 1000, 16 << 10)?;
    let mut pending = server.start(&engine)?;
    println!("listening on {}", listener.local_address());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop();
    println!("{} bytes were sent back", pending.wait()?.value);
    Ok(())
}
