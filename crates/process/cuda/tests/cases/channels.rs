//! Channels and children.

use std::time::{Duration, Instant};

use everwarp_process::{ChannelError, ExitStatus, ProcessEngine};
use everwarp_process_cuda::CudaProcesses;
use libtest_mimic::Failed;

use super::{PATIENCE, config, normal, number, run, same, spawn, spawn_many, text, wait};

/// What the host sends comes back by a process, in order, of every length; its end is that of the channel.
pub(super) fn echo(host: &CudaProcesses) -> Result<(), Failed> {
    let (requests, from) = host.channel(3, 64)?;
    let (to, answers) = host.channel(2, 64)?;
    let config = config(&[]).granted(|grants| {
        grants.ends = vec![from.end(), to.end()];
    });
    let pid = spawn(host, number("echo"), &config)?;
    drop((config, from, to));
    let begin = Instant::now();
    for n in 1..=64u8 {
        let message: Vec<u8> = (0..n).map(|k| n.wrapping_mul(k + 1)).collect();
        requests.send(&message)?;
        let mut expected = message;
        expected[0] = expected[0].wrapping_add(1);
        same(answers.receive_timeout(PATIENCE)?, expected)?;
    }
    eprintln!("64 messages there and back: {:?}", begin.elapsed());
    same(requests.try_send(&[0; 65]), Err(ChannelError::Size))?;
    same(answers.try_receive(), Err(ChannelError::Again))?;
    drop(requests);
    normal(&wait(host, pid)?, 0)?;
    // Its end was the last one.
    same(answers.try_receive(), Err(ChannelError::Closed))
}

/// A kill reaches a process that waits for a message, and closes what it had.
pub(super) fn kill_a_receiver(host: &CudaProcesses) -> Result<(), Failed> {
    let (requests, from) = host.channel(1, 64)?;
    let (to, answers) = host.channel(1, 64)?;
    let config = config(&[]).granted(|grants| {
        grants.ends = vec![from.end(), to.end()];
    });
    let pid = spawn(host, number("echo"), &config)?;
    drop((config, from, to));
    requests.send(b"a")?;
    same(answers.receive_timeout(PATIENCE)?, b"b".to_vec())?;
    host.kill(pid)?;
    same(wait(host, pid)?.status, ExitStatus::Killed)?;
    same(answers.try_receive(), Err(ChannelError::Closed))?;
    same(requests.try_send(b"c"), Err(ChannelError::Closed))
}

/// A process that never starts holds nothing open.
pub(super) fn ends_in_the_queue(host: &CudaProcesses) -> Result<(), Failed> {
    let echo = number("echo");
    let (requests, from) = host.channel(1, 8)?;
    let waiting = config(&[]).granted(|grants| {
        grants.ends = vec![from.end(), requests.end()];
    });
    let busy = spawn_many(host, echo, &waiting, host.width(echo) as usize)?;
    let (to, answers) = host.channel(1, 8)?;
    let config = config(&[]).granted(|grants| {
        grants.ends = vec![from.end(), to.end()];
    });
    let queued = spawn(host, echo, &config)?;
    drop((config, to));
    same(answers.try_receive(), Err(ChannelError::Again))?;
    host.kill(queued)?;
    same(wait(host, queued)?.status, ExitStatus::Killed)?;
    same(answers.try_receive(), Err(ChannelError::Closed))?;
    for pid in &busy {
        host.kill(*pid)?;
    }
    for pid in busy {
        same(wait(host, pid)?.status, ExitStatus::Killed)?;
    }
    Ok(())
}

/// Whatever a process says, nothing but an error comes of it.
pub(super) fn forged(host: &CudaProcesses) -> Result<(), Failed> {
    let mut pids = Vec::new();
    for _ in 0..20 {
        let (to, from) = host.channel(2, 16)?;
        let config = config(&[]).granted(|grants| {
            grants.ends = vec![to.end(), from.end()];
        });
        pids.push(spawn(host, number("forge"), &config)?);
    }
    for pid in pids {
        normal(&wait(host, pid)?, 0)?;
    }
    Ok(())
}

/// A child adds up what its parent sends it, in each of many pairs.
pub(super) fn pairs(host: &CudaProcesses) -> Result<(), Failed> {
    for count in [1, 32, 200] {
        let begin = Instant::now();
        for pid in spawn_many(host, number("family"), &config(&["p"]), count)? {
            normal(&wait(host, pid)?, 499_500 % 1000)?;
        }
        let rate = count as f64 * 1000.0 / begin.elapsed().as_secs_f64();
        eprintln!("{count} pairs: {rate:.0} messages/s");
    }
    Ok(())
}

