;; A loop is a safepoint; its parameters and locals stay in registers.
(module
  (func (export "sum") (param $n i64) (result i64)
    (local $sum i64)
    (loop $next
      (local.set $sum (i64.add (local.get $sum) (local.get $n)))
      (local.tee $n (i64.sub (local.get $n) (i64.const 1)))
      (br_if $next (i64.ne (i64.const 0))))
    (local.get $sum)))

;; --- what is emitted ---
;; .func (.param .align 8 .b8 ret[16]) f0 (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b64 a0)
;; {
;;   .reg .b64 %d<5>;
;;   .reg .pred %p<1>;
;;   .reg .b64 %inst, %fuel, %mem, %len, %st;
;;   .reg .b32 %fl, %fh, %ft, %lim;
;;   .reg .b64 %out;
;;   .reg .b32 %depth, %tc, %to, %low;
;;   .reg .pred %sp;
;;   ld.param.b64 %inst, [inst];
;;   ld.param.b64 %fuel, [fuel];
;;   ld.param.b32 %depth, [depth];
;;   ld.param.b64 %d0, [a0];
;;   mov.b64 %d2, 0;
;; $L2:
;;   cvt.u32.u64 %ft, %fuel;
;; $L4:
;;   and.b32 %lim, %ft, -1024;
;; $L1:
;;   mov.b64 {%fl, %fh}, %fuel;
;;   setp.eq.s32 %sp, %fl, %lim;
;;   @%sp bra $L3;
;; $L6:
;;   add.s32 %fl, %fl, -1;
;;   mov.b64 %fuel, {%fl, %fh};
;;   add.s64 %d3, %d2, %d0;
;;   mov.b64 %d2, %d3;
;;   sub.s64 %d4, %d0, 1;
;;   mov.b64 %d0, %d4;
;;   setp.ne.s64 %p0, %d4, 0;
;;   @%p0 bra $L1;
;;   mov.b64 %out, %inst;
;;   bra $L7;
;; $L3:
;;   sub.s32 %ft, %fl, %lim;
;;   cvt.u64.u32 %out, %ft;
;; $L7:
;;   setp.eq.s64 %sp, %out, 0;
;;   @%sp bra $L8;
;;   mov.b64 %d1, %d2;
;; $L0:
;;   st.param.b64 [ret], %fuel;
;;   st.param.b64 [ret+8], %d1;
;;   ret;
;; $L8:
;;   mov.b32 %to, 36;
;;   mov.b32 %tc, 11;
;;   setp.eq.s64 %sp, %fuel, 0;
;;   @%sp bra $S;
;;   mov.b64 {%fl, %fh}, %fuel;
;;   setp.eq.s32 %sp, %fl, 0;
;;   @%sp add.s32 %fh, %fh, -1;
;;   mov.b64 %fuel, {%fl, %fh};
;;   ld.relaxed.sys.global.b32 %tc, [%inst+12];
;;   setp.eq.s32 %sp, %tc, 0;
;;   @%sp bra $L5;
;;   mov.b64 {%fl, %fh}, %fuel;
;;   setp.eq.s32 %sp, %fl, 0;
;;   @%sp add.s32 %fh, %fh, 1;
;;   mov.b64 %fuel, {%fl, %fh};
;;   mov.b32 %tc, 12;
;;   bra $S;
;; $L5:
;;   add.s32 %ft, %fl, -1;
;;   bra $L4;
;; $T:
;;   add.s64 %fuel, %fuel, 1;
;; $S:
;;   st.global.b32 [%inst+0], %tc;
;;   mov.b32 %tc, 0;
;;   st.global.b32 [%inst+4], %tc;
;;   st.global.b32 [%inst+8], %to;
;;   st.global.b64 [%inst+16], %fuel;
;;   mov.b64 %fuel, -1;
;; $U:
;;   st.param.b64 [ret], %fuel;
;;   ret;
;; }
