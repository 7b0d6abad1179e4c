;; Waits for an hour.
(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (i32.store (i32.const 112) (i32.const 1))
    (i64.store (i32.const 120) (i64.const 3600000000000))
    (drop (call $poll (i32.const 96) (i32.const 1024) (i32.const 1) (i32.const 8)))))
