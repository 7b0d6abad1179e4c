;; Does what its second argument says: see the functions.
(module
  (import "everwarp:gpu" "channel" (func $channel (param i32 i32 i32) (result i32)))
  (import "everwarp:gpu" "receive" (func $receive (param i32 i32 i32) (result i32)))
  (import "everwarp:gpu" "send" (func $send (param i32 i32 i32) (result i32)))
  (import "everwarp:gpu" "close" (func $close (param i32) (result i32)))
  (import "everwarp:gpu" "spawn" (func $spawn (param i32 i32 i32 i32 i32 i32) (result i64)))
  (import "everwarp:gpu" "wait" (func $wait (param i64 i32) (result i32)))
  (import "everwarp:gpu" "kill" (func $kill (param i64) (result i32)))
  (import "everwarp:gpu" "instance" (func $instance (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "m\00c\00m\00b\00m\00e\00m\00h\00m\00w\00m\00q\00m\00z\00m\00l\00")
  (data (i32.const 128) "child\n")
  (data (i32.const 144) "parent\n")
  ;; Spawns with the arguments at an offset of the data above, and no ends.
  (func $child (param $args i32) (result i64)
    (call $spawn (i32.const 0) (i32.const 0) (local.get $args) (i32.const 4) (i32.const 0) (i32.const 0)))
  (func $must (param $good i32) (if (i32.eqz (local.get $good)) (then unreachable)))
  (func $print (param $at i32) (param $bytes i32)
    (i32.store (i32.const 32) (local.get $at))
    (i32.store (i32.const 36) (local.get $bytes))
    (call $must (i32.eqz (call $write (i32.const 1) (i32.const 32) (i32.const 1) (i32.const 40)))))

  ;; Sends 0 to 999 to a child, whose code must be their sum modulo 1000.
  (func $pair (local $n i32) (local $pid i64)
    (call $must (i32.eqz (call $channel (i32.const 2) (i32.const 8) (i32.const 0))))
    (local.set $pid (call $spawn (i32.const 0) (i32.const 0) (i32.const 64) (i32.const 4) (i32.const 4) (i32.const 1)))
    (call $must (i64.gt_s (local.get $pid) (i64.const 0)))
    (call $must (i32.eqz (call $close (i32.load (i32.const 4)))))
    (loop $more
      (i32.store (i32.const 16) (local.get $n))
      (call $must (i32.eqz (call $send (i32.load (i32.const 0)) (i32.const 16) (i32.const 4))))
      (br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 1000))))
    (call $must (i32.eqz (call $close (i32.load (i32.const 0)))))
    (call $must (i32.eqz (call $wait (local.get $pid) (i32.const 8))))
    ;; The child has been waited for.
    (call $must (i32.eq (call $wait (local.get $pid) (i32.const 24)) (i32.const -8)))
    (call $must (i32.eqz (i32.load (i32.const 8))))
    (call $exit (i32.load (i32.const 12))))
  (func $sum (local $n i32) (local $sum i32)
    (block $closed
      (loop $more
        (local.set $n (call $receive (i32.const 0) (i32.const 16) (i32.const 8)))
        (br_if $closed (i32.eq (local.get $n) (i32.const -1)))
        (call $must (i32.eq (local.get $n) (i32.const 4)))
        (local.set $sum (i32.add (local.get $sum) (i32.load (i32.const 16))))
        (br $more)))
    (call $exit (i32.rem_u (local.get $sum) (i32.const 1000))))

  ;; Spawns itself until it is refused, and then waits for a message that never comes.
  (func $bomb (local $pid i64)
    (loop $more
      (local.set $pid (call $child (i32.const 68)))
      (br_if $more (i64.gt_s (local.get $pid) (i64.const 0))))
    (call $must (i64.eq (local.get $pid) (i64.const -6)))
    (call $forever))
  (func $forever
    (call $must (i32.eqz (call $channel (i32.const 1) (i32.const 8) (i32.const 0))))
    (drop (call $receive (i32.load (i32.const 4)) (i32.const 16) (i32.const 8)))
    unreachable)

  ;; Spawns a thousand children, one after the other.
  (func $series (local $n i32)
    (loop $more
      (call $must (i32.eqz (call $wait (call $child (i32.const 72)) (i32.const 8))))
      (call $must (i32.eqz (i32.load (i32.const 8))))
      ;; A child knows its number.
      (call $must (i32.eq (i32.load (i32.const 12)) (local.get $n)))
      (br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 1000)))))

  ;; Kills children that loop, wait for a message and sleep, at once and after a while.
  (func $killed (param $args i32) (param $after i32) (local $pid i64)
    (local.set $pid (call $child (local.get $args)))
    (loop $later
      (br_if $later (i32.ge_s (local.tee $after (i32.sub (local.get $after) (i32.const 1))) (i32.const 0))))
    (call $must (i32.eqz (call $kill (local.get $pid))))
    (call $must (i32.eqz (call $wait (local.get $pid) (i32.const 8))))
    (call $must (i32.eq (i32.load (i32.const 8)) (i32.const 2)))
    (call $must (i32.eq (call $kill (local.get $pid)) (i32.const -8))))
  (func $killer (local $after i32)
    (loop $each
      (call $killed (i32.const 76) (local.get $after))
      (call $killed (i32.const 80) (local.get $after))
      (call $killed (i32.const 88) (local.get $after))
      (br_if $each (i32.lt_u (local.tee $after (i32.add (local.get $after) (i32.const 1500))) (i32.const 12000)))))
  (func $sleep
    (i32.store (i32.const 1040) (i32.const 1))
    (i64.store (i32.const 1048) (i64.const 3600000000000))
    (drop (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 8)))
    unreachable)
  (func $hang (loop $more (br $more)))

  ;; Children print one after the other, and each may get the place of the one before.
  (func $printer (param $count i32) (local $n i32)
    (loop $more
      (call $must (i32.eqz (call $wait (call $child (i32.const 84)) (i32.const 8))))
      (br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (local.get $count))))
    (call $print (i32.const 144) (i32.const 7)))

  ;; Exits while it has children that would run for ever.
  (func $orphans
    (call $must (i64.gt_s (call $child (i32.const 76)) (i64.const 0)))
    (call $must (i64.gt_s (call $child (i32.const 80)) (i64.const 0)))
    (call $must (i64.gt_s (call $child (i32.const 88)) (i64.const 0)))
    (call $must (i64.gt_s (call $child (i32.const 68)) (i64.const 0))))

  (func $end (param $pid i64) (param $status i32)
    (call $must (i32.eqz (call $wait (local.get $pid) (i32.const 8))))
    (call $must (i32.eq (i32.load (i32.const 8)) (local.get $status))))
  ;; Has children that loop, wait for a message, sleep and exit. The host kills the first three.
  (func $listed (local $loops i64) (local $waits i64) (local $sleeps i64) (local $ends i64)
    (local.set $loops (call $child (i32.const 76)))
    (local.set $waits (call $child (i32.const 80)))
    (local.set $sleeps (call $child (i32.const 88)))
    (local.set $ends (call $child (i32.const 72)))
    (call $end (local.get $loops) (i32.const 2))
    (call $end (local.get $waits) (i32.const 2))
    (call $end (local.get $sleeps) (i32.const 2))
    (call $end (local.get $ends) (i32.const 0))
    (call $exit (i32.add (i32.const 40) (i32.load (i32.const 12)))))
  ;; Has a child with such children.
  (func $grandparent
    (call $end (call $child (i32.const 92)) (i32.const 0))
    (call $exit (i32.load (i32.const 12))))
  ;; Spawns children one after the other. The host may kill some of them.
  (func $bereaved (local $n i32)
    (loop $more
      (call $must (i32.eqz (call $wait (call $child (i32.const 72)) (i32.const 8))))
      (call $must (i32.eqz (i32.and (i32.load (i32.const 8)) (i32.const -3))))
      (br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 1000)))))

  ;; Spawns a child of the module that the third argument names, and exits with its code.
  (func $named (local $at i32) (local $bytes i32) (local $pid i64)
    (local.set $at (i32.load (i32.const 264)))
    (block $end
      (loop $more
        (br_if $end (i32.eqz (i32.load8_u (i32.add (local.get $at) (local.get $bytes)))))
        (local.set $bytes (i32.add (local.get $bytes) (i32.const 1)))
        (br $more)))
    (local.set $pid (call $spawn (local.get $at) (local.get $bytes) (i32.const 72) (i32.const 4) (i32.const 0) (i32.const 0)))
    (if (i64.le_s (local.get $pid) (i64.const 0))
      (then (call $exit (i32.sub (i32.const 100) (i32.wrap_i64 (local.get $pid))))))
    (call $end (local.get $pid) (i32.const 0))
    (call $exit (i32.load (i32.const 12))))

  (func (export "_start") (local $mode i32)
    (drop (call $args_get (i32.const 256) (i32.const 512)))
    (local.set $mode (i32.load8_u (i32.load (i32.const 260))))
    (if (i32.eq (local.get $mode) (i32.const 112 (; p ;))) (then (call $pair)))
    (if (i32.eq (local.get $mode) (i32.const 99 (; c ;))) (then (call $sum)))
    (if (i32.eq (local.get $mode) (i32.const 98 (; b ;))) (then (call $bomb)))
    (if (i32.eq (local.get $mode) (i32.const 115 (; s ;))) (then (call $series)))
    (if (i32.eq (local.get $mode) (i32.const 101 (; e ;))) (then (call $exit (call $instance))))
    (if (i32.eq (local.get $mode) (i32.const 107 (; k ;))) (then (call $killer)))
    (if (i32.eq (local.get $mode) (i32.const 104 (; h ;))) (then (call $hang)))
    (if (i32.eq (local.get $mode) (i32.const 119 (; w ;))) (then (call $forever)))
    (if (i32.eq (local.get $mode) (i32.const 122 (; z ;))) (then (call $sleep)))
    (if (i32.eq (local.get $mode) (i32.const 108 (; l ;))) (then (call $listed)))
    (if (i32.eq (local.get $mode) (i32.const 110 (; n ;))) (then (call $grandparent)))
    (if (i32.eq (local.get $mode) (i32.const 103 (; g ;))) (then (call $bereaved)))
    (if (i32.eq (local.get $mode) (i32.const 121 (; y ;))) (then (call $named)))
    (if (i32.eq (local.get $mode) (i32.const 111 (; o ;))) (then (call $printer (i32.const 3))))
    (if (i32.eq (local.get $mode) (i32.const 114 (; r ;))) (then (call $printer (i32.const 200))))
    (if (i32.eq (local.get $mode) (i32.const 113 (; q ;))) (then (call $print (i32.const 128) (i32.const 6))))
    (if (i32.eq (local.get $mode) (i32.const 120 (; x ;))) (then (call $orphans)))))
