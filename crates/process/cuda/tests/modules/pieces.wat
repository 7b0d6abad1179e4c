;; Reads the file `numbers` in the directory with descriptor 3 in pieces of up to 4 KiB, and checks every number: each is
;; its own position in bytes times an odd constant. Writes the number of bytes and the number of pieces.
(module
  (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 1024) "numbers")
  (func (export "_start") (local $fd i32) (local $bytes i64) (local $pieces i64) (local $k i32) (local $n i32)
    (if (call $open (i32.const 3) (i32.const 0) (i32.const 1024) (i32.const 7) (i32.const 0) (i64.const 2)
      (i64.const 0) (i32.const 0) (i32.const 16)) (then (unreachable)))
    (local.set $fd (i32.load (i32.const 16)))
    (i32.store (i32.const 0) (i32.const 4096))
    (i32.store (i32.const 4) (i32.const 4096))
    (loop $more
      (if (call $read (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)) (then (unreachable)))
      (local.set $n (i32.load (i32.const 8)))
      (if (i32.and (local.get $n) (i32.const 7)) (then (unreachable)))
      (if (local.get $n) (then
        (local.set $k (i32.const 0))
        (loop $words
          (if (i64.ne (i64.load (i32.add (i32.const 4096) (local.get $k)))
              (i64.mul (i64.add (local.get $bytes) (i64.extend_i32_u (local.get $k))) (i64.const 0x9e3779b97f4a7c15)))
            (then (unreachable)))
          (br_if $words (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 8))) (local.get $n))))
        (local.set $bytes (i64.add (local.get $bytes) (i64.extend_i32_u (local.get $n))))
        (local.set $pieces (i64.add (local.get $pieces) (i64.const 1)))
        (br $more))))
    (i64.store (i32.const 80) (local.get $bytes))
    (i64.store (i32.const 88) (local.get $pieces))
    (i32.store (i32.const 0) (i32.const 80))
    (i32.store (i32.const 4) (i32.const 16))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
