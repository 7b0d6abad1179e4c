;; Ends as the first letter of its first argument says.
(module
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1 3)
  (table 4 4 funcref)
  (type $other (func (param i64) (result i64)))
  (elem (i32.const 1) $nothing)
  (func $nothing)
  (func $recurse (param i32) (result i32)
    (i32.add (call $recurse (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
  (func $parse_header (param $how i32)
    (if (i32.eq (local.get $how) (i32.const 117)) (then (unreachable)))                                ;; u
    (if (i32.eq (local.get $how) (i32.const 100))                                                     ;; d
      (then (drop (i32.div_s (local.get $how) (i32.load (i32.const 60000))))))
    (if (i32.eq (local.get $how) (i32.const 111))                                                     ;; o
      (then (drop (i32.div_s (i32.const 0x80000000) (i32.sub (i32.load (i32.const 60000)) (i32.const 1))))))
    (if (i32.eq (local.get $how) (i32.const 110))                                                     ;; n
      (then (drop (i32.trunc_f32_s (f32.div (f32.const 0) (f32.load (i32.const 60000)))))))
    (if (i32.eq (local.get $how) (i32.const 109))                                                     ;; m
      (then (drop (i32.load (i32.const 65533)))))
    (if (i32.eq (local.get $how) (i32.const 101))                                                     ;; e
      (then (call_indirect (i32.const 4))))
    (if (i32.eq (local.get $how) (i32.const 105))                                                     ;; i
      (then (call_indirect (i32.const 2))))
    (if (i32.eq (local.get $how) (i32.const 116))                                                     ;; t
      (then (drop (call_indirect (type $other) (i64.const 0) (i32.const 1)))))
    (if (i32.eq (local.get $how) (i32.const 115))                                                     ;; s
      (then (drop (call $recurse (i32.const 0)))))
    (if (i32.eq (local.get $how) (i32.const 108))                                                     ;; l
      (then (loop $again (br $again))))
    (if (i32.eq (local.get $how) (i32.const 103))                                                     ;; g
      (then (loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
        (call $exit (memory.size))))
    (if (i32.eq (local.get $how) (i32.const 120)) (then (call $exit (i32.const 125)))))               ;; x
  (func (export "_start")
    (drop (call $args (i32.const 0) (i32.const 256)))
    (call $parse_header (i32.load8_u (i32.load (i32.const 4))))))
