-- What a script does all day: recursion, closures, tables, sorting, patterns, formats and a metatable.
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
print("fib", fib(20))

local words = {}
for i = 1, 1000 do words[i] = (i * 7919) % 1009 end
table.sort(words)
print("sorted", words[1], words[500], words[1000])

print("gsub", (("hello world"):gsub("o", "0")))
local count = {}
for word in ("the cat and the dog and the bird"):gmatch("%a+") do count[word] = (count[word] or 0) + 1 end
print("words", count.the, count["and"], count.cat)

local Vector = {}
Vector.__index = Vector
Vector.__add = function(a, b) return setmetatable({ x = a.x + b.x, y = a.y + b.y }, Vector) end
local sum = setmetatable({ x = 0, y = 0 }, Vector)
for i = 1, 100 do sum = sum + setmetatable({ x = i, y = i / 2 }, Vector) end
print("vector", sum.x, sum.y)

local function counter() local n = 0 return function() n = n + 1 return n end end
local next = counter()
next() next()
print("closure", next(), string.format("%5.2f|%-4d|%q", math.pi, 42, "a\nb"))
print("integers", 7 // 2, -7 // 2, 7 % -3, 1 << 40, math.maxinteger + 1 == math.mininteger)
