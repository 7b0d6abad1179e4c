;; Its second argument says what it does: m sends numbers to a child over a channel, s spawns children one after the
;; other and waits for each; c and e are those children.
(module
  (import "everwarp:gpu" "channel" (func $channel (param i32 i32 i32) (result i32)))
  (import "everwarp:gpu" "receive" (func $receive (param i32 i32 i32) (result i32)))
  (import "everwarp:gpu" "send" (func $send (param i32 i32 i32) (result i32)))
  (import "everwarp:gpu" "close" (func $close (param i32) (result i32)))
  (import "everwarp:gpu" "spawn" (func $spawn (param i32 i32 i32 i32 i32 i32) (result i64)))
  (import "everwarp:gpu" "wait" (func $wait (param i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  ;; The arguments of children: a name, and what they do.
  (data (i32.const 64) "k\00c\00k\00e\00")
  (func $must (param $good i32) (if (i32.eqz (local.get $good)) (then unreachable)))
  ;; Waits for a child, which must have ended well.
  (func $await (param $pid i64)
    (call $must (i64.gt_s (local.get $pid) (i64.const 0)))
    (call $must (i32.eqz (call $wait (local.get $pid) (i32.const 8))))
    (call $must (i32.eqz (i32.or (i32.load (i32.const 8)) (i32.load (i32.const 12))))))

  ;; Sends 0 to 999 to a child, through a channel with room for two.
  (func $messages (local $n i32) (local $pid i64)
    (call $must (i32.eqz (call $channel (i32.const 2) (i32.const 8) (i32.const 0))))
    (local.set $pid (call $spawn (i32.const 0) (i32.const 0) (i32.const 64) (i32.const 4) (i32.const 4) (i32.const 1)))
    (call $must (i32.eqz (call $close (i32.load (i32.const 4)))))
    (loop $more
      (i32.store (i32.const 16) (local.get $n))
      (call $must (i32.eqz (call $send (i32.load (i32.const 0)) (i32.const 16) (i32.const 4))))
      (br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 1000))))
    (call $must (i32.eqz (call $close (i32.load (i32.const 0)))))
    (call $await (local.get $pid)))
  ;; They must come in their order, and all.
  (func $take (local $n i32) (local $next i32)
    (block $closed
      (loop $more
        (local.set $n (call $receive (i32.const 0) (i32.const 16) (i32.const 8)))
        (br_if $closed (i32.eq (local.get $n) (i32.const -1)))
        (call $must (i32.eq (local.get $n) (i32.const 4)))
        (call $must (i32.eq (i32.load (i32.const 16)) (local.get $next)))
        (local.set $next (i32.add (local.get $next) (i32.const 1)))
        (br $more)))
    (call $must (i32.eq (local.get $next) (i32.const 1000))))

  ;; A thousand children.
  (func $series (local $n i32)
    (loop $more
      (call $await (call $spawn (i32.const 0) (i32.const 0) (i32.const 68) (i32.const 4) (i32.const 0) (i32.const 0)))
      (br_if $more (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 1000)))))

  (func (export "_start") (local $how i32)
    (call $must (i32.eqz (call $args_get (i32.const 1024) (i32.const 1056))))
    (local.set $how (i32.load8_u (i32.load (i32.const 1028))))
    (if (i32.eq (local.get $how) (i32.const 109)) (then (call $messages)))   ;; m
    (if (i32.eq (local.get $how) (i32.const 99)) (then (call $take)))        ;; c
    (if (i32.eq (local.get $how) (i32.const 115)) (then (call $series)))))   ;; s
