//! Slots as the host reads them, whichever engine wrote them.

use everwarp_contract::actor::{MAIL_COUNT_MAX, MAIL_COUNT_SHIFT, MAIL_FLAG_SHIFT};
use everwarp_contract::wgpu::{DevWgpuActor, WGPU_MAIL_FLAGS, WGPU_MAIL_GENERATION};
use everwarp_contract::{DevActor, DevType};
use everwarp_runtime::EngineKind;

use crate::system::{ActorConfig, from_words};

/// The actor in a slot. Its mailbox is without its cells, which the host does not follow.
pub(crate) fn actor_in(engine: EngineKind, words: &[u64]) -> DevActor {
    if engine != EngineKind::Wgpu {
        return from_words(words);
    }
    let slot = from_words::<DevWgpuActor>(words);
    let count = u64::from(slot.mail & MAIL_COUNT_MAX);
    let flags =
        slot.mail >> WGPU_MAIL_FLAGS & ((1 << (WGPU_MAIL_GENERATION - WGPU_MAIL_FLAGS)) - 1);
    let wide = |[low, high]: [u32; 2]| u64::from(high) << 32 | u64::from(low);
    DevActor {
        mail: count << MAIL_COUNT_SHIFT | u64::from(flags) << MAIL_FLAG_SHIFT,
        kind: slot.kind as u16,
        bound: (slot.kind >> 16) as u16,
        generation: slot.generation,
        handled: wide(slot.handled),
        parent: wide(slot.parent),
        ..DevActor::ZERO
    }
}

/// The pools of a system on wgpu before the first actor: a bit for each free cell, then one for each free slot.
pub(crate) fn free_numbers(config: &ActorConfig) -> Vec<u64> {
    let pool = |count: u32| {
        let last = match count % 64 {
            0 => None,
            rest => Some((1 << rest) - 1),
        };
        std::iter::repeat_n(u64::MAX, count as usize / 64).chain(last)
    };
    pool(config.messages).chain(pool(config.actors)).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mail::Mail;
    use everwarp_contract::Layout;
    use everwarp_contract::actor::{MAIL_LISTED, MAIL_LIVE};

    #[test]
    fn a_slot_of_wgpu_reads_as_one_of_the_other_engines() {
        let flags = MAIL_LIVE | MAIL_LISTED;
        let slot = DevWgpuActor {
            mail: 4095 | flags << WGPU_MAIL_FLAGS | 0xabc << WGPU_MAIL_GENERATION,
            kind: 4000 << 16 | 7,
            generation: 0x7abc,
            handled: [5, 1],
            parent: [9, 2],
            ..DevWgpuActor::ZERO
        };
        let words: Vec<u64> = slot.bytes().chunks_exact(8).map(u64::from_bytes).collect();
        let actor = actor_in(EngineKind::Wgpu, &words);
        let mail = Mail(actor.mail);
        assert_eq!((mail.count(), mail.cell()), (4095, 0));
        assert!(mail.has(MAIL_LIVE) && mail.has(MAIL_LISTED) && !mail.has(!flags & 0xff));
        assert_eq!(
            (actor.kind, actor.bound, actor.generation),
            (7, 4000, 0x7abc)
        );
        assert_eq!((actor.handled, actor.parent), (1 << 32 | 5, 2 << 32 | 9));
    }

    #[test]
    fn every_number_is_free_once() {
        for (messages, actors) in [(1, 64), (63, 65), (64, 1), (100, 130)] {
            let config = ActorConfig {
                actors,
                messages,
                ..ActorConfig::default()
            };
            let words = free_numbers(&config);
            let cells = messages.div_ceil(64) as usize;
            let ones = |words: &[u64]| words.iter().map(|w| w.count_ones()).sum::<u32>();
            assert_eq!(
                (ones(&words[..cells]), ones(&words[cells..])),
                (messages, actors)
            );
            // Those with the lowest numbers.
            assert!(words.iter().all(|w| w.trailing_ones() == w.count_ones()));
        }
    }
}
