;; calls N: times N rounds of a hundred calls of the host, and writes the nanoseconds of each round, in 8 bytes. What
;; is asked is to shut down what is no descriptor, which nothing but the host can answer: 8, `EBADF`.
(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sock_shutdown" (func $shutdown (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $now (result i64)
    (drop (call $clock (i32.const 1) (i64.const 1) (i32.const 0)))
    (i64.load (i32.const 0)))
  ;; The decimal number that is the first argument.
  (func $number (result i32) (local $at i32) (local $n i32) (local $digit i32)
    (drop (call $sizes (i32.const 16) (i32.const 20)))
    (if (i32.ne (i32.load (i32.const 16)) (i32.const 2)) (then (unreachable)))
    (drop (call $args (i32.const 32) (i32.const 64)))
    (local.set $at (i32.load (i32.const 36)))
    (loop $more
      (local.set $digit (i32.load8_u (local.get $at)))
      (if (local.get $digit) (then
        (local.set $n (i32.add (i32.mul (local.get $n) (i32.const 10)) (i32.sub (local.get $digit) (i32.const 48))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $more))))
    (local.get $n))
  (func $round (local $n i32)
    (loop $more
      (if (i32.ne (call $shutdown (i32.const 99) (i32.const 0)) (i32.const 8)) (then (unreachable)))
      (br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 100)))))
  (func (export "_start") (local $rounds i32) (local $at i32) (local $from i64)
    (local.set $rounds (call $number))
    (local.set $at (i32.const 8192))
    (loop $more
      (local.set $from (call $now))
      (call $round)
      (i64.store (local.get $at) (i64.sub (call $now) (local.get $from)))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $more (local.tee $rounds (i32.sub (local.get $rounds) (i32.const 1)))))
    (i32.store (i32.const 16) (i32.const 8192))
    (i32.store (i32.const 20) (i32.sub (local.get $at) (i32.const 8192)))
    (if (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 24)) (then (unreachable)))
    (if (i32.ne (i32.load (i32.const 24)) (i32.load (i32.const 20))) (then (unreachable)))))
