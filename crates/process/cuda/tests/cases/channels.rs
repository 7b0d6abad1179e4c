//! Channels between processes and with the host, and children.

use std::time::{Duration, Instant};

use everwarp_process::{ChannelError, ExitStatus, ProcessEngine};
use everwarp_process_cuda::CudaProcesses;
use libtest_mimic::Failed;

use super::{PATIENCE, config, normal, number, run, same, spawn, spawn_many, text, wait};

/// A process sends the host's messages back. When the process exits, the channel is closed.
pub(super) fn messages_of_every_length_come_back_in_order(
    host: &CudaProcesses,
) -> Result<(), Failed> {
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
    // The process had the last end.
    same(answers.try_receive(), Err(ChannelError::Closed))
}

/// A kill reaches a process that waits for a message, and closes the ends that it had.
pub(super) fn a_kill_ends_a_receiver_and_closes_its_ends(
    host: &CudaProcesses,
) -> Result<(), Failed> {
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

/// A process that waits for a place has ends, and a kill closes them.
pub(super) fn a_process_that_never_starts_holds_no_end_open(
    host: &CudaProcesses,
) -> Result<(), Failed> {
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

/// Arguments that no process can mean lead to an error and to nothing else.
pub(super) fn forged_handles_are_refused(host: &CudaProcesses) -> Result<(), Failed> {
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

/// In each of many pairs, a child adds up the numbers that its parent sends.
pub(super) fn children_add_up_the_messages_of_their_parents(
    host: &CudaProcesses,
) -> Result<(), Failed> {
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

/// One parent and many parents spawn children, one after the other.
pub(super) fn each_parent_spawns_a_thousand_children(host: &CudaProcesses) -> Result<(), Failed> {
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

/// A process that spawns without end reaches its limit. Meanwhile other processes can spawn. A kill ends it with all its
/// descendants.
pub(super) fn a_bomb_is_limited_and_ends_as_a_whole(host: &CudaProcesses) -> Result<(), Failed> {
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

/// Children end when their parents kill them, and when their parents exit.
pub(super) fn children_end_with_their_parents(host: &CudaProcesses) -> Result<(), Failed> {
    for mode in ["k", "x"] {
        for pid in spawn_many(host, number("family"), &config(&[mode]), 4)? {
            normal(&wait(host, pid)?, 0)?;
        }
    }
    Ok(())
}

/// The output of children is captured with their ancestor's.
pub(super) fn children_write_to_the_output_of_their_ancestor(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    let exit = run(host, "family", &config(&["o"]))?;
    normal(&exit, 0)?;
    same(
        text(&exit.stdout),
        "child\nchild\nchild\nparent\n".to_owned(),
    )
}

/// Children print one after the other, and each starts in the place where the one before has just exited. None of them
/// may call the host before the host has learned of the earlier exit.
pub(super) fn the_output_of_a_child_is_kept_when_its_place_is_reused(
    host: &CudaProcesses,
) -> Result<(), Failed> {
    for pid in spawn_many(host, number("family"), &config(&["r"]), 8)? {
        let exit = wait(host, pid)?;
        normal(&exit, 0)?;
        same(text(&exit.stdout), "child\n".repeat(200) + "parent\n")?;
    }
    Ok(())
}

/// Processes that share two channels are killed while messages are on their way. Each message comes back once, or a killed
/// process had taken it. The last kill closes both channels.
pub(super) fn no_message_comes_twice_while_receivers_are_killed(
    host: &CudaProcesses,
) -> Result<(), Failed> {
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

/// Guests that use channels and children.
pub(super) fn guests_print_the_same_as_on_the_cpu_engine(
    host: &CudaProcesses,
) -> Result<(), Failed> {
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
