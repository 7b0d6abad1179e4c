fn bank_account() {
  let tag = ew_message_tag();
  let amount = ew_message_word(0u);
  if tag == 1u {  // OPEN
    ew_set_state64(DevBankActor_money, amount);
    return;
  }
  let money = ew_state64(DevBankActor_money);
  let withdraw = tag == 2u;
  let enough = !withdraw || !ew_less64(money, amount);
  if enough {
    ew_add_state64(DevBankActor_done, vec2(1u, 0u));
    // The complement and 1 more is the negative.
    let paid = ew_sum64(~amount, vec2(1u, 0u));
    ew_set_state64(DevBankActor_money, ew_sum64(money, select(amount, paid, withdraw)));
  }
  ew_reply(tag, 1u, ew_words1(vec2(select(0u, 1u, enough), 0u)));
  // The asker must not see the reply, and the money is as it was.
  let random = ew_mix64(ew_message_word(1u) ^ vec2(tag, 0u));
  let risk = ew_user + DevBank_risk;
  if ew_load(risk + 1u) != 0u || random.y < ew_load(risk) { ew_fail(); }
}

fn bank_chosen(random: vec2<u32>) -> vec2<u32> {
  let place = ew_remainder64(ew_mix64(random), ew_load(ew_user + DevBank_count));
  let at = (ew_load(ew_user + DevBank_accounts) >> 2u) + 2u * place;
  return vec2(ew_load(at), ew_load(at + 1u));
}

const BANK_WITHDRAW = 2u;
const BANK_DEPOSIT = 3u;
const BANK_REFUND = 4u;

fn bank_teller() {
  let is_reply = ew_message_is_reply();
  let good = is_reply && ew_message_failure() == EW_REPLIED && any(ew_message_word(0u) != vec2(0u, 0u));
  let last = ew_state64(DevBankActor_step).x;
  var step = 0u;
  if !is_reply {
    ew_set_state64(DevBankActor_left, ew_message_word(0u));
    ew_set_state64(DevBankActor_seed, ew_message_word(1u));
  } else if last == BANK_WITHDRAW {
    // Otherwise the account has paid nothing out.
    if good { step = BANK_DEPOSIT; }
  } else if last == BANK_DEPOSIT {
    if !good { step = BANK_REFUND; }
  } else if !good {
    ew_add_state64(DevBankActor_money, ew_state64(DevBankActor_amount));
  }
  if step == 0u {
    if is_reply { ew_add_state64(DevBankActor_done, vec2(1u, 0u)); }
    let left = ew_state64(DevBankActor_left);
    if all(left == vec2(0u, 0u)) { return; }
    ew_set_state64(DevBankActor_left, ew_less64by(left, 1u));
    let seed = ew_mix64(ew_state64(DevBankActor_seed));
    ew_set_state64(DevBankActor_seed, seed);
    ew_set_state64(DevBankActor_source, bank_chosen(seed));
    ew_set_state64(DevBankActor_to, bank_chosen(seed ^ vec2(1u, 0u)));
    ew_set_state64(DevBankActor_amount, vec2(1u + ew_remainder64(seed, 100u), 0u));
    step = BANK_WITHDRAW;
  }
  ew_set_state64(DevBankActor_step, vec2(step, 0u));
  let to = ew_state64(select(DevBankActor_source, DevBankActor_to, step == BANK_DEPOSIT));
  let words = ew_words2(ew_state64(DevBankActor_amount), ew_state64(DevBankActor_seed));
  ew_ask(to, step, 2u, words, vec2(0u, 0u));
}
