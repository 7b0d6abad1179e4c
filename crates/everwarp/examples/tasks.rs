//! Adds the squares of 1 to 100 with a task for each, on a GPU if there is one.
use everwarp::{Device, Error, Select, TaskCx, program};

program! { static SQUARES: squares(), "squares.cu" { SQUARE: lane(square) } }

fn square(task: &mut dyn TaskCx) {
    task.report_add(task.arg() * task.arg());
}

fn main() -> Result<(), Error> {
    let device = Device::open(Select::Auto)?;
    let engine = device.engine().program(&SQUARES).start()?;
    let squares = engine.plain_instance(&SQUARES)?;
    let task = |n| squares.task(SQUARE).arg(n).build();
    let tasks: Vec<_> = (1..=100).map(task).collect();
    let sum = engine.submit_batch(&tasks)?.wait()?.value;
    println!("the squares of 1 to 100 add up to {sum}");
    Ok(())
}
