;; Makes a thousand host calls that are answered at once, and writes how many nanoseconds they took.
(module
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sock_shutdown" (func $shutdown (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start") (local $n i32)
    (drop (call $clock (i32.const 1) (i64.const 1) (i32.const 64)))
    (loop $more
      ;; No such descriptor is open.
      (if (i32.ne (call $shutdown (i32.const 99) (i32.const 0)) (i32.const 8)) (then (unreachable)))
      (br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 1000))))
    (drop (call $clock (i32.const 1) (i64.const 1) (i32.const 72)))
    (i64.store (i32.const 80) (i64.sub (i64.load (i32.const 72)) (i64.load (i32.const 64))))
    (i32.store (i32.const 0) (i32.const 80))
    (i32.store (i32.const 4) (i32.const 8))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