/// Children one after the other, by one parent and by many.
pub(super) fn children(host: &CudaProcesses) -> Result<(), Failed> {
    for count in [1, 32, 500] {
        let begin = Instant::now();
        for pid in spawn_many(host, number("family"), &config(&["s"]), count)? {
            normal(&wait(host, pid)?, 0)?;
        }
        let each = begin.elapsed() / (count as u32 * 1000);
        eprintln!("{count} parents with 1,000 children each: {each:?} a child");
    }
    Ok(())
}

/// A bomb is refused in the end; others spawn meanwhile; its death takes all of it along.
pub(super) fn bombs(host: &CudaProcesses) -> Result<(), Failed> {
    let family = number("family");
    for _ in 0..3 {
        let bomb = spawn(host, family, &config(&["b"]))?;
        for _ in 0..3 {
            normal(&run(host, "family", &config(&["p"]))?, 500)?;
        }
        same(
            host.wait(bomb, Some(Duration::from_millis(50))).is_err(),
            true,
        )?;
        host.kill(bomb)?;
        same(wait(host, bomb)?.status, ExitStatus::Killed)?;
    }
    Ok(())
}

/// Who is killed by its parent, or left behind, ends.
pub(super) fn killed_children(host: &CudaProcesses) -> Result<(), Failed> {
    for mode in ["k", "x"] {
        for pid in spawn_many(host, number("family"), &config(&[mode]), 4)? {
            normal(&wait(host, pid)?, 0)?;
        }
    }
    Ok(())
}

/// Children write to their ancestor's output.
pub(super) fn output_of_children(host: &CudaProcesses) -> Result<(), Failed> {
    let exit = run(host, "family", &config(&["o"]))?;
    normal(&exit, 0)?;
    same(
        text(&exit.stdout),
        "child\nchild\nchild\nparent\n".to_owned(),
    )
}

/// Children print one after the other, and each begins where the one before has just ended: none of them calls a host
/// that has yet to hear of the end before.
pub(super) fn places_of_children(host: &CudaProcesses) -> Result<(), Failed> {
    for pid in spawn_many(host, number("family"), &config(&["r"]), 8)? {
        let exit = wait(host, pid)?;
        normal(&exit, 0)?;
        same(text(&exit.stdout), "child\n".repeat(200) + "parent\n")?;
    }
    Ok(())
}

/// Processes that share both channels are killed while messages are on their way: each comes back once or was taken
/// by one that died, and the last one's death closes both.
pub(super) fn closing_races(host: &CudaProcesses) -> Result<(), Failed> {
    for round in 0..20 {
        let (requests, from) = host.channel(4, 8)?;
        let (to, answers) = host.channel(4, 8)?;
        let config = config(&[]).granted(|grants| {
            grants.ends = vec![from.end(), to.end()];
        });
        let pids = spawn_many(host, number("echo"), &config, 40)?;
        drop((config, from, to));
        let mut seen = [false; 250];
        let mut take = |message: Vec<u8>| {
            let n = usize::from(message[0]) - 1;
            match std::mem::replace(&mut seen[n], true) {
                true => Err(Failed::from(format!("round {round}: {n} came twice"))),
                false => Ok(()),
            }
        };
        let mut alive = pids.iter();
        for n in 0..250u8 {
            loop {
                match requests.try_send(&[n; 8]) {
                    Err(ChannelError::Again) => {}
                    Err(ChannelError::Closed) if alive.len() == 0 => break,
                    sent => break sent?,
                }
                if let Ok(message) = answers.try_receive() {
                    take(message)?;
                }
            }
            if n % 6 == 5
                && let Some(pid) = alive.next()
            {
                host.kill(*pid)?;
            }
        }
        for pid in alive {
            host.kill(*pid)?;
        }
        for pid in pids {
            same(wait(host, pid)?.status, ExitStatus::Killed)?;
        }
        loop {
            match answers.try_receive() {
                Ok(message) => take(message)?,
                Err(closed) => break same(closed, ChannelError::Closed)?,
            }
        }
        same(requests.try_send(b"late"), Err(ChannelError::Closed))?;
    }
    Ok(())
}

/// The guests that use them, with what they print on the CPU engine.
pub(super) fn guests(host: &CudaProcesses) -> Result<(), Failed> {
    let pipeline = "1229 primes below 10000, sum 5736396\nthree processes ended\n";
    let mut kv: String = (0..8)
        .map(|n| format!("client {n}: 34 puts, 100 gets, 100 adds\n"))
        .collect();
    kv += "129 keys, counter 42400, digest 35e13f31cf9b7e09\n";
    for (name, expected) in [("pipeline", pipeline), ("kv", &kv)] {
        for count in [1, 20] {
            let begin = Instant::now();
            for pid in spawn_many(host, number(name), &config(&[]), count)? {
                let exit = wait(host, pid)?;
                normal(&exit, 0)?;
                same(text(&exit.stdout), expected.to_owned())?;
            }
            eprintln!("{count} of {name}: {:?}", begin.elapsed());
        }
    }
    Ok(())
}
