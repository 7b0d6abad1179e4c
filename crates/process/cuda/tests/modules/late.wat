;; Adds up the numbers below two million, by a function and with a value on the stack of operands. Exits with code 0 if
;; the sum is right. It takes long enough to be suspended in the middle.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (table 2 2 funcref)
  (elem (i32.const 0) $double $same)
  (type $number (func (param i64) (result i64)))
  (func $double (type $number) (i64.mul (local.get 0) (i64.const 2)))
  (func $same (type $number) (i64.load (i32.const 64)) (drop) (local.get 0))
  (func $sum (param $to i64) (result i64) (local $n i64) (local $sum i64)
    (loop $more
      (local.set $sum
        (i64.add
          (local.get $sum)
          (call_indirect (type $number) (local.get $n) (i32.const 1))))
      (i64.store (i32.const 64) (local.get $sum))
      (br_if $more (i64.lt_u (local.tee $n (i64.add (local.get $n) (i64.const 1))) (local.get $to))))
    (i64.load (i32.const 64)))
  (func (export "_start")
    (call $exit
      (i64.ne
        (i64.add (i64.const 1) (call_indirect (type $number) (call $sum (i64.const 2000000)) (i32.const 0)))
        (i64.const 3999998000001)))))
