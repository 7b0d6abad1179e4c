//! How far the compiler is where functions come while processes run.

use std::time::Duration;

/// How much of its modules an engine has compiled ([`Tier::Lazy`](crate::Tier::Lazy)), and what that has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compiling {
    /// Functions that processes can run without: all others were compiled before the start.
    pub left_out: usize,
    /// Those of them that are assembled.
    pub assembled: usize,
    /// Those of them that processes have.
    pub present: usize,
    /// Exchanges of the engine's image for functions that processes have asked for, in all.
    pub exchanges: Exchanges,
}

/// Exchanges of an engine's image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchanges {
    /// How many there were.
    pub count: u32,
    /// Time to link the images, while processes ran.
    pub linking: Duration,
    /// Time until all tasks had come to a boundary.
    pub parking: Duration,
    /// Time to load the images, while nothing ran.
    pub loading: Duration,
    /// Time until the engine went on.
    pub resuming: Duration,
    /// The longest time for which the engine paused.
    pub longest: Duration,
}

impl Exchanges {
    /// For how long the engine paused, in all.
    pub fn paused(&self) -> Duration {
        self.parking + self.loading + self.resuming
    }

    /// Adds another exchange to these.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.linking += other.linking;
        self.parking += other.parking;
        self.loading += other.loading;
        self.resuming += other.resuming;
        self.longest = self.longest.max(other.longest);
    }
}

impl std::fmt::Display for Compiling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let Self {
            left_out,
            assembled,
            present,
            exchanges,
        } = self;
        write!(
            f,
            "of {left_out} functions that were left out at first, {assembled} are assembled and processes have {present}"
        )?;
        if exchanges.count == 0 {
            return Ok(());
        }
        write!(
            f,
            "; {} exchanges took {:.0} ms to link and paused the engine for {:.1} ms ({:.1} to park, {:.1} to load, {:.1} to go \
             on), at most {:.1} ms at a time",
            exchanges.count,
            ms(exchanges.linking),
            ms(exchanges.paused()),
            ms(exchanges.parking),
            ms(exchanges.loading),
            ms(exchanges.resuming),
            ms(exchanges.longest)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_the_exchanges_took() {
        let ms = Duration::from_millis;
        let mut compiling = Compiling {
            left_out: 9,
            assembled: 7,
            present: 5,
            ..Compiling::default()
        };
        assert!(compiling.to_string().ends_with("processes have 5"));
        for loading in [20, 7] {
            compiling.exchanges.add(&Exchanges {
                count: 1,
                linking: ms(300),
                parking: ms(1),
                loading: ms(loading),
                resuming: ms(2),
                longest: ms(3 + loading),
            });
        }
        let text = compiling.to_string();
        for part in [
            "2 exchanges",
            "600 ms to link",
            "33.0 ms (2.0 to park, 27.0 to load, 4.0 to go on), at most 23.0 ms",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
