__device__ void bank_account(ew::Actor& a, DevBankActor& s, const ew::Message& m, const DevBank& p) {
  if (m.tag() == 1) {  // OPEN
    s.money = m.word(0);
    return;
  }
  const bool withdraw = m.tag() == 2;
  const u64 amount = m.word(0);
  const bool enough = !withdraw || s.money >= amount;
  if (enough) {
    s.done++;
    s.money = withdraw ? s.money - amount : s.money + amount;
  }
  a.reply(m.tag(), enough);
  // The asker must not see the reply, and the money is as it was.
  if (programs_mix(m.word(1) ^ m.tag()) >> 32 < p.risk) a.fail();
}

__device__ void bank_teller(ew::Actor& a, DevBankActor& s, const ew::Message& m, const DevBank& p) {
  constexpr u32 WITHDRAW = 2, DEPOSIT = 3, REFUND = 4;
  const bool good = m.is_reply() && m.failure() == ew::NONE && m.word(0) != 0;
  u32 step = 0;
  if (!m.is_reply()) {
    s.left = m.word(0);
    s.seed = m.word(1);
  } else if (s.step == WITHDRAW) {
    // Otherwise the account has paid nothing out.
    if (good) step = DEPOSIT;
  } else if (s.step == DEPOSIT) {
    if (!good) step = REFUND;
  } else if (!good) {
    s.money += s.amount;
  }
  if (step == 0) {
    s.done += m.is_reply();
    if (s.left == 0) return;
    s.left--;
    s.seed = programs_mix(s.seed);
    s.source = p.accounts[programs_mix(s.seed) % p.count];
    s.to = p.accounts[programs_mix(s.seed ^ 1) % p.count];
    s.amount = 1 + s.seed % 100;
    step = WITHDRAW;
  }
  s.step = step;
  a.ask(step == DEPOSIT ? s.to : s.source, step, 0, s.amount, s.seed);
}
