;; With an argument that begins with `h` it is hostile: it writes in every width directly after its memory, which must end
;; it. Otherwise it checks that its memory is zero, fills it with its own numbers, calls the host in between, and checks
;; that the numbers are still there: code 0 if so.
(module
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_tell" (func $tell (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func $next (param i64) (result i64)
    (i64.add (i64.mul (local.get 0) (i64.const 6364136223846793005)) (i64.const 1442695040888963407)))
;; Writes an address, the value there, and the expected value.
  (func $wrong (param $code i32) (param $at i32) (param $expected i64)
    (i64.store (i32.const 600) (i64.extend_i32_u (local.get $at)))
    (i64.store (i32.const 608) (i64.load (local.get $at)))
    (i64.store (i32.const 616) (local.get $expected))
    (i32.store (i32.const 584) (i32.const 600))
    (i32.store (i32.const 588) (i32.const 24))
    (drop (call $write (i32.const 1) (i32.const 584) (i32.const 1) (i32.const 592)))
    (call $exit (local.get $code)))
  (func $pass (param $seed i64) (param $write i32) (local $at i32)
    (local.set $at (i32.const 1024))
    (loop $more
      (local.set $seed (call $next (local.get $seed)))
      (if (local.get $write)
        (then
          (if (i64.ne (i64.load (local.get $at)) (i64.const 0)) (then (call $wrong (i32.const 2) (local.get $at) (local.get $seed))))
          (i64.store (local.get $at) (local.get $seed)))
        (else (if (i64.ne (i64.load (local.get $at)) (local.get $seed)) (then (call $wrong (i32.const 1) (local.get $at) (local.get $seed))))))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $more (i32.lt_u (local.get $at) (i32.const 65536)))))
  (func (export "_start") (local $seed i64) (local $n i32)
    (drop (call $args (i32.const 0) (i32.const 256)))
    (if (i32.eq (i32.load8_u (i32.load (i32.const 4))) (i32.const 104))
      (then
        (i64.store (i32.const 65528) (i64.const -1))
        (i64.store (i32.const 65529) (i64.const -1))))
    (drop (call $random (i32.const 512) (i32.const 8)))
    (local.set $seed (i64.load (i32.const 512)))
    (call $pass (local.get $seed) (i32.const 1))
    (loop $wait
      ;; Standard input has no position.
      (drop (call $tell (i32.const 0) (i32.const 520)))
      (call $pass (local.get $seed) (i32.const 0))
      (br_if $wait (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 5))))))
