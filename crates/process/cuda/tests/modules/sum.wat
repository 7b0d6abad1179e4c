;; Adds up a hundred numbers and exits with code 0 if the sum is right: the smallest real program.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (func (export "_start") (local $n i32) (local $sum i32)
    (loop $more
      (i32.store (i32.mul (local.get $n) (i32.const 4)) (local.get $n))
      (local.set $sum (i32.add (local.get $sum) (i32.load (i32.mul (local.get $n) (i32.const 4)))))
      (br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 100))))
    (call $exit (i32.ne (local.get $sum) (i32.const 4950)))))
