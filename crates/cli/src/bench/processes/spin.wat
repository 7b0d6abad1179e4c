;; Counts for ever: in a loop of a function that it calls, and in its memory.
(module
  (memory (export "memory") 1)
  (func $more (param $n i32) (result i32)
    (loop $again
      (i32.store (i32.const 64) (local.get $n))
      (br_if $again (local.tee $n (i32.add (local.get $n) (i32.const 1)))))
    (local.get $n))
  (func (export "_start") (local $n i32)
    (loop $for_ever
      (local.set $n (i32.add (call $more (i32.const 1)) (local.get $n)))
      (br $for_ever))))
