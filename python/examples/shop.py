"""Two classes of actors: a shop, and the customers that buy there. The first one names the other one before it is defined."""

import everwarp as ew


@ew.actor(mailbox=256)
class Shop:
    stock: ew.i64
    sold: ew.i64

    def fill(self, goods: ew.i64) -> None:
        self.stock += goods

    def buy(self, customer: "Customer", goods: ew.i64) -> None:
        if goods <= self.stock:
            self.stock -= goods
            self.sold += goods
            customer.delivered.tell(goods)

    def left(self) -> ew.i64:
        return self.stock


@ew.actor
class Customer:
    shop: Shop
    owns: ew.i64

    def visit(self, shop: Shop, goods: ew.i64) -> None:
        self.shop = shop
        shop.buy.tell(self.id, goods)

    def delivered(self, goods: ew.i64) -> None:
        self.owns += goods

    def count(self) -> ew.i64:
        return self.owns


with ew.engine() as engine:
    shop = engine.spawn(Shop)
    customers = engine.spawn(Customer, 100)
    shop.fill.tell(150)
    customers.visit.tell(shop, 2)
    engine.settle()
    print("the shop has", shop.left.ask(), "left, and its customers own", sum(customers.count.ask()))
