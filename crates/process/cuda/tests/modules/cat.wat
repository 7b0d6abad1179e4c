;; Copies standard input to standard output.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (loop $more
      (i32.store (i32.const 0) (i32.const 1025))
      (i32.store (i32.const 4) (i32.const 3000))
      (if (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then (unreachable)))
      (i32.store (i32.const 4) (i32.load (i32.const 8)))
      (if (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 12)) (then (unreachable)))
      (br_if $more (i32.load (i32.const 8))))))
