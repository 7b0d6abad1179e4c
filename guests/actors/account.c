// An account: `pay` moves money to another one.
#include "everwarp_actor.h"

EVERWARP_ACTOR("message deposit amount:u64")
EVERWARP_ACTOR("message pay to:actor amount:u64")
EVERWARP_ACTOR("message balance -> left:u64")

EVERWARP_TELL(deposit) void tell_deposit(everwarp_actor to, uint64_t amount);

static uint64_t balance;

EVERWARP_ON(deposit) void deposit(uint64_t amount) { balance += amount; }

EVERWARP_ON(pay) void pay(everwarp_actor to, uint64_t amount) {
  if (balance < amount) everwarp_fail();
  balance -= amount;
  tell_deposit(to, amount);
}

EVERWARP_ON(balance) uint64_t left(void) { return balance; }
