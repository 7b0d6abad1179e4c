;; Threads. The first letter of the second argument says what they do: the first thread in `$first`, others in `$other`.
;;
;; Words of the memory: 4 the letter, 8 the number of running threads, 12 and 16 their counters, 20 a lock, 24 a word that
;; is never notified, 28 a word that is notified.
(module
  (import "env" "memory" (memory 1 9 shared))
  (import "wasi" "thread-spawn" (func $thread_spawn (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (export "memory" (memory 0))
  (data $line "a line of thread 00\n")
  (global $own (mut i32) (i32.const 0))
  ;; Runs when a thread starts.
  (start $begin)
  (func $begin (global.set $own (i32.const 5)))

  (func $must (param $good i32) (if (i32.eqz (local.get $good)) (then unreachable)))
  (func $never (loop $again
    (drop (memory.atomic.wait32 (i32.const 24) (i32.const 0) (i64.const -1)))
    (br $again)))
  (func $spin (loop $again (br $again)))
  (func $hour
    (i32.store (i32.const 528) (i32.const 1))
    (i64.store (i32.const 536) (i64.const 3600000000000))
    (drop (call $poll (i32.const 512) (i32.const 600) (i32.const 1) (i32.const 700))))
  (func $now (result i64)
    (call $must (i32.eqz (call $clock (i32.const 1) (i64.const 1) (i32.const 800))))
    (i64.load (i32.const 800)))

  ;; Starts `$count` threads, which are counted before.
  (func $spawn (param $count i32) (local $number i32)
    (i32.atomic.store (i32.const 8) (local.get $count))
    (loop $more
      (local.set $number (call $thread_spawn (local.get $count)))
      (call $must (i32.gt_s (local.get $number) (i32.const 0)))
      (call $must (i32.lt_s (local.get $number) (i32.const 0x20000000)))
      (br_if $more (local.tee $count (i32.sub (local.get $count) (i32.const 1))))))
  (func $ended
    (drop (i32.atomic.rmw.sub (i32.const 8) (i32.const 1)))
    (drop (memory.atomic.notify (i32.const 8) (i32.const 0xffffffff))))
  (func $join (local $left i32)
    (loop $more
      (if (local.tee $left (i32.atomic.load (i32.const 8))) (then
        (drop (memory.atomic.wait32 (i32.const 8) (local.get $left) (i64.const -1)))
        (br $more)))))

  ;; A lock that waits: 0 free, 1 taken, 2 taken with waiting threads.
  (func $lock
    (if (i32.atomic.rmw.cmpxchg (i32.const 20) (i32.const 0) (i32.const 1)) (then
      (loop $more
        (if (i32.atomic.rmw.xchg (i32.const 20) (i32.const 2)) (then
          (drop (memory.atomic.wait32 (i32.const 20) (i32.const 2) (i64.const -1)))
          (br $more)))))))
  (func $unlock
    (if (i32.eq (i32.atomic.rmw.xchg (i32.const 20) (i32.const 0)) (i32.const 2)) (then
      (drop (memory.atomic.notify (i32.const 20) (i32.const 1))))))
  ;; A lock that spins.
  (func $spin_lock (loop $more
    (br_if $more (i32.atomic.rmw.cmpxchg (i32.const 20) (i32.const 0) (i32.const 1)))))

  (func $count (param $with i32) (param $times i32)
    (loop $more
      (drop (i32.atomic.rmw.add (i32.const 12) (i32.const 1)))
      (if (local.get $with) (then (call $lock)) (else (call $spin_lock)))
      ;; This is not atomic, so only the lock keeps it right.
      (i32.store (i32.const 16) (i32.add (i32.load (i32.const 16)) (i32.const 1)))
      (if (local.get $with) (then (call $unlock)) (else (i32.atomic.store (i32.const 20) (i32.const 0))))
      (br_if $more (local.tee $times (i32.sub (local.get $times) (i32.const 1))))))
  (func $counted (param $total i32)
    (call $join)
    (call $must (i32.eq (i32.atomic.load (i32.const 12)) (local.get $total)))
    (call $must (i32.eq (i32.load (i32.const 16)) (local.get $total))))

  ;; Notifies threads that wait at 28, one by one, until `$count` have been notified.
  (func $notify (param $count i32)
    (loop $more
      (local.set $count (i32.sub (local.get $count) (memory.atomic.notify (i32.const 28) (i32.const 1))))
      (br_if $more (local.get $count))))
  (func $notified
    (call $must (i32.eqz (memory.atomic.wait32 (i32.const 28) (i32.const 0) (i64.const 3600000000000))))
    (drop (i32.atomic.rmw.add (i32.const 12) (i32.const 1)))
    (call $ended))
  (func $notifies (local $rest i32)
    (call $must (i32.eqz (memory.atomic.notify (i32.const 28) (i32.const 1))))
    (call $spawn (i32.const 7))
    (call $notify (i32.const 3))
    ;; Notifies the others at once, as soon as they wait.
    (local.set $rest (i32.const 4))
    (loop $more
      (local.set $rest (i32.sub (local.get $rest) (memory.atomic.notify (i32.const 28) (i32.const 0xffffffff))))
      (br_if $more (local.get $rest)))
    (call $join)
    (call $must (i32.eq (i32.atomic.load (i32.const 12)) (i32.const 7))))

  ;; Waits that end when their time is over, or at once.
  (func $times (local $begin i64)
    (call $must (i32.eq (memory.atomic.wait32 (i32.const 24) (i32.const 1) (i64.const -1)) (i32.const 1)))
    (call $must (i32.eq (memory.atomic.wait64 (i32.const 24) (i64.const 1) (i64.const -1)) (i32.const 1)))
    (call $must (i32.eq (memory.atomic.wait32 (i32.const 24) (i32.const 0) (i64.const 0)) (i32.const 2)))
    (local.set $begin (call $now))
    (call $must (i32.eq (memory.atomic.wait32 (i32.const 24) (i32.const 0) (i64.const 5000000)) (i32.const 2)))
    (call $must (i32.eq (memory.atomic.wait64 (i32.const 32) (i64.const 0) (i64.const 5000000)) (i32.const 2)))
    (call $must (i64.ge_u (i64.sub (call $now) (local.get $begin)) (i64.const 9000000)))
    ;; A thread with a long time is notified, and then calls the host.
    (call $spawn (i32.const 1))
    (call $notify (i32.const 1))
    (call $join)
    (call $must (i32.eqz (memory.atomic.notify (i32.const 24) (i32.const 9)))))
  (func $timed
    (call $must (i32.eqz (memory.atomic.wait32 (i32.const 28) (i32.const 0) (i64.const 3600000000000))))
    (call $lines (i32.const 1) (i32.const 1))
    (call $must (i32.eq (memory.atomic.wait32 (i32.const 24) (i32.const 0) (i64.const 1000000)) (i32.const 2)))
    (call $ended))

  ;; Eight threads each grow the memory by a page; it has room for three. All see the pages that the others have grown.
  (func $grow (local $before i32)
    (local.set $before (memory.grow (i32.const 1)))
    (if (i32.ne (local.get $before) (i32.const -1)) (then
      (drop (i32.atomic.rmw.or (i32.const 12) (i32.shl (i32.const 1) (local.get $before))))
      (i32.store (i32.shl (local.get $before) (i32.const 16)) (local.get $before))
      (drop (i32.atomic.rmw.add (i32.const 16) (i32.const 1)))))
    (loop $more (br_if $more (i32.ne (i32.atomic.load (i32.const 16)) (i32.const 3))))
    (call $must (i32.eq (memory.size) (i32.const 4)))
    (call $must (i32.eq (i32.load (i32.const 0x10000)) (i32.const 1)))
    (call $must (i32.eq (i32.load (i32.const 0x20000)) (i32.const 2)))
    (call $must (i32.eq (i32.load (i32.const 0x30000)) (i32.const 3)))
    (call $ended))
  (func $grown
    (call $spawn (i32.const 8))
    (call $join)
    (call $must (i32.eq (i32.atomic.load (i32.const 12)) (i32.const 14)))
    (call $must (i32.eq (memory.size) (i32.const 4))))

  ;; Writes `$count` lines with the thread's number.
  (func $lines (param $thread i32) (param $count i32) (local $at i32)
    (local.set $at (i32.add (i32.const 4096) (i32.shl (local.get $thread) (i32.const 6))))
    (memory.init $line (i32.add (local.get $at) (i32.const 16)) (i32.const 0) (i32.const 20))
    (i32.store8 offset=33 (local.get $at) (i32.add (i32.const 48) (i32.div_u (local.get $thread) (i32.const 10))))
    (i32.store8 offset=34 (local.get $at) (i32.add (i32.const 48) (i32.rem_u (local.get $thread) (i32.const 10))))
    (i32.store (local.get $at) (i32.add (local.get $at) (i32.const 16)))
    (i32.store offset=4 (local.get $at) (i32.const 20))
    (loop $more
      (call $must (i32.eqz (call $write (i32.const 1) (local.get $at) (i32.const 1) (i32.add (local.get $at) (i32.const 8)))))
      (br_if $more (local.tee $count (i32.sub (local.get $count) (i32.const 1))))))

  ;; Starts threads until the limit, and exits with their number.
  (func $bomb (local $number i32) (local $count i32)
    (loop $more
      (local.set $number (call $thread_spawn (i32.const 1)))
      (if (i32.gt_s (local.get $number) (i32.const 0)) (then
        (local.set $count (i32.add (local.get $count) (i32.const 1)))
        (br $more))))
    (call $must (i32.eq (local.get $number) (i32.const -6)))
    (call $exit (local.get $count)))
  ;; Starts one thread after the other, more than there may be at the same time.
  (func $churn (local $count i32) (local $number i32)
    (local.set $count (i32.const 300))
    (loop $more
      (i32.atomic.store (i32.const 8) (i32.const 1))
      ;; Earlier threads may still hold their places.
      (loop $again (br_if $again (i32.le_s (local.tee $number (call $thread_spawn (i32.const 1))) (i32.const 0))))
      (call $must (i32.le_s (local.get $number) (i32.const 64)))
      (call $join)
      (br_if $more (local.tee $count (i32.sub (local.get $count) (i32.const 1))))))
  ;; Each thread starts the next one.
  (func $chain (param $left i32)
    (if (i32.eqz (local.get $left)) (then (call $ended) (return)))
    (call $must (i32.gt_s (call $thread_spawn (i32.sub (local.get $left) (i32.const 1))) (i32.const 0))))

  (func $culprit unreachable)
  (func $is (param $letter i32) (result i32)
    (i32.eq (i32.atomic.load8_u (i32.const 4)) (local.get $letter)))

  (func $first (export "_start")
    (call $must (i32.eq (global.get $own) (i32.const 5)))
    (global.set $own (i32.const 6))
    (call $must (i32.eqz (call $args_get (i32.const 1024) (i32.const 2048))))
    (i32.atomic.store8 (i32.const 4) (i32.load8_u (i32.load (i32.const 1028))))
    ;; c, l: counting with locks; n: notifications; t: times; g: growing; o: output; b: a bomb; j: joins; d: a chain
    (if (call $is (i32.const 0x63)) (then (call $spawn (i32.const 40)) (call $counted (i32.const 4000)) (return)))
    (if (call $is (i32.const 0x6c)) (then (call $spawn (i32.const 40)) (call $counted (i32.const 800)) (return)))
    (if (call $is (i32.const 0x6e)) (then (call $notifies) (return)))
    (if (call $is (i32.const 0x74)) (then (call $times) (return)))
    (if (call $is (i32.const 0x67)) (then (call $grown) (return)))
    (if (call $is (i32.const 0x6f)) (then (call $spawn (i32.const 20)) (call $lines (i32.const 0) (i32.const 10)) (call $join) (return)))
    (if (call $is (i32.const 0x62)) (then (call $bomb) (return)))
    (if (call $is (i32.const 0x6a)) (then (call $churn) (return)))
    (if (call $is (i32.const 0x64)) (then (i32.atomic.store (i32.const 8) (i32.const 1)) (call $chain (i32.const 30)) (call $join) (return)))
    ;; a, w: an access that is not aligned, and one outside memory, both by a wait
    (if (call $is (i32.const 0x61)) (then (drop (memory.atomic.wait32 (i32.const 2) (i32.const 0) (i64.const 0))) (return)))
    (if (call $is (i32.const 0x77)) (then (drop (memory.atomic.notify offset=8 (i32.const 0xfffffffc) (i32.const 0))) (return)))
    ;; r: a return while others run; x, e, f, k: another thread traps, exits, uses the fuel, or a kill comes
    (call $spawn (i32.const 6))
    (if (call $is (i32.const 0x72)) (then (return)))
    (call $never))

  (func $other (export "wasi_thread_start") (param $number i32) (param $argument i32)
    (call $must (i32.eq (global.get $own) (i32.const 5)))
    (global.set $own (local.get $number))
    (if (call $is (i32.const 0x63)) (then
      (call $count (i32.const 1) (i32.const 100))
      (call $must (i32.eq (global.get $own) (local.get $number)))
      (call $ended) (return)))
    (if (call $is (i32.const 0x6c)) (then (call $count (i32.const 0) (i32.const 20)) (call $ended) (return)))
    (if (call $is (i32.const 0x6e)) (then (call $notified) (return)))
    (if (call $is (i32.const 0x74)) (then (call $timed) (return)))
    (if (call $is (i32.const 0x67)) (then (call $grow) (return)))
    (if (call $is (i32.const 0x6f)) (then (call $lines (local.get $argument) (i32.const 10)) (call $ended) (return)))
    (if (call $is (i32.const 0x62)) (then (call $never)))
    (if (call $is (i32.const 0x6a)) (then (call $ended) (return)))
    (if (call $is (i32.const 0x64)) (then (call $chain (local.get $argument)) (return)))
    ;; Of the six threads two wait, one sleeps, two spin, and the last one ends all.
    (if (i32.le_u (local.get $argument) (i32.const 2)) (then (call $never)))
    (if (i32.eq (local.get $argument) (i32.const 3)) (then (call $hour)))
    (if (i32.le_u (local.get $argument) (i32.const 5)) (then
      (if (call $is (i32.const 0x6b)) (then (call $never)))
      (call $spin)))
    (if (call $is (i32.const 0x78)) (then (call $culprit)))
    (if (call $is (i32.const 0x65)) (then (call $exit (i32.const 7))))
    (if (call $is (i32.const 0x66)) (then (call $spin)))
    (call $never)))
