;; Receives messages by its handle 0 and sends them by its handle 1, with the first byte one higher, until handle 0 is
;; closed.
(module
  (import "everwarp:gpu" "receive" (func $receive (param i32 i32 i32) (result i32)))
  (import "everwarp:gpu" "send" (func $send (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_start") (local $n i32)
    (loop $more
      (local.set $n (call $receive (i32.const 0) (i32.const 1027) (i32.const 4096)))
      (if (i32.eq (local.get $n) (i32.const -1)) (then (call $exit (i32.const 0))))
      (if (i32.lt_s (local.get $n) (i32.const 0)) (then (call $exit (i32.const 1))))
      (i32.store8 (i32.const 1027) (i32.add (i32.load8_u (i32.const 1027)) (i32.const 1)))
      (if (call $send (i32.const 1) (i32.const 1027) (local.get $n)) (then (call $exit (i32.const 2))))
      (br $more))))
