// Recursion, closures, regular expressions, JSON, classes, generators, big integers and exceptions.
const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2));
print("fib", fib(18));
const primes = [];
for (let i = 2; primes.length < 100; i++) if (primes.every((p) => i % p)) primes.push(i);
print("primes", primes[99], primes.reduce((a, b) => a + b));
print("json", JSON.stringify(JSON.parse('{"a":[1,2,{"b":null}],"c":"é"}')));
print("regexp", "2026-11-22, 1999-01-02".replace(/(\d+)-(\d+)-(\d+)/g, "$3.$2.$1"));
class Shape { constructor(n) { this.n = n; } get area() { return this.n ** 2; } }
class Cube extends Shape { get area() { return 6 * super.area; } }
print("class", new Cube(3).area);
function* count(n) { for (let i = 0; i < n; i++) yield i * i; }
print("generator", [...count(6)].join());
print("bigint", (2n ** 100n).toString());
try { null.x; } catch (error) { print("caught", error instanceof TypeError); }
print("sort", [5, 3, 11, 1].sort((a, b) => a - b), new Map([["k", 1]]).get("k"), (0.1 + 0.2).toFixed(3));
