;; Reads 300 bytes of standard input, renumbers it to standard error's descriptor, and writes all of it to standard output.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_renumber" (func $renumber (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $copy (param $fd i32)
    (i32.store (i32.const 0) (i32.const 1025))
    (i32.store (i32.const 4) (i32.const 300))
    (if (call $read (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)) (then (unreachable)))
    (i32.store (i32.const 4) (i32.load (i32.const 8)))
    (if (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 12)) (then (unreachable))))
  (func (export "_start")
    (call $copy (i32.const 0))
    (if (call $renumber (i32.const 0) (i32.const 2)) (then (unreachable)))
    (if (i32.ne (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (i32.const 8)) (then (unreachable)))
    (loop $more
      (call $copy (i32.const 2))
      (br_if $more (i32.load (i32.const 8))))))
