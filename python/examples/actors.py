"""A million accounts, one message for each, and a question to one of them."""

import everwarp as ew
import numpy as np


@ew.actor
class Account:
    balance: ew.i64

    def deposit(self, amount: ew.i64) -> None:
        self.balance += amount

    def read(self) -> ew.i64:
        return self.balance


with ew.engine() as engine:  # a GPU if there is one
    accounts = engine.spawn(Account, 1_000_000)
    accounts.deposit.tell(np.arange(1_000_000))  # one message each
    print(len(accounts), "accounts; number 41 has", accounts[41].read.ask())
